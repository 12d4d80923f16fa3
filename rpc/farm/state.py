"""What the scheduler's parts share: the boards as they are now, what is written, what is ordered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from int8tune.rpc.farm.entries import Entry, Issued, Turned
from int8tune.rpc.farm.events import Cancel, Check, Command, Decision, Start
from int8tune.rpc.farm.ledger import Ledger
from int8tune.rpc.farm.queues import Queues
from int8tune.rpc.farm.values import Board, Phase, Rules, State, Trial
from int8tune.rpc.farm.waits import Wait, Waits


@dataclass(frozen=True, slots=True)
class CanaryRun:
    """The canary that a board ran last.

    Attributes:
        at_s: when it was judged.
        seconds: what a call took; 0 where the board did not say.
        fault: what was wrong; empty where it was good.
    """

    at_s: float
    seconds: float
    fault: str


@dataclass(slots=True)
class Lease:
    """A session that a board was given: of a trial, or of the canary where that is None."""

    fence: int
    trial: Trial | None
    began_s: float
    phase: Phase = Phase.CONNECT
    charged_s: float = 0.0


@dataclass(slots=True)
class BoardRun:
    """A board as it is now. All of it may be forgotten: a new coordinator asks the board for a canary.

    Attributes:
        healthy: whether the last canary was good and nothing was found since.
        unconfirmed: trials whose answers wait for the next good canary.
        streak: different candidates that failed in a row.
        accused: of the trials that failed here and were right elsewhere, which trial of this board each was.
        timeouts: of the trials that took too long, likewise.
        trials: sessions of trials since it was registered.
        since_canary: sessions of trials since the last canary.
        offences: how often it was taken off, or looked at in vain, since it was last forgiven.
        good: canaries that were good in a row.
        slow: canaries in a row that were bad.
        silent: whether it was lost because it was not heard.
        off_for_streak: whether it is off because of candidates that failed in a row.
        canary: the last one.
        faster_s: what it took, where that is much less than it was known to.
        cycled_s: when it was switched off and on last.
    """

    board: Board
    state: State = State.UNKNOWN
    cause: str = ""
    since_s: float = 0.0
    lease: Lease | None = None
    healthy: bool = False
    unconfirmed: list[str] = field(default_factory=list)
    streak: list[str] = field(default_factory=list)
    accused: list[int] = field(default_factory=list)
    timeouts: list[int] = field(default_factory=list)
    trials: int = 0
    since_canary: int = 0
    offences: int = 0
    good: int = 0
    slow: int = 0
    silent: bool = False
    off_for_streak: bool = False
    canary: CanaryRun | None = None
    faster_s: float | None = None
    cycled_s: float | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """What a board is doing, since when, and what it waits for, until when at most."""

    board: str
    state: State
    since_s: float
    waits_for: str
    until_s: float | None
    cause: str
    trials: int
    canary: CanaryRun | None


class FarmState:
    """The state of a farm between two events.

    Attributes:
        now_s: the time of the event; it never goes back.
        jitter: a number from 0 to 1, another each time.
    """

    def __init__(self, boards: Iterable[Board], rules: Rules, jitter: Callable[[], float], ledger: Ledger) -> None:
        self.rules = rules
        self.jitter = jitter
        self.ledger = ledger
        self.queues = Queues()
        self.waits = Waits()
        self.boards = {board.name: BoardRun(board) for board in boards}
        self.now_s = 0.0
        self._entries: list[Entry] = []
        self._commands: list[Command] = []

    def note(self, entry: Entry) -> None:
        """Write an entry to the journal."""
        self.ledger.add(entry)
        self._entries.append(entry)

    def order(self, command: Command) -> None:
        self._commands.append(command)

    def hand_over(self) -> Decision:
        """All that was noted and ordered since the last time."""
        decision = Decision(tuple(self._entries), tuple(self._commands))
        self._entries, self._commands = [], []
        return decision

    def turn(self, run: BoardRun, state: State, cause: str = "") -> None:
        """Change a board's state. Only what a person would ask for later is written down."""
        if state in (State.QUARANTINED, State.LOST) or run.state in (State.QUARANTINED, State.LOST, State.UNKNOWN):
            self.note(Turned(run.board.name, state, cause))
        run.state, run.cause, run.since_s = state, cause, self.now_s

    def matching(self, target: str, tags: frozenset[str]) -> list[BoardRun]:
        """Healthy boards that could measure such trials."""
        return [
            run for run in self.boards.values() if run.healthy and run.board.target == target and tags <= run.board.tags
        ]

    def watch_demand(self, target: str, tags: frozenset[str]) -> None:
        """Trials wait for a healthy board only so long."""
        key = (target, tags)
        if self.matching(target, tags):
            self.waits.drop(Wait.BOARD, key)
        elif self.waits.due_s(Wait.BOARD, key) is None:
            self.waits.set(Wait.BOARD, key, self.now_s + self.rules.board_s)

    def lease(self, run: BoardRun, trial: Trial | None) -> None:
        """Give a board a trial, or the canary."""
        fence, name = self.ledger.fence + 1, run.board.name
        attempt = self.ledger.open[trial.id].attempts + 1 if trial else 0
        self.note(Issued(fence, name, trial.id if trial else "", attempt))
        charged_s = self.queues.charge(trial, None) if trial else 0.0
        run.lease = Lease(fence, trial, self.now_s, charged_s=charged_s)
        self.order(Start(name, fence, trial) if trial else Check(name, fence))
        self.await_phase(run, run.lease)

    def await_phase(self, run: BoardRun, lease: Lease) -> None:
        """Set the limit of a session's phase, within that of the whole session."""
        limits = run.board.limits
        if lease.phase is Phase.RUN:
            own_s = lease.trial.run_limit_s if lease.trial else self.rules.canary_limit_s
            limit_s = own_s + limits.grace_s
        else:
            limit_s = limits.connect_s if lease.phase is Phase.CONNECT else limits.transfer_s
        due_s = min(self.now_s + limit_s, lease.began_s + limits.total_s)
        self.waits.set(Wait.SESSION, run.board.name, due_s)

    def end_lease(self, run: BoardRun, *, cancel: bool = False) -> Trial | None:
        """Take a board's lease back: nothing that comes under its fence counts any more. Its trial, if it has one."""
        lease, run.lease = run.lease, None
        if lease is None:
            return None
        self.waits.drop(Wait.SESSION, run.board.name)
        if cancel:
            self.order(Cancel(run.board.name, lease.fence))
        if lease.trial:
            self.queues.charge(lease.trial, self.now_s - lease.began_s, lease.charged_s)
        return lease.trial

    def status(self) -> list[Status]:
        """What each board is doing."""
        return [self._status(run) for run in self.boards.values()]

    def _status(self, run: BoardRun) -> Status:
        name, waits = run.board.name, self.waits
        if run.lease:
            waits_for = f"{run.lease.trial.id if run.lease.trial else 'canary'}: {run.lease.phase}"
            until_s = waits.due_s(Wait.SESSION, name)
        elif (until_s := waits.due_s(Wait.NEXT_CHECK, name)) is not None:
            waits_for = Wait.NEXT_CHECK
        elif (until_s := waits.due_s(Wait.COOLDOWN, name)) is not None:
            waits_for = Wait.COOLDOWN
        else:
            waits_for = "a trial"
        return Status(name, run.state, run.since_s, str(waits_for), until_s, run.cause, run.trials, run.canary)
