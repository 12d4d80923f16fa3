"""How fast the configs are that were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from int8tune.results.drift import cost
from int8tune.results.record import Outcome, Trial
from int8tune.schedules.space import ConfigSpace


class Speeds:
    """Speeds by grid index, 0 for a config that failed; the last result of a config counts."""

    def __init__(self, space: ConfigSpace) -> None:
        self._space = space
        self._speeds: dict[int, float] = {}

    def take(self, trials: Sequence[Trial]) -> None:
        """Take in trials of this space."""
        for trial in trials:
            self._speeds[self._space.index(trial.candidate.config)] = speed_of(trial)

    def fastest(self) -> list[int]:
        """Grid indexes of the configs that work, the fastest first."""
        return fastest_of(self._speeds)


def fastest_of(speeds: Mapping[int, float]) -> list[int]:
    """Grid indexes of those that are not 0, the largest first; of equal ones the first of the grid."""
    return sorted((index for index, speed in speeds.items() if speed), key=lambda index: (-speeds[index], index))


def speed_of(trial: Trial) -> float:
    """The inverse of `results.drift.cost`; 0 for a candidate that failed, in whichever way."""
    return 1 / cost(trial) if trial.outcome is Outcome.OK else 0.0
