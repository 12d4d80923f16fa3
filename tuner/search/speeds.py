"""How fast the configs are that were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from results.record import Outcome, Trial
from results.stats import median
from schedules.space import ConfigSpace


class Speeds:
    """Calls per second by grid index, 0 for a config that failed; the last result of a config counts."""

    def __init__(self, space: ConfigSpace) -> None:
        self._space = space
        self._calls_per_s: dict[int, float] = {}

    def take(self, trials: Sequence[Trial]) -> None:
        """Take in trials of this space."""
        for trial in trials:
            self._calls_per_s[self._space.index(trial.candidate.config)] = calls_per_s(trial)

    def fastest(self) -> list[int]:
        """Grid indexes of the configs that work, the fastest first."""
        return fastest_of(self._calls_per_s)


def fastest_of(speeds: Mapping[int, float]) -> list[int]:
    """Grid indexes of those that are not 0, the largest first; of equal ones the first of the grid."""
    return sorted((index for index, speed in speeds.items() if speed), key=lambda index: (-speeds[index], index))


def calls_per_s(trial: Trial) -> float:
    """By the median time; 0 for a candidate that failed, in whichever way."""
    if trial.outcome is not Outcome.OK or trial.measurement is None:
        return 0.0
    return 1 / median(trial.measurement.times_s)
