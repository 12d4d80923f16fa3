"""Evolution of configs by selection, crossover and mutation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from int8tune.results.record import Trial
from int8tune.schedules.space import Config, ConfigSpace
from int8tune.tuner.cost_model.speeds import Speeds
from int8tune.tuner.search.untried import Untried, shuffled

# Random configs before the first generation.
FOUNDERS = 8
# The fastest configs, among which parents are chosen, and how many compete for each place.
POPULATION, TOURNAMENT = 16, 3
# The share of children with two parents; the others are mutants of one.
CROSSOVER = 0.5
# How often a child may be born that is known or invalid, before a random config takes its place.
ATTEMPTS = 20


class EvolutionarySearch:
    """Children of the fastest configs; a `Strategy`.

    Parents win tournaments among the fastest configs (Goldberg and Deb, 1991). A child takes each knob from either
    parent (uniform crossover; Syswerda, 1989), and each knob moves with probability 1 / knobs, most often by one step:
    neighbouring choices are alike. Where no new child is found, a random config takes its place.

    For spaces in which good values of different knobs combine, and features say little: it needs none. It takes more
    trials than a model that has learned something.
    """

    def __init__(self, space: ConfigSpace, rng: np.random.Generator) -> None:
        self._space = space
        self._rng = rng
        self._untried = Untried(space, shuffled(space.grid_size, rng))
        self._speeds = Speeds(space)
        self._founders = 0

    def propose(self, n: int) -> list[Config]:
        population = self._speeds.fastest()[:POPULATION]
        batch: list[Config] = []
        while len(batch) < n:
            if self._founders >= FOUNDERS and population and (child := self._child(population)) is not None:
                self._untried.mark_known([child])
                batch.append(child)
            elif fresh := self._untried.take(1):
                self._founders += 1
                batch += fresh
            else:
                break
        return batch

    def observe(self, trials: Sequence[Trial]) -> None:
        self._untried.mark_known([trial.candidate.config for trial in trials])
        self._speeds.take(trials)

    def _child(self, population: Sequence[int]) -> Config | None:
        """A valid config that is not known, or None after some attempts."""
        for _ in range(ATTEMPTS):
            child = self._mutated(self._crossed(population))
            if self._space.fault(child) is None and self._space.index(child) not in self._untried.known:
                return child
        return None

    def _crossed(self, population: Sequence[int]) -> Config:
        first, second = (self._space.at(self._winner(population)) for _ in range(2))
        if self._rng.random() >= CROSSOVER:
            return first
        return {name: value if self._rng.random() < 0.5 else second[name] for name, value in first.items()}

    def _winner(self, population: Sequence[int]) -> int:
        """The fastest of some that are drawn: the population is in the order of speed."""
        return population[int(self._rng.integers(len(population), size=TOURNAMENT).min())]

    def _mutated(self, config: Config) -> Config:
        """Each knob moved with probability 1 / knobs, by one step in two of three cases, two in most of the others."""
        mutant = dict(config)
        for knob in self._space.knobs:
            if self._rng.random() < 1 / len(self._space.knobs):
                distance = int(self._rng.geometric(2 / 3)) * (1 if self._rng.random() < 0.5 else -1)
                at = knob.choices.index(config[knob.name]) + distance
                mutant[knob.name] = knob.choices[min(max(at, 0), len(knob.choices) - 1)]
        return mutant
