"""The state of one task: its strategy, the batch that is under way, and what came out so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from results.record import Candidate, Config, Outcome, Trial
from results.stats import median
from tuner.campaign.plan import Task
from tuner.search.base import Strategy

BATCH = 8
# How many of a task's fastest trials are timed again beside its default, so that noise does not choose.
CONTENDERS = 3


@dataclass(frozen=True, slots=True)
class Slot:
    """A candidate's place in a campaign."""

    task: TaskRun
    candidate: Candidate
    sequence: int


class TaskRun:
    """Asks a strategy for batches and shows it their results, in order, when a batch is whole.

    Batches depend on the seed and on earlier results alone. A resumed campaign therefore proposes the same batches
    again, and trials that are recorded already count as done.
    """

    def __init__(self, task: Task, strategy: Strategy, trials: int, stride: int, recorded: Mapping[str, Trial]) -> None:
        self.task = task
        self.trials: dict[str, Trial] = {}
        self._strategy = strategy
        self._budget = task.trials(trials)
        self._stride = stride
        self._recorded = recorded
        self._proposed: set[str] = set()
        self._batch: list[Candidate] = []
        self._exhausted = False

    @property
    def budget(self) -> int:
        return self._budget

    @property
    def finished(self) -> bool:
        """Whether every trial has its result and no more will be proposed."""
        return not self._missing() and (self._exhausted or len(self._proposed) >= self._budget)

    @property
    def batch_is_whole(self) -> bool:
        """Whether every trial of the last batch has its result."""
        return not self._missing()

    def next_slots(self) -> list[Slot]:
        """Propose a batch; its candidates that are not recorded yet. None while one is under way, or when finished."""
        if self._missing() or self.finished:
            return []
        self._strategy.observe([self.trials[candidate.id] for candidate in self._batch])
        first = len(self._proposed)
        # Whole batches, cut to the budget: with a larger one, a resumed campaign proposes the same again.
        self._batch = self._propose(BATCH)[: self._budget - first]
        self._exhausted = not self._batch
        for candidate in self._batch:
            if trial := self._recorded.get(candidate.id):
                self.trials[candidate.id] = trial
        return [
            Slot(self, candidate, self.task.index + self._stride * (first + position))
            for position, candidate in enumerate(self._batch)
            if candidate.id not in self.trials
        ]

    def record(self, trial: Trial) -> None:
        self.trials[trial.candidate.id] = trial

    def best(self) -> Trial | None:
        """The fastest exact trial by its median, or None."""
        exact = [trial for trial in self.trials.values() if trial.outcome is Outcome.OK]
        return min(exact, key=median_s, default=None)

    def contenders(self) -> list[Trial]:
        return contenders(self.task, self.trials.values())

    def _missing(self) -> list[Candidate]:
        return [candidate for candidate in self._batch if candidate.id not in self.trials]

    def _propose(self, count: int) -> list[Candidate]:
        """The default first of all; then what the strategy proposes, without what is known."""
        batch: list[Candidate] = [] if self._proposed else [self.task.default]
        self._proposed.update(candidate.id for candidate in batch)
        while len(batch) < count and (configs := self._strategy.propose(count - len(batch))):
            batch += self._unknown(configs)
        return batch

    def _unknown(self, configs: Sequence[Config]) -> list[Candidate]:
        fresh = []
        for config in configs:
            candidate = self.task.candidate(config)
            if candidate.id not in self._proposed:
                self._proposed.add(candidate.id)
                fresh.append(candidate)
        return fresh


def contenders(task: Task, trials: Iterable[Trial]) -> list[Trial]:
    """The fastest exact trials besides the default, which they must beat; none where the default is not exact."""
    exact = {trial.candidate.id: trial for trial in trials if trial.outcome is Outcome.OK}
    if exact.pop(task.default.id, None) is None:
        return []
    return sorted(exact.values(), key=median_s)[:CONTENDERS]


def median_s(trial: Trial) -> float:
    """Median seconds per call of an exact trial."""
    assert trial.measurement is not None
    return median(trial.measurement.times_s)


def task_rng(seed: int, task: Task) -> np.random.Generator:
    """The randomness of one task: of the seed and the layer, not of the layer's neighbours."""
    return np.random.default_rng([seed, *task.workload.key.encode()])
