"""How a search went: each layer's trials, and the network's time, over the time that passed.

A trial's time is from another moment than the duels that a layer's default and best are told by. So the times of a
layer's trials are scaled to end at its best: one layer has one best, and one default, wherever they are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from int8tune.results.drift import cost
from int8tune.results.record import Outcome, Trial
from int8tune.results.summary import LayerRow, TimedSchedule
from int8tune.results.wall_clock import WallClock


@dataclass(frozen=True, slots=True)
class Attempt:
    """One trial of a layer.

    Attributes:
        at_s: since the campaign began.
        amount: seconds, or cycles where these are estimated; None if it failed.
    """

    sequence: int
    at_s: float
    outcome: Outcome
    amount: float | None


@dataclass(frozen=True, slots=True)
class Best:
    """What a layer takes from a moment on, in seconds or cycles."""

    at_s: float
    amount: float


@dataclass(frozen=True, slots=True)
class LayerCourse:
    """The trials of one layer in the order of time, and the best so far, which ends at the layer's best."""

    workload: str
    attempts: tuple[Attempt, ...]
    bests: tuple[Best, ...]


@dataclass(frozen=True, slots=True)
class SearchCourse:
    """A campaign's search.

    Attributes:
        layers: those that have a best, in the order of the network.
        network: the network's time so far; layers that were not tried yet count as at their default.
    """

    layers: tuple[LayerCourse, ...]
    network: tuple[Best, ...]
    total_s: float


Note = tuple[str, int, str, Outcome, float | None]
"""The time of a trial's record, its sequence, its candidate's id, how it ended and its cost."""


@dataclass(slots=True)
class CourseNotes:
    """What a search's course needs of its trials, while they go by."""

    notes: dict[str, list[Note]] = field(default_factory=dict)

    def add(self, trial: Trial) -> None:
        value = cost(trial) if trial.outcome is Outcome.OK else None
        note = (trial.started_at, trial.sequence, trial.candidate.id, trial.outcome, value)
        self.notes.setdefault(trial.candidate.workload, []).append(note)

    def course(self, rows: Sequence[LayerRow], clock: WallClock) -> SearchCourse:
        layers = [
            layer
            for row in rows
            if row.best is not None and (layer := _layer(row, row.best, self.notes.get(row.workload, []), clock))
        ]
        counts = {row.workload: row.count for row in rows}
        return SearchCourse(tuple(layers), _network(layers, counts), clock.total_s)


def amount_of(timed: TimedSchedule) -> float:
    """Seconds, or cycles where these are estimated."""
    return timed.median_s if timed.median_s is not None else timed.estimated_cycles or 0.0


def _layer(row: LayerRow, best: TimedSchedule, notes: Iterable[Note], clock: WallClock) -> LayerCourse | None:
    placed = sorted((clock.at(note[0]) or 0.0, *note[1:]) for note in notes)
    found = next(((at_s, value) for at_s, _, name, _, value in placed if name == best.candidate.id and value), None)
    if found is None:
        return None
    (found_s, reference), final = found, amount_of(best)
    default = row.default
    attempts = []
    for at_s, sequence, name, outcome, value in placed:
        amount = None if value is None else final * value / reference
        if default is not None and name == default.candidate.id:
            amount = amount_of(default)
        attempts.append(Attempt(sequence, at_s, outcome, amount))
    start = amount_of(default) if default is not None else None
    return LayerCourse(row.workload, tuple(attempts), _bests(attempts, start, Best(found_s, final)))


def _bests(attempts: Sequence[Attempt], start: float | None, final: Best) -> tuple[Best, ...]:
    """The steps from the default down to the best, which was found when its trial was made, and no earlier.

    A trial that looked faster than the best was not, when they were timed in turn.
    """
    first_s = attempts[0].at_s
    steps: list[Best] = [] if start is None else [Best(first_s, max(start, final.amount))]
    for attempt in attempts:
        amount = attempt.amount
        is_between = amount is not None and amount > final.amount and attempt.at_s < final.at_s
        if amount is not None and is_between and (not steps or amount < steps[-1].amount):
            steps.append(Best(attempt.at_s, amount))
    return tuple(steps) if steps and steps[-1].amount == final.amount else (*steps, final)


def _network(layers: Sequence[LayerCourse], counts: Mapping[str, int]) -> tuple[Best, ...]:
    """The sum of the layers' best so far, times how often the network runs them."""
    now = {layer.workload: layer.bests[0].amount for layer in layers}
    steps = [(step.at_s, layer.workload, step.amount) for layer in layers for step in layer.bests]
    steps.sort(key=lambda step: (step[0], -step[2]))
    total = [Best(0.0, sum(counts[workload] * amount for workload, amount in now.items()))]
    for at_s, workload, amount in steps:
        now[workload] = amount
        summed = sum(counts[name] * value for name, value in now.items())
        if summed != total[-1].amount:
            total.append(Best(at_s, summed))
    return tuple(total)
