"""`int8tune report`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from int8tune.tuner.cli.options import DEFAULT_RESULTS, CampaignOption, DebugOption, ResultsOption
from int8tune.tuner.cli.output import say

PageArgument = Annotated[Path, typer.Argument(metavar="OUT.html", help="The file to write.")]


def report(
    page: PageArgument,
    results: ResultsOption = DEFAULT_RESULTS,
    campaign: CampaignOption = None,
    _debug: DebugOption = False,
) -> None:
    """Write the report of a campaign as one HTML page.

    Example: int8tune report resnet50.html --campaign resnet50
    """
    from int8tune.tuner.api.schedules import report as write

    written = write(page, results=results, campaign=campaign)
    say(f"report of {written.campaign}, {written.summary.totals.trials:,} trials  {page}")
