"""Several boards of one target as what a campaign measures with."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import queue
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Generic, TypeVar

from int8tune.results.record import Outcome
from int8tune.rpc.farm.boards import PowerSwitch, scheduled
from int8tune.rpc.farm.driver import CANARY_LIMIT_S, CANARY_TIMING, LIMITS, RULES, Ending, FarmDriver, Replies
from int8tune.rpc.farm.entries import Entry
from int8tune.rpc.farm.events import Open
from int8tune.rpc.farm.scheduler import Scheduler
from int8tune.rpc.farm.values import Board, Campaign, Rules, Trial, Verdict
from int8tune.rpc.inventory import boards as inventory
from int8tune.rpc.request import Cold, Program, Reply, Request
from int8tune.rpc.transports.base import Transport
from int8tune.schedules.workload import Workload
from int8tune.tuner.campaign.board_events import BoardEvents
from int8tune.tuner.campaign.board_reports import BoardReports
from int8tune.tuner.campaign.farm_journal import FarmJournal, trial_id
from int8tune.tuner.campaign.measuring import SESSION_LIMIT_S, duel_request, trial_request, verify_request

T = TypeVar("T")

# Trials that wait for a board: enough that none of them waits for the next one to be sent.
WAITING_PER_BOARD = 1
# What a power-cycle command may still take when the campaign ends.
POWER_END_S = 3.0


class Boards(Generic[T]):
    """Runs as many requests at a time as there are boards, under the farm's scheduler.

    A reply is taken once its board's next canary was good. What could not be measured, after tries on several boards,
    is `DEVICE_LOST`.

    Attributes:
        board: which board gave the reply that was taken last.
    """

    def __init__(
        self,
        transports: Mapping[str, Transport],
        target: str,
        probe: Program,
        jitter: Callable[[], float],
        session_limit_s: float = SESSION_LIMIT_S,
        cold: Cold | None = None,
        canary_every: int = 50,
        rules: Rules = RULES,
        is_measured: bool = True,
        reports: BoardReports | None = None,
        owned: Mapping[str, inventory.Board] | None = None,
        notice: Callable[[str], None] = lambda _: None,
        journal: FarmJournal | None = None,
        events: BoardEvents | None = None,
    ) -> None:
        """
        Args:
            probe: what transports time before and after each request, and the boards' canary.
            jitter: a number from 0 to 1, another each time.
            is_measured: whether times mean anything; if not, boards verify, and canaries may take what they like.
            reports: writes down how the boards are.
            owned: what the inventory says of them: how long they rest, how they are switched off and on.
            journal: keeps what the next start should know.
            events: has the records keep how the boards were; `take` hands them over.
            notice: is told, by `take` and `close`, what a person should know.
        """
        self.probe: Program | None = probe
        self.session_limit_s = session_limit_s
        self.cold = cold
        self.board = ""
        self._is_measured = is_measured
        self._reports = reports
        self._target = target
        self._most_waiting = WAITING_PER_BOARD * len(transports)
        self._purposes: dict[str, T] = {}
        self._endings: deque[Ending] = deque()
        self._done = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._closed = False
        self._serial = 0
        owned = owned or {}
        commands = {name: board.power_cycle for name, board in owned.items() if board.power_cycle}
        self._notice = notice
        self._notices: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._power = PowerSwitch(commands, self._notices.put)
        boards = [_scheduled(name, target, canary_every, owned.get(name)) for name in transports]
        if not is_measured:
            boards = [replace(board, canary_tolerance=math.inf) for board in boards]
        self._journal = journal
        self._events = events
        scheduler = Scheduler(boards, rules, jitter, journal.ledger if journal else None)
        self._driver = FarmDriver(
            transports,
            scheduler,
            Request((probe,), CANARY_TIMING, CANARY_LIMIT_S),
            self._write,
            notify=self._notify,
            power_cycle=self._switch_off_and_on,
        )
        self._driver.tell(Open(Campaign(self._target)))

    @property
    def shares_cores(self) -> bool:
        return False

    @property
    def answers_later(self) -> bool:
        return False

    @property
    def done(self) -> int:
        return self._done

    @property
    def idle(self) -> bool:
        return self._driver.waiting(self._target) < self._most_waiting

    def start_trial(self, purpose: T, workload: Workload, program: Program, best_s: float | None) -> None:
        if self._is_measured:
            self._start(purpose, workload, trial_request(self, workload, program, best_s))
        else:
            self._start(purpose, workload, verify_request(self, workload, program))

    def start_duels(self, purpose: T, workload: Workload, programs: tuple[Program, ...]) -> None:
        self._start(purpose, workload, duel_request(self, workload, programs))

    def take(self, limit_s: float) -> tuple[T, Reply] | None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._done)
        if self._reports:  # before the driver goes on: sessions are in the middle
            self._reports.publish(self._driver.status)
        # A good canary ends many trials at once: boards get their next ones before all of those are recorded.
        waits = self._purposes and not self._endings
        self._endings.extend(self._driver.take(limit_s if waits else 0.0))
        self._tell()
        if self._events:
            self._events.hand_over()
        if not self._endings:
            return None
        ending = self._endings.popleft()
        if self._endings:
            self._notify()
        self.board = ending.board
        reply = ending.reply or Reply(Outcome.DEVICE_LOST, error_class="NotMeasured", error=ending.cause)
        return self._purposes.pop(ending.trial), reply

    def close(self) -> None:
        """Give up what is under way, and close the transports."""
        self._driver.close()
        self._power.close(POWER_END_S)
        self._tell()
        if self._reports:
            self._reports.end(self._driver.status())
        if self._journal:
            self._journal.close()
        self._closed = True
        os.close(self._done)

    def _start(self, purpose: T, workload: Workload, request: Request) -> None:
        self._serial += 1
        key = _key(workload, request)
        name = trial_id(self._serial, key)
        self._purposes[name] = purpose
        kept = self._journal.take(key, request, self._driver.status()) if self._journal else None
        if kept:
            self._endings.append(Ending(name, Verdict.OK, kept.board, "", kept.reply))
            self._notify()
        else:
            self._driver.submit((Trial(name, self._target, self._target, run_limit_s=request.run_limit_s), request))

    def _write(self, entries: Sequence[Entry], replies: Replies) -> None:
        """Keep what the farm decided, for the next start and for the records."""
        if self._journal:
            self._journal.write(entries, replies)
        if self._events:
            self._events.note(entries)

    def _switch_off_and_on(self, board: str) -> None:
        cause = next(status.cause for status in self._driver.status() if status.board == board)
        if self._power.cycle(board):
            self._notices.put(f"`{board}` is switched off and on: {cause}")

    def _tell(self) -> None:
        """Pass on what threads had to say."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._notice(self._notices.get_nowait())

    def _notify(self) -> None:
        if not self._closed:
            os.eventfd_write(self._done, 1)


def _key(workload: Workload, request: Request) -> str:
    """What is measured, the same after a restart: the code, how it is timed and verified, by which probe.

    A best that was found meanwhile ends a timing earlier, and changes nothing of what it says.
    """
    timing = asdict(replace(request.timing, give_up_s=None))
    programs = [(program.sha256, program.entry) for program in request.programs]
    asked = [workload.key, programs, timing, request.probe.sha256 if request.probe else ""]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]


def _scheduled(name: str, target: str, canary_every: int, owned: inventory.Board | None) -> Board:
    """A board as the scheduler has to know it: its transport keeps the inventory's limits itself."""
    if owned is None:
        return Board(name, target, limits=LIMITS, canary_every=canary_every)
    limits = replace(LIMITS, cooldown_s=owned.cooldown_s)
    return replace(scheduled(owned), target=target, tags=frozenset(), limits=limits, canary_every=canary_every)
