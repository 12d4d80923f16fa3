"""The simulated farm: a clock that jumps from event to event, devices, and coordinators that may die."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from int8tune.rpc.farm.entries import Entry
from int8tune.rpc.farm.events import (
    Built,
    CanaryAnswered,
    Command,
    Event,
    Open,
    PowerCycle,
    Refused,
    Submit,
    Tick,
)
from int8tune.rpc.farm.ledger import Ledger
from int8tune.rpc.farm.scheduler import Scheduler
from int8tune.rpc.farm.simulation.device import Device
from int8tune.rpc.farm.simulation.values import Candidate, Fault, Kill, SimulatedBoard
from int8tune.rpc.farm.values import Campaign, Rules, Trial, Verdict

Line = Mapping[str, Any]
Watcher = Callable[[float, Event | Entry | Command | Fault | Kill], None]
SchedulerMaker = Callable[[Ledger | None, Callable[[], float]], Scheduler]


class SimulatedFarm:
    """Runs campaigns on simulated boards until each trial has its final state.

    The same seed gives the same run. The scheduler is the real one: it gets events and the time, and nothing else.

    Attributes:
        now_s: the simulated time.
        journal: what coordinators wrote, in order.
        devices: by name.
    """

    def __init__(
        self,
        boards: Sequence[SimulatedBoard],
        campaigns: Mapping[Campaign, Sequence[Candidate]],
        *,
        seed: int = 0,
        rules: Rules | None = None,
        faults: Iterable[Fault] = (),
        kills: Iterable[Kill] = (),
        depth: int | None = None,
        watch: Watcher = lambda _now_s, _what: None,
        keep_journal: bool = True,
        make_scheduler: SchedulerMaker | None = None,
    ) -> None:
        """
        Args:
            depth: how many trials of each campaign wait for a board; None: two for each board.
            watch: is told everything that happens, in order.
            keep_journal: whether coordinators may die; without it, long runs need no more memory than short ones.
        """
        self.now_s = 0.0
        self.journal: list[Entry] = []
        self._rng = np.random.default_rng(seed)
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0
        self._steps = 0
        self._kills = sorted(kills, key=lambda kill: kill.after_steps)
        self._watch = watch
        self._keeps_journal = keep_journal
        self._campaigns = {campaign: list(candidates) for campaign, candidates in campaigns.items()}
        self._next: dict[Campaign, int] = {}
        self._depth = depth or 2 * len(boards)
        specs = [spec.board for spec in boards]
        rules = rules or Rules()
        self._make = make_scheduler or (lambda ledger, jitter: Scheduler(specs, rules, jitter, ledger))
        known = {c.trial.id: c for candidates in self._campaigns.values() for c in candidates}
        self.devices = {
            spec.board.name: Device(spec, self, known, self._deliver, rng)
            for spec, rng in zip(boards, self._rng.spawn(len(boards)), strict=True)
        }
        for fault in faults:
            self._at(fault.at_s, partial(self._begin_fault, fault))
        self._tick_s = float("inf")
        self.scheduler: Scheduler | None = None
        self._revive()

    # The clock

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Do something after a while."""
        self._at(self.now_s + delay_s, action)

    def _at(self, when_s: float, action: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (when_s, self._serial, action))

    def run(self, limit_s: float = float("inf")) -> bool:
        """Let time pass until all trials are concluded; whether they were by `limit_s`."""
        while not self.finished:
            when_s, _, action = heapq.heappop(self._heap)
            if when_s > limit_s:
                return False
            self.now_s = when_s
            action()
        return True

    @property
    def finished(self) -> bool:
        """Whether every trial was submitted and none is open."""
        scheduler = self.scheduler
        if scheduler is None or scheduler.ledger.open:
            return False
        return all(self._next[campaign] >= len(trials) for campaign, trials in self._campaigns.items())

    # The coordinator

    def _revive(self) -> None:
        """Start a coordinator with what the journal has."""
        ledger = Ledger.of(self.journal) if self.journal else None
        self.scheduler = self._make(ledger, self._rng.random)
        self._tick_s = float("inf")
        # Campaigns that go on submit all their trials again: those that are known are not taken twice.
        self._next = dict.fromkeys(self._campaigns, 0)
        decision = self.scheduler.start(self.now_s)
        if self._carry_out(decision.entries, decision.commands):
            for campaign in self._campaigns:
                self._deliver(Open(campaign))
            self._submit()

    def _deliver(self, event: Event) -> None:
        """An event reaches the coordinator, if there is one."""
        scheduler = self.scheduler
        if scheduler is None:
            return
        self._watch(self.now_s, event)
        decision = scheduler.handle(self.now_s, event)
        if not self._carry_out(decision.entries, decision.commands):
            return
        if isinstance(event, CanaryAnswered) and not any(isinstance(c, Refused) for c in decision.commands):
            self.devices[event.board].canary_was_heard(event.fence)
        next_s = scheduler.next_s
        if next_s is not None and next_s < self._tick_s:
            self._tick_s = next_s
            self._at(max(next_s, self.now_s), partial(self._tick, scheduler, next_s))
        if decision.entries and not isinstance(event, Open | Submit):
            self._submit()

    def _tick(self, scheduler: Scheduler, due_s: float) -> None:
        if scheduler is self.scheduler and due_s == self._tick_s:
            self._tick_s = float("inf")
            self._deliver(Tick())

    def _carry_out(self, entries: Iterable[Entry], commands: Iterable[Command]) -> bool:
        """Write entries, all or none, then carry out commands; whether the coordinator lived until the end."""
        entries = tuple(entries)
        if entries and self._dies():
            return False
        if self._keeps_journal:
            self.journal += entries
        for entry in entries:
            self._watch(self.now_s, entry)
        if entries and self._dies():
            return False
        for command in commands:
            self._watch(self.now_s, command)
            if isinstance(command, PowerCycle):
                self.devices[command.board].power_cycle()
            elif not isinstance(command, Refused):
                self.devices[command.board].receive(command)
            if self._dies():
                return False
        return True

    def _dies(self) -> bool:
        self._steps += 1
        if not self._kills or self._steps < self._kills[0].after_steps:
            return False
        kill = self._kills.pop(0)
        self._watch(self.now_s, kill)
        self.scheduler = None
        self.later(kill.away_s, self._revive)
        return True

    def _submit(self) -> None:
        """Let as many trials of each campaign wait as it wants."""
        for campaign, candidates in self._campaigns.items():
            while (scheduler := self.scheduler) and self._next[campaign] < len(candidates):
                candidate = candidates[self._next[campaign]]
                known = scheduler.ledger.knows(candidate.trial)
                if not known and scheduler.waiting(campaign.name) >= self._depth:
                    break
                self._next[campaign] += 1
                self._deliver(Submit(candidate.trial))
                if not candidate.trial.built:
                    self.later(candidate.build_s, partial(self._deliver, self._built(candidate)))

    def _built(self, candidate: Candidate) -> Built:
        failed = candidate.verdict is Verdict.BUILD_FAILED
        return Built(candidate.trial.id, "it does not compile" if failed else "")

    # Faults

    def _begin_fault(self, fault: Fault) -> None:
        self._watch(self.now_s, fault)
        self.devices[fault.board].begin(fault)
        self.later(fault.lasts_s, partial(self.devices[fault.board].end, fault))


def trials_of(campaign: str, target: str, count: int, **fields: Any) -> list[Trial]:
    """Trials of one kind."""
    return [Trial(f"{campaign}-{number}", campaign, target, **fields) for number in range(count)]
