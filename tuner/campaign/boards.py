"""Several boards of one target as what a campaign measures with."""

from __future__ import annotations

import contextlib
import math
import os
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

from results.record import Outcome
from rpc.base import Transport
from rpc.farm.driver import Ending, FarmDriver
from rpc.farm.events import Open
from rpc.farm.scheduler import Scheduler
from rpc.farm.values import Board, Campaign, Limits, Rules, Trial
from rpc.request import Program, Reply, Request, Timing
from schedules.workload import Workload
from tuner.campaign.measuring import SESSION_LIMIT_S, duel_request, trial_request, verify_request

T = TypeVar("T")

CANARY_TIMING = Timing(repeats=5, min_repeat_s=0.002)
CANARY_LIMIT_S = 10.0
# A transport returns at the latest 5 s after a request's own limit; it starts its server within the first phase.
LIMITS = Limits(connect_s=60.0, grace_s=6.0, silence_s=None, total_s=3600.0)
# The campaign's next turn waits for answers to be confirmed: no board is idle for long before its canary. Sessions
# watch their own device for drift, so a canary looks for what is more than that.
RULES = Rules(idle_s=0.05, canary_limit_s=CANARY_LIMIT_S, canary_tolerance=0.2)
# Trials that wait for a board: enough that none of them waits for the next one to be sent.
WAITING_PER_BOARD = 1


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
        cold_bytes: int = 0,
        canary_every: int = 50,
        rules: Rules = RULES,
        is_measured: bool = True,
    ) -> None:
        """
        Args:
            probe: what transports time before and after each request, and the boards' canary.
            jitter: a number from 0 to 1, another each time.
            is_measured: whether times mean anything; if not, boards verify, and canaries may take what they like.
        """
        self.probe: Program | None = probe
        self.session_limit_s = session_limit_s
        self.cold_bytes = cold_bytes
        self.board = ""
        self._is_measured = is_measured
        self._target = target
        self._most_waiting = WAITING_PER_BOARD * len(transports)
        self._purposes: dict[str, T] = {}
        self._endings: deque[Ending] = deque()
        self._done = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._closed = False
        self._serial = 0
        boards = [Board(name, target, limits=LIMITS, canary_every=canary_every) for name in transports]
        rules = rules if is_measured else replace(rules, canary_tolerance=math.inf)
        scheduler = Scheduler(boards, rules, jitter)
        canary = Request((probe,), CANARY_TIMING, CANARY_LIMIT_S)
        self._driver = FarmDriver(transports, scheduler, canary, notify=self._notify)
        self._driver.tell(Open(Campaign(self._target)))

    @property
    def shares_cores(self) -> bool:
        return False

    @property
    def done(self) -> int:
        return self._done

    @property
    def idle(self) -> bool:
        return self._driver.waiting(self._target) < self._most_waiting

    def start_trial(self, purpose: T, workload: Workload, program: Program, best_s: float | None) -> None:
        if self._is_measured:
            self._start(purpose, trial_request(self, workload, program, best_s))
        else:
            self._start(purpose, verify_request(self, workload, program))

    def start_duels(self, purpose: T, workload: Workload, programs: tuple[Program, ...]) -> None:
        self._start(purpose, duel_request(self, workload, programs))

    def take(self, limit_s: float) -> tuple[T, Reply] | None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._done)
        # A good canary ends many trials at once: boards get their next ones before all of those are recorded.
        waits = self._purposes and not self._endings
        self._endings.extend(self._driver.take(limit_s if waits else 0.0))
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
        self._closed = True
        os.close(self._done)

    def _start(self, purpose: T, request: Request) -> None:
        self._serial += 1
        trial = Trial(str(self._serial), self._target, self._target, run_limit_s=request.run_limit_s)
        self._purposes[trial.id] = purpose
        self._driver.submit((trial, request))

    def _notify(self) -> None:
        if not self._closed:
            os.eventfd_write(self._done, 1)
