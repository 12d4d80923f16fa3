"""What the words of a report mean."""

from __future__ import annotations

from collections.abc import Mapping

from int8tune.results.summary import CampaignSummary, Verdict

MEANING = {
    Verdict.FASTER: "a challenger beat the default in duels: its whole interval is above 1",
    Verdict.DEFAULT: "no candidate was faster than the default by enough to matter",
    Verdict.NOISE: "a candidate looked faster, but its duels can't tell it from the default",
    Verdict.NOT_COMPARED: "a candidate looked faster, but was not yet timed against the default",
    Verdict.DEFAULT_FAILED: "the default failed; the fastest verified candidate is shown",
    Verdict.NOTHING: "no candidate was verified",
}
# Where nothing was timed.
OF_ESTIMATES = MEANING | {
    Verdict.FASTER: "a candidate is estimated to take fewer cycles than the default, by enough to matter",
    Verdict.DEFAULT: "no candidate is estimated to be faster than the default by enough to matter",
    Verdict.DEFAULT_FAILED: "the default failed; the verified candidate with the lowest estimate is shown",
}


def meanings(summary: CampaignSummary) -> Mapping[Verdict, str]:
    """What the verdicts of a campaign mean."""
    return OF_ESTIMATES if summary.estimated_by else MEANING
