"""What one campaign found for one task: its default, its fastest candidate, and who was timed against the default."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from int8tune.results.base import Store
from int8tune.results.drift import cost
from int8tune.results.errors import RecordError
from int8tune.results.record import Duel, Outcome, Trial, cache_mode
from int8tune.results.stats import ITSELF, Speedup, is_win, median_ratio, ratio_interval


class Task(NamedTuple):
    """One workload on one device, in one campaign: nothing is compared beyond it."""

    campaign: str
    workload: str
    target: str
    device: str


@dataclass(frozen=True)
class Rival:
    """A candidate and what its duels with the default say.

    Attributes:
        default_times_s, times_s: the pairs of these duels; without duels the trial's own times and none of the default;
            none at all of an estimate.
        known: a speedup that needs no pairs: of estimates, or of the default over itself.
    """

    trial: Trial
    default_times_s: tuple[float, ...]
    times_s: tuple[float, ...]
    known: Speedup | None = None

    @cached_property
    def speedup(self) -> Speedup | None:
        """From all its duels together; None if there are too few pairs to tell, or no default to compare with.

        An interval takes long beside all else that is read of a rival: it is computed for those that ask for it.
        """
        if self.known is not None or not self.default_times_s:
            return self.known
        try:
            return ratio_interval(self.default_times_s, self.times_s)
        except RecordError:
            return None

    @property
    def gain(self) -> float:
        """The speedup without its interval; 0 where there is none."""
        if self.known is not None:
            return self.known.estimate
        return median_ratio(self.default_times_s, self.times_s) if self.default_times_s else 0.0


@dataclass(frozen=True, slots=True)
class Contest:
    """What is known of one task.

    Attributes:
        default: the task's first trial, whatever its outcome; a campaign tries the template's default first.
        fastest: the `OK` trial that comes first by `results.drift`, if there is any.
        rivals: `OK` trials that were timed, or estimated, against the default, by sequence.
    """

    task: Task
    default: Trial
    fastest: Trial | None
    rivals: tuple[Rival, ...]

    @property
    def cache(self) -> str:
        """The mode in which the task's trials and duels were timed: one for a whole campaign."""
        return cache_mode(self.default.environment)

    def winner(self, min_gain: float) -> Rival | None:
        """The rival that beat the default by most, if one did beyond doubt."""
        if self.default.outcome is not Outcome.OK:
            return None
        found = (rival for rival in self._by_gain() if rival.speedup is not None and is_win(rival.speedup, min_gain))
        return next(found, None)

    def best(self, min_gain: float) -> Rival | None:
        """The winner; else the default; else, as that failed, the fastest. None if no candidate was verified."""
        winner = self.winner(min_gain)
        if winner is not None:
            return winner
        if self.default.outcome is Outcome.OK:
            strongest = self.strongest()
            times_s = strongest.default_times_s if strongest else _own_times_s(self.default)
            return Rival(self.default, times_s, times_s, ITSELF)
        return Rival(self.fastest, (), _own_times_s(self.fastest)) if self.fastest else None

    def strongest(self) -> Rival | None:
        """The rival that came out fastest in duels, beyond doubt or not."""
        return next((rival for rival in self._by_gain() if rival.speedup is not None), None)

    def _by_gain(self) -> list[Rival]:
        return sorted(self.rivals, key=lambda rival: -rival.gain)


def contests(
    store: Store,
    *,
    campaign: str | None = None,
    workload: str | None = None,
    target: str | None = None,
    device: str | None = None,
) -> Iterator[Contest]:
    """Every task that has a trial: campaigns in the order they were started, tasks in the order they were first tried.

    Keeps the trials in memory that matter, not all of them.
    """
    filters = {"campaign": campaign, "workload": workload, "target": target, "device": device}
    yield from contests_of(store.query(Duel, **filters), store.query(Trial, **filters))


def contests_of(duels: Iterable[Duel], trials: Iterable[Trial]) -> Iterator[Contest]:
    """The same of duels and trials that somebody else has asked for; the trials of a task by sequence."""
    pairs: dict[Task, dict[tuple[str, str], list[Duel]]] = {}
    for duel in duels:
        task = Task(duel.campaign, duel.workload, duel.target, duel.device)
        pairs.setdefault(task, {}).setdefault((duel.a, duel.b), []).append(duel)
    drafts: dict[Task, _Draft] = {}
    for trial in trials:
        task = task_of(trial)
        draft = drafts.setdefault(task, _Draft(trial, pairs.get(task, {})))
        draft.add(trial)
    for task, draft in drafts.items():
        yield Contest(task, draft.default, draft.fastest, tuple(draft.rivals))


def task_of(trial: Trial) -> Task:
    """The task that a trial belongs to."""
    return Task(trial.campaign, trial.candidate.workload, trial.candidate.target, trial.device)


@dataclass(slots=True)
class _Draft:
    """A contest while its trials go by."""

    default: Trial
    duels: dict[tuple[str, str], list[Duel]]
    fastest: Trial | None = None
    lowest: float = math.inf
    rivals: list[Rival] = field(default_factory=list)

    def add(self, trial: Trial) -> None:
        if trial.outcome is not Outcome.OK:
            return
        if (found := cost(trial)) < self.lowest:
            self.fastest, self.lowest = trial, found
        if trial.estimate is not None:
            self._add_estimate(trial)
            return
        duels = self.duels and self.duels.get((self.default.candidate.id, trial.candidate.id))
        if duels:
            self.rivals.append(_rival(trial, duels))

    def _add_estimate(self, trial: Trial) -> None:
        """An estimate is the same each time: no duels are needed to tell which one is lower."""
        if self.default.estimate is not None and trial is not self.default:
            ratio = cost(self.default) / cost(trial)
            self.rivals.append(Rival(trial, (), (), Speedup(ratio, ratio, ratio)))


def _rival(trial: Trial, duels: list[Duel]) -> Rival:
    # All pairs count: picking the best of several duels would turn noise into a win.
    a_times_s = tuple(time_s for duel in duels for time_s in duel.a_times_s)
    b_times_s = tuple(time_s for duel in duels for time_s in duel.b_times_s)
    return Rival(trial, a_times_s, b_times_s)


def _own_times_s(trial: Trial) -> tuple[float, ...]:
    return trial.measurement.times_s if trial.measurement else ()
