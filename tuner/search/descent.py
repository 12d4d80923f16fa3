"""Local descent: from the fastest config to its fastest neighbour, and on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from int8tune.results.record import Trial
from int8tune.schedules.space import Config, ConfigSpace
from int8tune.tuner.cost_model.speeds import Speeds
from int8tune.tuner.search.untried import Untried, shuffled

# Random configs that the first descent may start from, besides what was observed.
STARTS = 4


class LocalDescent:
    """The neighbours of the fastest config, one step away in one knob; a `Strategy`.

    When all of them are known and none is faster, it is at a local optimum: the neighbours of the next fastest config
    follow, and a random one with every batch, from which another descent may start (iterated local search; Hoos and
    Stuetzle, Stochastic Local Search, 2004).

    To polish what another strategy or a good default found: near an optimum nothing is cheaper. From a bad start it
    stays in the first valley.
    """

    def __init__(self, space: ConfigSpace, rng: np.random.Generator) -> None:
        self._space = space
        self._rng = rng
        self._untried = Untried(space, shuffled(space.grid_size, rng))
        self._speeds = Speeds(space)
        self._started = 0

    def propose(self, n: int) -> list[Config]:
        if n < 1:
            return []
        missing = max(0, STARTS - self._started)
        batch = self._untried.take(min(n, max(1, missing)) if n > 1 or missing else 0)
        self._started += len(batch)
        for config in self._neighbours():
            if len(batch) == n:
                break
            self._untried.mark_known([config])
            batch.append(config)
        return [*batch, *self._untried.take(n - len(batch))]

    def observe(self, trials: Sequence[Trial]) -> None:
        self._untried.mark_known([trial.candidate.config for trial in trials])
        self._speeds.take(trials)

    def _neighbours(self) -> Iterator[Config]:
        """Those that are not known, of the fastest config first, each config's in random order."""
        for index in self._speeds.fastest():
            near = self._space.neighbours(self._space.at(index))
            for at in self._rng.permutation(len(near)):
                if self._space.index(near[at]) not in self._untried.known:
                    yield near[at]
