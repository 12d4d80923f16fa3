"""A board that is played: it gets commands, and sends what a board would send, when it would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from int8tune.rpc.farm.events import Answered, CanaryAnswered, Cancel, Check, Dropped, Event, Heard, Reached, Start
from int8tune.rpc.farm.simulation.values import SICKNESSES, Candidate, Fault, FaultKind, SimulatedBoard
from int8tune.rpc.farm.values import Phase, Verdict

# What a board takes to notice that a candidate's limit is over.
_KILL_S = 0.1
_AGENT_RESTART_S = 1.0


class Clock(Protocol):
    """What a device needs of the world it is in."""

    now_s: float

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Do something after a while."""


class Device:
    """One board: a session at a time, and the faults that it has just now.

    Attributes:
        measured_s: by fence, what a candidate's kernel took.
    """

    def __init__(
        self,
        spec: SimulatedBoard,
        clock: Clock,
        candidates: dict[str, Candidate],
        deliver: Callable[[Event], None],
        rng: np.random.Generator,
    ) -> None:
        self.board, self.behaviour = spec.board, spec.behaviour
        self.measured_s: dict[int, float] = {}
        self._clock = clock
        self._candidates = candidates
        self._deliver = deliver
        self._rng = rng
        self._faults: dict[FaultKind, Fault] = {}
        self._session = 0
        self._boots = 1
        self._fence = 0
        self._held_out: list[Callable[[], None]] = []
        self._held_in: list[Callable[[], None]] = []
        self._slow_canaries: set[int] = set()
        self._slowness_shown = self._slow_until_shown = False
        clock.later(self._rng.random() * self.behaviour.heartbeat_s, self._beat)

    @property
    def sick(self) -> frozenset[FaultKind]:
        """The faults that it has."""
        return frozenset(self._faults)

    # Faults

    def begin(self, fault: Fault) -> None:
        if fault.kind in self._faults:
            return
        self._faults[fault.kind] = fault
        if fault.kind is FaultKind.SLOW:
            self._slowness_shown = self._slow_until_shown = False
        elif fault.kind is FaultKind.UNPLUG:
            self._session += 1
            self._boots += 1
        elif fault.kind is FaultKind.RESTART:
            self._boots += 1
            for sickness in SICKNESSES:
                self._faults.pop(sickness, None)
            self._crash()
        elif fault.kind is FaultKind.CRASH:
            self._crash()

    def end(self, fault: Fault) -> None:
        """The fault's time is over. Slowness stays until a canary has shown it, as that of a core that gets too hot."""
        if self._faults.get(fault.kind) is not fault:
            return
        if fault.kind is FaultKind.SLOW and not self._slowness_shown:
            self._slow_until_shown = True
            return
        del self._faults[fault.kind]
        if fault.kind is FaultKind.FREEZE:
            held, self._held_out, self._held_in = [*self._held_out, *self._held_in], [], []
            for action in held:
                action()

    def canary_was_heard(self, fence: int) -> None:
        """The coordinator has taken this canary's answer, and will remember it."""
        if fence not in self._slow_canaries:
            return
        self._slowness_shown = True
        if self._slow_until_shown:
            self._faults.pop(FaultKind.SLOW, None)

    def power_cycle(self) -> None:
        """Off and on again: it is away for a while, and well afterwards."""
        self._session += 1
        self._faults.clear()
        self._held_out, self._held_in = [], []
        away = Fault(FaultKind.UNPLUG, self.board.name, self._clock.now_s, self.behaviour.reboot_s)
        self.begin(away)
        self._clock.later(self.behaviour.reboot_s, lambda: self.end(away))

    def _crash(self) -> None:
        fence, self._fence = self._fence, 0
        self._session += 1
        if fence:
            self._send(lambda: self._deliver(Dropped(self.board.name, fence, "the connection broke")))

    # Commands

    def receive(self, command: Start | Check | Cancel) -> None:
        """A command is on its way."""
        for _ in range(self._copies()):
            self._clock.later(self.behaviour.latency_s, lambda: self._arrive(command))

    def _arrive(self, command: Start | Check | Cancel) -> None:
        if FaultKind.UNPLUG in self._faults:
            return
        if FaultKind.FREEZE in self._faults:
            self._held_in.append(lambda: self._arrive(command))
        elif isinstance(command, Cancel):
            if command.fence == self._fence:
                self._session += 1
                self._fence = 0
        elif FaultKind.CRASH in self._faults:
            self._send(lambda: self._deliver(Dropped(self.board.name, command.fence, "connection refused")))
        elif command.fence > self._fence:
            self._begin_session(command)

    def _begin_session(self, command: Start | Check) -> None:
        """Whatever ran before is ended: a board has one session, the newest."""
        self._session += 1
        self._fence = command.fence
        behaviour, name, fence = self.behaviour, self.board.name, command.fence
        begun_s = behaviour.connect_s + behaviour.transfer_s
        self._plan(behaviour.connect_s, Reached(name, fence, Phase.TRANSFER))
        self._plan(begun_s, Reached(name, fence, Phase.RUN))
        if isinstance(command, Check):
            slow = self._slow()
            if slow != 1.0:
                self._slow_canaries.add(fence)
            seconds = behaviour.canary_s * behaviour.speed * slow * self._noise()
            exact = not self._happens(FaultKind.CORRUPT)
            self._plan(begun_s + seconds, CanaryAnswered(name, fence, exact, seconds, str(self._boots)))
        else:
            run_s, answer = self._run(command)
            self._plan(begun_s + run_s, answer)

    def _run(self, command: Start) -> tuple[float, Answered]:
        """How long the candidate keeps the board busy, and what the board says of it."""
        trial, candidate = command.trial, self._candidates[command.trial.id]
        verdict, slow = candidate.verdict, self._slow()
        seconds = candidate.seconds * self.behaviour.speed * slow * self._noise() + self.behaviour.session_s
        if verdict is Verdict.OK and self._happens(FaultKind.FLAKY):
            verdict = Verdict.CRASHED if self._rng.random() < 0.5 else Verdict.WRONG
        if verdict is Verdict.OK and self._happens(FaultKind.CORRUPT):
            verdict = Verdict.WRONG
        if verdict is Verdict.TIMED_OUT or self._happens(FaultKind.HANGS) or seconds > trial.run_limit_s:
            verdict, seconds = Verdict.TIMED_OUT, trial.run_limit_s + _KILL_S
        if verdict is Verdict.CRASHED:
            seconds *= self._rng.random()
        self.measured_s[command.fence] = candidate.seconds * slow
        said_of = f"{trial.id}x" if self._happens(FaultKind.STRANGE) else trial.id
        return seconds, Answered(self.board.name, command.fence, said_of, verdict)

    # What it sends

    def _plan(self, delay_s: float, event: Event) -> None:
        """Send an event after a while, if its session goes on until then."""
        session = self._session
        self._clock.later(delay_s, lambda: self._come_due(session, event))

    def _come_due(self, session: int, event: Event) -> None:
        if session != self._session:
            return
        self._send(lambda: self._deliver(event))

    def _send(self, action: Callable[[], None]) -> None:
        if FaultKind.UNPLUG in self._faults:
            return
        if FaultKind.FREEZE in self._faults:
            self._held_out.append(action)
            return
        for _ in range(self._copies()):
            self._clock.later(self.behaviour.latency_s, action)

    def _beat(self) -> None:
        self._clock.later(self.behaviour.heartbeat_s, self._beat)
        if not self._faults.keys() & {FaultKind.CRASH, FaultKind.FREEZE, FaultKind.UNPLUG}:
            self._send(lambda: self._deliver(Heard(self.board.name)))

    def _copies(self) -> int:
        """How often a message comes through."""
        if not self._happens(FaultKind.LOSSY):
            return 1
        return 0 if self._rng.random() < 0.5 else 2

    def _happens(self, kind: FaultKind) -> bool:
        fault = self._faults.get(kind)
        return fault is not None and self._rng.random() < fault.strength

    def _slow(self) -> float:
        fault = self._faults.get(FaultKind.SLOW)
        return fault.strength if fault else 1.0

    def _noise(self) -> float:
        return float(np.exp(self.behaviour.noise * self._rng.standard_normal()))
