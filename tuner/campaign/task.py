"""The state of one task: its strategy, the batch that is under way, and what came out so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from int8tune.results.drift import cost, fastest_first
from int8tune.results.record import Candidate, Config, Outcome, Trial
from int8tune.results.stats import median
from int8tune.tuner.campaign.budget import Standing
from int8tune.tuner.campaign.plan import Task
from int8tune.tuner.search.base import Forecaster, Strategy

BATCH = 8
# How many of a task's fastest trials are timed again beside its default, so that noise does not choose.
CONTENDERS = 3
CYCLE_S = 1e-9


@dataclass(frozen=True, slots=True)
class Slot:
    """A candidate's place in a campaign."""

    task: TaskRun
    candidate: Candidate
    sequence: int


class TaskRun:
    """Asks a strategy for batches and keeps their trials.

    Batches depend on the seed and on what was observed before. A resumed campaign therefore proposes the same batches
    again, and trials that are recorded already count as done.
    """

    def __init__(self, task: Task, strategy: Strategy, stride: int, recorded: Mapping[str, Trial]) -> None:
        self.task = task
        self.trials: dict[str, Trial] = {}
        self.proposed = 0
        self.batch: tuple[str, ...] = ()
        self.exhausted = False
        self._strategy = strategy
        self._stride = stride
        self._recorded = recorded
        self._present = {candidate.id: task.space.at(index) for index, candidate in task.named.items()}
        self._taken = {trial.sequence for trial in recorded.values()}
        self._known: set[str] = set()
        self._missing: set[str] = set()
        self._fastest: list[Trial] = []
        self._observed = 0
        self._best: Trial | None = None
        self._last_gain = 0.0
        self._forecast: float | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every trial that was proposed has its result."""
        return not self._missing

    def next_slots(self, most: int) -> list[Slot]:
        """Propose a batch of at most `most`, which `batch` has the ids of; its candidates that are not recorded yet."""
        # Whole batches, cut to the budget: with a larger one, a resumed campaign proposes the same again.
        whole = self._propose(BATCH)
        self.exhausted = len(whole) < BATCH
        batch = whole[:most]
        self.batch = tuple(candidate.id for candidate in batch)
        first, self.proposed = self.proposed, self.proposed + len(batch)
        for key in self.batch:
            if key in self._recorded:
                self._take(self._recorded[key])
        fresh = [(first + place, new) for place, new in enumerate(batch) if new.id not in self.trials]
        self._missing |= {candidate.id for _, candidate in fresh}
        return [Slot(self, candidate, self._sequence(position)) for position, candidate in fresh]

    def observe(self, trials: Sequence[Trial]) -> None:
        """Show the strategy a batch's trials; what it proposes and forecasts from now on may depend on them."""
        self._strategy.observe([self._as_present(trial) for trial in trials])
        self._observed += len(trials)
        before, self._best = self._best, _fastest_of([*trials, *([self._best] if self._best else [])])
        self._last_gain = _gain(before, self._best) if before and self._best else 0.0
        self._forecast = self._strategy.forecast() if isinstance(self._strategy, Forecaster) else None

    def _as_present(self, trial: Trial) -> Trial:
        """The trial with its config in the space's words, where an earlier version recorded it in others."""
        config = self._present.get(trial.candidate.id)
        return trial if config is None else replace(trial, candidate=replace(trial.candidate, config=config))

    def standing(self) -> Standing:
        """Where the layer stands, by what was observed."""
        return Standing(
            count=self.task.count,
            ops=2 * self.task.workload.macs,
            best_s=call_s(self._best) if self._best else None,
            trials=self._observed,
            batch=BATCH,
            last_gain=self._last_gain,
            forecast=self._forecast,
        )

    def record(self, trial: Trial) -> None:
        self._take(trial)
        self._missing.discard(trial.candidate.id)

    def best(self) -> Trial | None:
        """The fastest exact trial of those recorded, or None."""
        return self._fastest[0] if self._fastest else None

    def contenders(self) -> list[Trial]:
        """The fastest exact programs besides the default, which they must beat; none where the default is not exact.

        None where they are estimated, either: an estimate is the same each time.
        """
        default = self.trials.get(self.task.default.id)
        if default is None or default.measurement is None:
            return []
        return [trial for trial in self._fastest if trial is not default][:CONTENDERS]

    def _take(self, trial: Trial) -> None:
        self.trials[trial.candidate.id] = trial
        if trial.outcome is Outcome.OK:
            self._fastest = _fastest_programs([*self._fastest, trial], CONTENDERS + 1)

    def _sequence(self, position: int) -> int:
        """A number for the trial at a position. Records of a search that took other turns may have that one already."""
        number = self.task.index + self._stride * position
        while number in self._taken:
            number += self._stride
        self._taken.add(number)
        return number

    def _propose(self, count: int) -> list[Candidate]:
        """The default first of all; then what the strategy proposes, without what is known."""
        batch = [] if self.task.default.id in self._known else [self.task.default]
        self._known.update(candidate.id for candidate in batch)
        while len(batch) < count and (configs := self._strategy.propose(count - len(batch))):
            batch += self._unknown(configs)
        return batch

    def _unknown(self, configs: Sequence[Config]) -> list[Candidate]:
        fresh = []
        for config in configs:
            candidate = self.task.candidate(config)
            if candidate.id not in self._known:
                self._known.add(candidate.id)
                fresh.append(candidate)
        return fresh


def _fastest_programs(trials: Sequence[Trial], count: int) -> list[Trial]:
    """The fastest trials, each binary once, whatever the order of `trials`: the twins of a binary have one time."""
    binaries: dict[str, Trial] = {}
    for trial in sorted(trials, key=fastest_first):
        binaries.setdefault(trial.binary, trial)
    return list(binaries.values())[:count]


def _fastest_of(trials: Sequence[Trial]) -> Trial | None:
    return min((trial for trial in trials if trial.outcome is Outcome.OK), key=fastest_first, default=None)


def _gain(before: Trial, after: Trial) -> float:
    """The share of a call's time that was saved."""
    return 1 - cost(after) / cost(before)


def call_s(trial: Trial) -> float:
    """Seconds of a call, to weigh layers against each other: the median, or at 1 GHz what is estimated."""
    return trial.estimate.cycles * CYCLE_S if trial.estimate else median_s(trial)


def median_s(trial: Trial) -> float:
    """Median seconds per call of an exact trial."""
    assert trial.measurement is not None
    return median(trial.measurement.times_s)


def task_rng(seed: int, task: Task) -> np.random.Generator:
    """The randomness of one task: of the seed and the layer, not of the layer's neighbours."""
    return np.random.default_rng([seed, *task.workload.key.encode()])
