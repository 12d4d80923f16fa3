"""Whose turn it is: a campaign's search is a sequence of turns, and each turn is a batch of trials of one layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from int8tune.results.record import Trial
from int8tune.tuner.campaign.budget import expected_saving_s, is_worth_a_batch, most_promising
from int8tune.tuner.campaign.task import BATCH, Slot, TaskRun

# Turns that may be under way at once: enough to keep builds and the device at work while the last of them end.
MOST_OPEN = 3


class Turns(Protocol):
    """Proposes the trials of a campaign, turn by turn.

    What a turn proposes depends on the seed, on the turns before it and on their trials, never on the moment. So a
    campaign that goes on repeats its turns, and trials that are recorded count as done.
    """

    def next_slots(self) -> list[Slot]:
        """Trials of the next turn that are not recorded yet; none where it has to wait for others, or none are left."""

    def take_finished(self) -> list[TaskRun]:
        """Layers that will have no more turns and whose trials are all recorded, each once."""

    @property
    def open(self) -> int:
        """How many layers were not taken as finished yet."""


class _Unfinished:
    """Runs of which trials are still to come."""

    def __init__(self, runs: Sequence[TaskRun]) -> None:
        self._runs = list(runs)

    def __len__(self) -> int:
        return len(self._runs)

    def take(self, goes_on: Callable[[TaskRun], bool]) -> list[TaskRun]:
        """Take out those that get no further turn and whose trials are all known."""
        finished = [run for run in self._runs if not goes_on(run) and run.is_whole]
        self._runs = [run for run in self._runs if run not in finished]
        return finished


class EvenTurns:
    """Layers have turns in their order, each until its own budget is used; for strategies that learn nothing.

    No turn waits for another, so nothing of it depends on results.
    """

    def __init__(self, runs: Sequence[TaskRun], trials_per_task: int) -> None:
        self._budgets = {run.task.index: run.task.trials(trials_per_task) for run in runs}
        self._rotation = list(runs)
        self._unfinished = _Unfinished(runs)

    def next_slots(self) -> list[Slot]:
        while self._rotation:
            run = self._rotation.pop(0)
            slots = run.next_slots(min(BATCH, self._budgets[run.task.index] - run.proposed))
            if not run.exhausted and run.proposed < self._budgets[run.task.index]:
                self._rotation.append(run)
            if slots:
                return slots
        return []

    def take_finished(self) -> list[TaskRun]:
        return self._unfinished.take(lambda run: run in self._rotation)

    @property
    def open(self) -> int:
        return len(self._unfinished)


@dataclass(frozen=True, slots=True)
class _Turn:
    run: TaskRun
    trials: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        return all(candidate in self.run.trials for candidate in self.trials)


class GainTurns:
    """After one batch for each layer, each turn goes to the layer where it is expected to shorten the network most.

    A turn is decided when all turns but the last few are whole, and depends on exactly those: up to `MOST_OPEN` turns
    are open at a time, always of different layers, so that nobody waits for the last trial of a batch. A layer's own
    trials are therefore all known to its next turn.

    The budget is that of the whole campaign. Turns are the same whatever it is, up to where it ends.
    """

    def __init__(
        self,
        runs: Sequence[TaskRun],
        trials_per_task: int,
        min_gain: float,
        learned: Callable[[Iterable[Trial]], None] = lambda _: None,
    ) -> None:
        """`learned` is told the trials of each turn that the turns after it may depend on."""
        self._runs = list(runs)
        self._first = min(BATCH, trials_per_task)
        self._left = trials_per_task * len(runs)
        self._min_gain = min_gain
        self._learned = learned
        self._turns: list[_Turn] = []
        self._known = 0
        self._going = list(runs)
        self._unfinished = _Unfinished(runs)

    def next_slots(self) -> list[Slot]:
        while self._left > 0 and self._going and self._know_enough():
            run = self._choose()
            if run is None:
                if self._going and not self._know_one_more():
                    return []
            elif slots := self._give_turn(run):
                return slots
        return []

    def take_finished(self) -> list[TaskRun]:
        return self._unfinished.take(lambda run: self._left > 0 and run in self._going)

    @property
    def open(self) -> int:
        return len(self._unfinished)

    def _know_enough(self) -> bool:
        """Take in the turns that the next one depends on, if they are whole."""
        most_open = min(MOST_OPEN, (len(self._going) + 1) // 2)
        while len(self._turns) - self._known >= most_open:
            if not self._know_one_more():
                return False
        return True

    def _know_one_more(self) -> bool:
        turn = self._turns[self._known]
        if not turn.is_whole:
            return False
        self._known += 1
        trials = [turn.run.trials[candidate] for candidate in turn.trials]
        turn.run.observe(trials)
        self._learned(trials)
        return True

    def _choose(self) -> TaskRun | None:
        """The layer whose turn it is; None where more has to be known first, or no layer is left."""
        if len(self._turns) < len(self._runs):
            return self._runs[len(self._turns)]
        open_now = {turn.run.task.index for turn in self._turns[self._known :]}
        able = [run for run in self._going if run.task.index not in open_now]
        standings = {run.task.index: run.standing() for run in able}
        hopeless = [run for run in able if not is_worth_a_batch(standings[run.task.index], self._min_gain)]
        self._going = [run for run in self._going if run not in hopeless]
        able = [run for run in able if run not in hopeless]
        return able[most_promising([standings[run.task.index] for run in able])] if able else None

    def _give_turn(self, run: TaskRun) -> list[Slot]:
        first = len(self._turns) < len(self._runs)
        before = run.proposed
        slots = run.next_slots(min(self._first if first else BATCH, self._left))
        self._left -= run.proposed - before
        self._turns.append(_Turn(run, run.batch))
        if run.exhausted:
            self._going.remove(run)
        return slots


class RoundTurns:
    """Turns in rounds, for a device that answers when a whole round was measured.

    A round is a batch for each layer that is worth one by all trials of the rounds before, the most promising first:
    the last round ends where the budget does. Rounds are the same whatever that is, up to where it ends.
    """

    def __init__(
        self,
        runs: Sequence[TaskRun],
        trials_per_task: int,
        min_gain: float,
        learned: Callable[[Iterable[Trial]], None] = lambda _: None,
    ) -> None:
        """`learned` is told the trials of each round before the next one begins."""
        self._batch = min(BATCH, trials_per_task)
        self._left = trials_per_task * len(runs)
        self._min_gain = min_gain
        self._learned = learned
        self._round: list[_Turn] = []
        self._going = list(runs)
        self._unfinished = _Unfinished(runs)

    def next_slots(self) -> list[Slot]:
        while self._left > 0 and self._going and all(turn.is_whole for turn in self._round):
            self._learn()
            if slots := self._begin_round():
                return slots
        return []

    def take_finished(self) -> list[TaskRun]:
        return self._unfinished.take(lambda run: self._left > 0 and run in self._going)

    @property
    def open(self) -> int:
        return len(self._unfinished)

    def _learn(self) -> None:
        for turn in self._round:
            trials = [turn.run.trials[candidate] for candidate in turn.trials]
            turn.run.observe(trials)
            self._learned(trials)

    def _begin_round(self) -> list[Slot]:
        """The trials of the next round that are not recorded yet."""
        standings = {run.task.index: run.standing() for run in self._going}
        self._going = [run for run in self._going if is_worth_a_batch(standings[run.task.index], self._min_gain)]
        promising = sorted(self._going, key=lambda run: -expected_saving_s(standings[run.task.index]))
        self._round = []
        slots: list[Slot] = []
        for run in promising:
            before = run.proposed
            slots += run.next_slots(min(self._batch, self._left))
            self._left -= run.proposed - before
            self._round.append(_Turn(run, run.batch))
            if run.exhausted:
                self._going.remove(run)
        return slots
