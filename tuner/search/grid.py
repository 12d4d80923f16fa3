"""Exhaustive search."""

from __future__ import annotations

from collections.abc import Sequence

from int8tune.results.record import Trial
from int8tune.schedules.space import Config, ConfigSpace
from int8tune.tuner.search.untried import Untried


class GridSearch:
    """All valid configs in the order in which the space counts them; a `Strategy`."""

    def __init__(self, space: ConfigSpace) -> None:
        self._untried = Untried(space, range(space.grid_size))

    def propose(self, n: int) -> list[Config]:
        return self._untried.take(n)

    def observe(self, trials: Sequence[Trial]) -> None:
        self._untried.mark_known(trial.candidate.config for trial in trials)
