"""What the words of a report mean."""

from __future__ import annotations

from results.summary import Verdict

MEANING = {
    Verdict.FASTER: "a challenger beat the default in duels: its whole interval is above 1",
    Verdict.DEFAULT: "no candidate was faster than the default by enough to matter",
    Verdict.NOISE: "a candidate looked faster, but its duels can't tell it from the default",
    Verdict.NOT_COMPARED: "a candidate looked faster, but was not yet timed against the default",
    Verdict.DEFAULT_FAILED: "the default failed; the fastest verified candidate is shown",
    Verdict.NOTHING: "no candidate was verified",
}
