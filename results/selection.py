"""The trials that decide something, of any store: those that can find them don't read the others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from int8tune.results.base import Before, CountingStore, SelectiveStore, Store, Tally
from int8tune.results.contest import Task, task_of
from int8tune.results.record import Duel, Outcome, Trial

CANDIDATES_AT_ONCE = 1000
"""That a store is asked for, as databases limit how many values a statement may have."""


def deciding_trials(store: Store, duels: Sequence[Duel], filters: Mapping[str, str | None]) -> Iterator[Trial]:
    """What `results.contest.contests_of` needs for the best of each task: its first trial, then others by sequence.

    Where the first one is exact and was timed, no other can be best that has no duel with it, and those are left out.

    Args:
        duels: of the same filters, which are those of `Store.query`.
    """
    if not isinstance(store, SelectiveStore):
        yield from store.query(Trial, **filters)
        return
    rivals: dict[str, set[str]] = defaultdict(set)
    firsts = list(store.first_trials(**filters))
    by_task = {task_of(trial): trial for trial in firsts}
    for duel in duels:
        first = by_task.get(Task(duel.campaign, duel.workload, duel.target, duel.device))
        if first is not None and first.candidate.id == duel.a:
            rivals[duel.campaign].add(duel.b)
    yield from firsts
    whole = {task for task, first in by_task.items() if first.outcome is not Outcome.OK or first.estimate is not None}
    for campaign, candidates in rivals.items():
        found = [trial for some in _in_parts(sorted(candidates)) for trial in store.trials_of(campaign, some)]
        found = [trial for trial in found if _is_new(trial, by_task) and task_of(trial) not in whole]
        yield from sorted(found, key=lambda trial: trial.sequence)
    for task in whole:
        yield from (trial for trial in store.query(Trial, **task._asdict()) if _is_new(trial, by_task))


def spread_trials(store: Store, before: Before, most: int) -> Iterator[Trial]:
    """As `SelectiveStore.spread_trials` says it, of any store."""
    if isinstance(store, SelectiveStore):
        yield from store.spread_trials(before, most)
        return
    step = stride(sum(1 for _ in _begun(store, before)), most)
    places: Counter[Task] = Counter()
    for trial in _begun(store, before):
        task = task_of(trial)
        if places[task] % step == 0:
            yield trial
        places[task] += 1


def tally_of(store: Store, campaign: str) -> Tally:
    """As `CountingStore.tally` says it, of any store."""
    if isinstance(store, CountingStore):
        return store.tally(campaign)
    outcomes: dict[str, Counter[Outcome]] = {}
    last_at = ""
    for trial in store.query(Trial, campaign=campaign):
        outcomes.setdefault(trial.candidate.workload, Counter())[trial.outcome] += 1
        last_at = max(last_at, trial.started_at)
    return Tally(outcomes, last_at)


def stride(count: int, most: int) -> int:
    """The smallest step by which so many trials become at most `most`."""
    return max(1, -(-count // most))


def _in_parts(candidates: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(candidates), CANDIDATES_AT_ONCE):
        yield candidates[first : first + CANDIDATES_AT_ONCE]


def _begun(store: Store, before: Before) -> Iterator[Trial]:
    return (trial for trial in store.query(Trial, target=before.target, device=before.device) if before.has(trial))


def _is_new(trial: Trial, firsts: Mapping[Task, Trial]) -> bool:
    first = firsts.get(task_of(trial))
    return first is not None and trial.sequence != first.sequence
