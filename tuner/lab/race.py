"""Strategies on recorded layers: a campaign of one layer, with results that are looked up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from int8tune.results.record import Trial
from int8tune.schedules.target import named_target
from int8tune.tuner.campaign.task import BATCH
from int8tune.tuner.campaign.teaching import Teacher
from int8tune.tuner.lab.lessons import Classroom
from int8tune.tuner.lab.recorded_layer import RecordedLayer, replayed
from int8tune.tuner.search.registry import Lessons, make_strategy
from int8tune.tuner.suggest import best_guess

WITH_OTHERS = "+others"
"""What follows a strategy's name where other layers taught it: those of the recording, the raced one left out."""
TOGETHER = "+campaign"
"""Where all layers of a target are tuned at once, from nothing, and learn from each other."""


@dataclass(frozen=True, slots=True)
class Run:
    """One strategy on one layer with one seed.

    Attributes:
        shares: of the recorded best that was reached after 1, 2, 3, ... trials.
    """

    strategy: str
    layer: str
    seed: int
    shares: tuple[float, ...]


def race(classroom: Classroom, strategies: Sequence[str], seeds: int, trials: int) -> Iterator[Run]:
    """All strategies on all layers with each seed.

    A strategy sees what it would in a campaign: batches of the same size, the template's default first.
    """
    for strategy in strategies:
        for seed in range(seeds):
            if strategy.endswith(TOGETHER):
                yield from _campaigns(classroom.layers, strategy, seed, trials)
                continue
            for index, layer in enumerate(classroom.layers):
                name = strategy.removesuffix(WITH_OTHERS)
                lessons = partial(classroom.prior_without, index) if name != strategy else lambda: None
                search = _Replay(layer, name, seed, trials, lessons)
                while search.step():
                    pass
                yield Run(strategy, layer.name, seed, tuple(search.shares))


def _campaigns(layers: Sequence[RecordedLayer], strategy: str, seed: int, trials: int) -> Iterator[Run]:
    """A campaign of all layers of a target: batches in turn, and a round's results teach all tasks in the next."""
    for target in dict.fromkeys(layer.target for layer in layers):
        teacher, known = Teacher(), named_target(target)
        searches = [
            _Replay(layer, strategy.removesuffix(TOGETHER), seed, trials, partial(teacher.prior, layer.template, known))
            for layer in layers
            if layer.target == target
        ]
        while sum(search.step() for search in searches):
            teacher.begin_round(trial for search in searches for trial in search.trials)
        for search in searches:
            yield Run(strategy, search.layer.name, seed, tuple(search.shares))


def zero_trial_share(classroom: Classroom, index: int) -> float | None:
    """The share of the best that a layer reaches with what the others suggest; None without others."""
    layer, prior = classroom.layers[index], classroom.prior_without(index)
    if prior is None:
        return None
    return _share(layer, layer.time_s(best_guess(layer.space, prior)))


def default_share(layer: RecordedLayer) -> float:
    """The share of the best that the template's default reaches."""
    return _share(layer, layer.time_s(dict(layer.space.default)))


def _share(layer: RecordedLayer, time_s: float | None) -> float:
    return layer.best_s / time_s if time_s else 0.0


class _Replay:
    """A strategy on a recorded layer, batch by batch, as `tuner.campaign.task.TaskRun` asks it.

    Attributes:
        shares: of the recorded best that was reached after each trial.
    """

    def __init__(self, layer: RecordedLayer, strategy: str, seed: int, trials: int, lessons: Lessons) -> None:
        self.layer = layer
        self.trials: list[Trial] = []
        self.shares: list[float] = []
        self._budget = trials
        rng = np.random.default_rng([seed, *layer.workload.encode()])
        self._search = make_strategy(strategy, layer.space, rng, lessons)
        self._seen: set[str] = set()

    def step(self) -> bool:
        """Propose a batch and look its results up; whether there was anything left to propose."""
        batch = [] if self._seen else [self.layer.candidate(self.layer.space.default)]
        while len(batch) < BATCH and (configs := self._search.propose(BATCH - len(batch))):
            known = {*self._seen, *(candidate.id for candidate in batch)}
            batch += [new for config in configs if (new := self.layer.candidate(config)).id not in known]
        batch = batch[: self._budget - len(self._seen)]
        results = [replayed(self.layer, new, len(self._seen) + index) for index, new in enumerate(batch)]
        self._search.observe(results)
        self.trials += results
        for candidate in batch:
            self._seen.add(candidate.id)
            reached = _share(self.layer, self.layer.time_s(dict(candidate.config)))
            self.shares.append(max(reached, self.shares[-1] if self.shares else 0.0))
        return bool(batch)
