"""Where a campaign's files are, once it has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from int8tune.tuner.cli.output import say

if TYPE_CHECKING:
    from int8tune.tuner.api.tune import CampaignResult


def say_files(result: CampaignResult) -> None:
    """Whether anything was left to do, and where the files are."""
    if result.nothing_left:
        say(f"nothing is left to do, {result.summary.totals.trials:,} trials are recorded")
    say(f"report    {result.report}")
    say(f"best log  {result.best_log}")
