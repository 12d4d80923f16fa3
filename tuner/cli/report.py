"""`int8tune report`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from int8tune.tuner.cli.options import DEFAULT_RESULTS, CampaignOption, DebugOption, ResultsOption
from int8tune.tuner.cli.output import say

OutArgument = Annotated[
    Path, typer.Argument(metavar="OUT", help="The file to write: .html, .md, .csv, .json or .parquet.")
]
AgainstOption = Annotated[
    str | None,
    typer.Option("--against", metavar="OLD", help="What changed since these results; `results compare` reads them."),
]
AcrossOption = Annotated[
    bool, typer.Option("--across-devices", help="Compare other devices, targets, threads and caches, too.")
]


def report(
    out: OutArgument,
    results: ResultsOption = DEFAULT_RESULTS,
    campaign: CampaignOption = None,
    against: AgainstOption = None,
    across_devices: AcrossOption = False,
    _debug: DebugOption = False,
) -> None:
    """Write the report of a campaign.

    Example: int8tune report resnet50.html --campaign resnet50
    """
    from int8tune.tuner.api.reporting import report as write

    written = write(out, results=results, campaign=campaign, against=against, across_devices=across_devices)
    say(f"report of {written.campaign}, {written.summary.totals.trials:,} trials  {out}")
