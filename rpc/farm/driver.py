"""Boards that are real: their transports, each in a thread of its own, under the farm's scheduler."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from int8tune.results.record import Outcome
from int8tune.rpc.errors import DeviceStartError, RpcError, SilentError
from int8tune.rpc.farm.entries import Concluded, Entry, Returned
from int8tune.rpc.farm.events import (
    Answered,
    CanaryAnswered,
    Cancel,
    Check,
    Command,
    Decision,
    Dropped,
    Event,
    PowerCycle,
    Reached,
    Refused,
    Start,
    Submit,
    Tick,
)
from int8tune.rpc.farm.scheduler import Scheduler
from int8tune.rpc.farm.state import Status
from int8tune.rpc.farm.values import Limits, Phase, Rules, Trial, Verdict
from int8tune.rpc.request import Reply, Request, Timing
from int8tune.rpc.transports.base import Transport

CANARY_TIMING = Timing(repeats=5, min_repeat_s=0.002)
CANARY_LIMIT_S = 10.0
# A transport returns at the latest 5 s after a request's own limit; it starts its server within the first phase.
LIMITS = Limits(connect_s=60.0, grace_s=6.0, silence_s=None, total_s=3600.0)
# The campaign's next turn waits for answers to be confirmed: no board is idle for long before its canary. Sessions
# watch their own device for drift, so a canary looks for what is more than that. A core whose other thread belongs to
# another machine is slower by up to 2, for as long as that has work: a second at most is waited for a good canary.
RULES = Rules(idle_s=0.05, canary_limit_s=CANARY_LIMIT_S, canary_tolerance=0.2, slow_canaries=20)

Replies = dict[str, dict[int, Reply]]
"""By trial and fence."""

Said = tuple[Event, Reply | None]
"""What a board's thread says; the reply where it is an answer."""

VERDICTS = {
    Outcome.OK: Verdict.OK,
    Outcome.WRONG_ANSWER: Verdict.WRONG,
    Outcome.RUN_FAILED: Verdict.CRASHED,
    Outcome.RUN_TIMEOUT: Verdict.TIMED_OUT,
}
# Errors after which a board can't be reached just now; of any other, its canary says whether it is well.
_AWAY: tuple[type[RpcError], ...] = (SilentError, DeviceStartError, *DeviceStartError.__subclasses__())
_GONE = frozenset(kind.__name__ for kind in _AWAY)
# What a closed board may take to end: a transport that is cancelled returns at once.
_CLOSE_S = 10.0
_CANCEL_EVERY_S = 0.1
_MOST_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Ending:
    """A trial that is concluded.

    Attributes:
        reply: what the board answered that counts; None where none did.
    """

    trial: str
    verdict: Verdict
    board: str
    cause: str
    reply: Reply | None


class FarmDriver:
    """Measures trials on several boards at a time.

    It is used by one thread. The boards' limits must leave their transports the time that they may take: a `Transport`
    has 5 s more than a request's own limit. Transports are not listened for (`silence_s` is None): those of boards ask
    for signs of life themselves. What takes too long is cancelled.
    """

    def __init__(
        self,
        transports: Mapping[str, Transport],
        scheduler: Scheduler,
        canary: Request,
        write: Callable[[Sequence[Entry], Replies], None] = lambda _entries, _replies: None,
        replies: Mapping[str, Mapping[int, Reply]] | None = None,
        power_cycle: Callable[[str], None] = lambda _board: None,
        notify: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            canary: whose first program's time is what boards are known to take.
            write: adds entries to the journal, all or none, and the replies that they are about.
            replies: those of the journal that the scheduler goes on from.
            power_cycle: switches a board off and on; it returns at once.
            notify: called from any thread when there is something for `take`.
        """
        self._scheduler = scheduler
        self._events: queue.SimpleQueue[Said] = queue.SimpleQueue()
        self._requests: dict[str, Request] = {}
        self._replies: Replies = {trial: dict(said) for trial, said in (replies or {}).items()}
        self._endings: list[Ending] = []
        self._decided: list[Decision] = []
        self._write = write
        self._notify = notify
        self._power_cycle = power_cycle
        self._boards = {
            name: _BoardThread(name, transport, canary, self._requests, self._say)
            for name, transport in transports.items()
        }
        self._carry_out([scheduler.start(time.monotonic())])

    def tell(self, event: Event) -> None:
        """Let the scheduler know of something that did not come from a board."""
        self._handle([(event, None)])

    def submit(self, *work: tuple[Trial, Request]) -> None:
        """Have trials measured. A campaign that goes on submits what it wants again; nothing is measured twice."""
        self._requests.update((trial.id, request) for trial, request in work)
        self._handle([(Submit(trial), None) for trial, _ in work])
        for trial, _ in work:
            if trial.id not in self._scheduler.ledger.open:
                self._requests.pop(trial.id, None)

    def status(self) -> list[Status]:
        """What each board is doing; its moments are those of `time.monotonic`."""
        return self._scheduler.status()

    def waiting(self, campaign: str) -> int:
        """How many of a campaign's trials wait for a board."""
        return self._scheduler.waiting(campaign)

    def take(self, limit_s: float) -> list[Ending]:
        """Trials that are concluded, after waiting for at most `limit_s` for one.

        Raises:
            OSError: the journal can't be written. Nothing is lost by that: `take` can be called again.
        """
        if self._decided:
            self._carry_out([])
        until_s = time.monotonic() + limit_s
        while True:
            due_s = self._scheduler.next_s
            wake_s = until_s if due_s is None else min(until_s, due_s)
            said = self._next(0.0 if self._endings else max(0.0, wake_s - time.monotonic()))
            if said:
                self._handle(said)
            elif due_s is not None and due_s <= time.monotonic():
                self._handle([(Tick(), None)])
            elif self._endings or time.monotonic() >= until_s:
                break
        endings, self._endings = self._endings, []
        return endings

    def close(self) -> None:
        """End all sessions and the transports."""
        for board in self._boards.values():
            board.end()
        deadline = time.monotonic() + _CLOSE_S
        for board in self._boards.values():
            board.join(deadline)

    def _say(self, said: Said) -> None:
        self._events.put(said)
        self._notify()

    def _next(self, limit_s: float) -> list[Said]:
        """All that was said, after waiting for at most `limit_s` for something."""
        said: list[Said] = []
        with contextlib.suppress(queue.Empty):
            said.append(self._events.get(timeout=limit_s) if limit_s else self._events.get_nowait())
            while len(said) < _MOST_AT_ONCE:
                said.append(self._events.get_nowait())
        return said

    def _handle(self, said: Sequence[Said]) -> None:
        """Let the scheduler decide on all of it; it is written in one go, as what is written waits for the disk.

        What happened comes before the time that has passed: a driver that was held up expires nothing early.
        """
        decisions = []
        for event, reply in said:
            if isinstance(event, Answered) and reply:
                self._replies.setdefault(event.trial, {})[event.fence] = reply
            decision = self._scheduler.handle(time.monotonic(), event)
            if isinstance(event, Answered) and any(isinstance(command, Refused) for command in decision.commands):
                del self._replies[event.trial][event.fence]
            decisions.append(decision)
        self._carry_out(decisions)

    def _carry_out(self, decisions: Sequence[Decision]) -> None:
        """Write what was decided, then do it. What can't be written is kept, and tried again the next time."""
        self._decided += decisions
        entries = [entry for decision in self._decided for entry in decision.entries]
        if entries:
            self._write(entries, self._said_in(entries))
        commands = [command for decision in self._decided for command in decision.commands]
        self._decided = []
        for entry in entries:
            if isinstance(entry, Concluded):
                self._requests.pop(entry.trial, None)
                reply = self._replies.pop(entry.trial, {}).get(entry.fence)
                self._endings.append(Ending(entry.trial, entry.verdict, entry.board, entry.cause, reply))
        for command in commands:
            self._order(command)

    def _said_in(self, entries: Sequence[Entry]) -> Replies:
        """The replies that are answers now."""
        returned = [entry for entry in entries if isinstance(entry, Returned) and entry.verdict is not None]
        return {entry.trial: {entry.fence: self._replies[entry.trial][entry.fence]} for entry in returned}

    def _order(self, command: Command) -> None:
        match command:
            case Start() | Check():
                self._boards[command.board].start(command)
            case Cancel(board, fence):
                self._boards[board].cancel(fence)
            case PowerCycle(board):
                self._power_cycle(board)


class _BoardThread:
    """One board's sessions, one after the other."""

    def __init__(
        self,
        name: str,
        transport: Transport,
        canary: Request,
        requests: Mapping[str, Request],
        say: Callable[[Said], None],
    ) -> None:
        self._name = name
        self._transport = transport
        self._canary = canary
        self._requests = requests
        self._say = say
        self._orders: queue.SimpleQueue[Start | Check | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running = 0
        self._cancelled = 0
        self._closed = False
        self._started = False
        self._thread = threading.Thread(target=self._work, name=f"board {name}", daemon=True)
        self._thread.start()

    def start(self, order: Start | Check) -> None:
        self._orders.put(order)

    def cancel(self, fence: int) -> None:
        """End a session, or let it not begin. Fences only grow: all before this one are over, too."""
        with self._lock:
            self._cancelled = max(self._cancelled, fence)
            if 0 < self._running <= fence:
                self._transport.cancel()

    def end(self) -> None:
        with self._lock:
            self._closed = True
        self._cancel_running()
        self._orders.put(None)

    def join(self, deadline: float) -> None:
        """Wait until its thread has ended: what begins just when it is cancelled is cancelled once more."""
        while self._thread.is_alive() and time.monotonic() < deadline:
            self._thread.join(_CANCEL_EVERY_S)
            self._cancel_running()

    def _cancel_running(self) -> None:
        with self._lock:
            if self._running:
                self._transport.cancel()

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            with self._lock:
                if order.fence <= self._cancelled or self._closed:
                    continue
                self._running = order.fence
            said: Said
            try:
                said = self._run(order)
            except Exception as error:
                said = Dropped(self._name, order.fence, f"{type(error).__name__}: {error}"), None
            with self._lock:  # before anybody hears of it: what is over is not cancelled
                self._running = 0
            self._say(said)
        self._transport.close()

    def _run(self, order: Start | Check) -> Said:
        name, fence = self._name, order.fence
        request = self._requests.get(order.trial.id) if isinstance(order, Start) else self._canary
        if request is None:
            return Dropped(name, fence, "nobody submitted its program again"), None
        if not self._started:
            try:
                self._transport.start()
            except RpcError as error:
                return Dropped(name, fence, str(error)), None
            self._started = True
        self._say((Reached(name, fence, Phase.RUN), None))
        reply = self._transport.run(request)
        if reply.outcome not in VERDICTS:
            return Dropped(name, fence, reply.error or reply.outcome.value, reply.error_class in _GONE), None
        if isinstance(order, Start):
            return Answered(name, fence, order.trial.id, VERDICTS[reply.outcome], reply.error), reply
        seconds = median(reply.times_s[0]) if reply.outcome is Outcome.OK else 0.0
        return CanaryAnswered(name, fence, reply.outcome is Outcome.OK, seconds, reply.boot), None
