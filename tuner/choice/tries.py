"""Which networks of a predicted front are tried, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from int8tune.tuner.choice.front import Predicted


@dataclass(slots=True)
class Tries:
    """Where on a predicted front to look next, for the fastest network whose drop is within a limit.

    Accuracy falls along the front towards the fast end, but for errors that cancel. So the border is sought by halving.
    What is left of the budget goes, in turn, to the next faster network beside what was found, where a lucky one may
    be, and to the place that is farthest from all that were tried, so that the front is known as a whole.

    Attributes:
        front: the fastest first.
        is_good: which of those that were tried have a drop within the limit, by their place; a failure is none.
    """

    front: Sequence[Predicted]
    is_good: dict[int, bool] = field(default_factory=dict)
    _turn: int = 0

    def next(self) -> int | None:
        """The place of the next one; None where all were tried."""
        if len(self.is_good) == len(self.front):
            return None
        found = self._halving()
        if found is None:
            self._turn += 1
            found = self._beside() if self._turn % 2 else None
        return self._farthest() if found is None else found

    def tried(self, place: int, is_good: bool) -> None:
        """Take what came of one."""
        self.is_good[place] = is_good

    def _halving(self) -> int | None:
        """The middle of what lies between the border's sides."""
        fast, slow = self._border()
        middle = (fast + slow) // 2
        return middle if middle not in self.is_good and fast < middle < slow else None

    def _beside(self) -> int | None:
        """The first one on the fast side of the fastest good one."""
        good = self._border()[1]
        return next((place for place in range(good - 1, -1, -1) if place not in self.is_good), None)

    def _border(self) -> tuple[int, int]:
        """The places of the slowest bad one beside the fastest good one, and of that."""
        good = min((place for place, is_good in self.is_good.items() if is_good), default=len(self.front))
        bad = max((place for place, is_good in self.is_good.items() if not is_good and place < good), default=-1)
        return bad, good

    def _farthest(self) -> int:
        left = [place for place in range(len(self.front)) if place not in self.is_good]
        return max(left, key=lambda place: min(abs(place - each) for each in self.is_good))
