"""How long a campaign took, from the wall-clock times of its records.

They are labels: a clock may be set while a campaign runs, and a campaign may be stopped and go on a week later. So a
step back counts as no time, and so does a long silence.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

# Longer than any layer's builds, checks and duels without a record: nothing ran meanwhile.
LONGEST_STEP_S = 600.0


class WallClock:
    """Seconds since a campaign began, without pauses.

    Attributes:
        total_s: until its last record.
        pauses: how often it was silent for long.
    """

    def __init__(self, stamps: Iterable[str]) -> None:
        """
        Args:
            stamps: the times of its records, in ISO 8601, in any order; what is none is left out.
        """
        self._moments = {stamp: moment for stamp in stamps if (moment := seconds_of(stamp)) is not None}
        moments = sorted(set(self._moments.values()))
        self.total_s = 0.0
        self.pauses = 0
        self._since: dict[float, float] = {}
        before = moments[0] if moments else 0.0
        for moment in moments:
            step_s = moment - before
            self.pauses += step_s > LONGEST_STEP_S
            self.total_s += step_s if step_s <= LONGEST_STEP_S else 0.0
            self._since[moment] = self.total_s
            before = moment

    def at(self, stamp: str) -> float | None:
        """Seconds between the first record and the one with this time; None of what is no time."""
        moment = self._moments.get(stamp) or seconds_of(stamp)
        return None if moment is None else self._since.get(moment)


def seconds_of(stamp: str) -> float | None:
    """A time in ISO 8601 in seconds, in UTC where it does not say; None of what is none."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
