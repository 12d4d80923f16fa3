"""`int8tune report`"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from int8tune.tuner.cli.options import DEFAULT_RESULTS, CampaignOption, DebugOption, folder_or_url
from int8tune.tuner.cli.output import say

OutArgument = Annotated[
    str, typer.Argument(metavar="OUT", help="A file: .html, .md, .csv, .json, .parquet; OUT/: an index of all.")
]
PlacesOption = Annotated[
    list[Any] | None,
    typer.Option(
        "--results", metavar="DIR|URL", parser=folder_or_url, help="Folder or URL of the records; several for an index."
    ),
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
    results: PlacesOption = None,
    campaign: CampaignOption = None,
    against: AgainstOption = None,
    across_devices: AcrossOption = False,
    _debug: DebugOption = False,
) -> None:
    """Write the report of a campaign, or an index of all.

    Example: int8tune report resnet50.html --campaign resnet50

    Example: int8tune report site/ --results int8tune-results
    """
    from int8tune.tuner.api.index import ReportIndex
    from int8tune.tuner.api.reporting import report as write

    places = results or [DEFAULT_RESULTS]
    written = write(out, results=places, campaign=campaign, against=against, across_devices=across_devices)
    if isinstance(written, ReportIndex):
        for line in written.damaged:
            say(f"left out: {line}")
        campaigns = "campaign" if written.campaigns == 1 else "campaigns"
        say(f"index of {written.campaigns:,} {campaigns}  {written.page}")
        return
    say(f"report of {written.campaign}, {written.summary.totals.trials:,} trials  {out}")
