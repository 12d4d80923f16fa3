"""Uniformly random search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from int8tune.results.record import Trial
from int8tune.schedules.space import Config, ConfigSpace
from int8tune.tuner.search.untried import Untried, shuffled


class RandomSearch:
    """All valid configs in one random order, which depends on the seed alone; a `Strategy`."""

    def __init__(self, space: ConfigSpace, rng: np.random.Generator) -> None:
        self._untried = Untried(space, shuffled(space.grid_size, rng))

    def propose(self, n: int) -> list[Config]:
        return self._untried.take(n)

    def observe(self, trials: Sequence[Trial]) -> None:
        self._untried.mark_known(trial.candidate.config for trial in trials)
