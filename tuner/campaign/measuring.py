"""The device of a campaign, used from a thread of its own so that builds go on meanwhile."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from int8tune.compiler.network import Network
from int8tune.results.analysis.roofline import USUAL_CACHE_BYTES
from int8tune.results.record import BoardEvent, CacheMode
from int8tune.rpc.request import Capabilities, Cold, Program, Reply, Request, Timing
from int8tune.rpc.transports.base import Transport
from int8tune.schedules.arguments import CONSTANT_INPUTS
from int8tune.schedules.workload import Workload
from int8tune.tuner.device_check import LIMIT_OVER_READ

T = TypeVar("T")

# Repeats as short as a busy machine leaves a process its core.
TRIAL_TIMING = Timing(repeats=7, min_repeat_s=0.002, least_repeats=3, most_drift=0.1)
VERIFY_TIMING = Timing(repeats=1, min_repeat_s=0.0)
DUEL_TIMING = Timing(repeats=32, min_repeat_s=0.002, least_repeats=8, min_gain=0.01)
# Slower than the task's best by this factor: no contender any more, its exact time matters little.
GIVE_UP = 1.15
CANCEL_EVERY_S = 0.1
# A session may take this long, and the time that its calls need at a speed no useful kernel is below.
SESSION_LIMIT_S = 10.0
CALLS_BEFORE_TIMING = 12
SLOWEST_OPS_PER_S = 1e9
# So much slower may the slowest kernel be where it is emulated.
EMULATORS_SLOWNESS = 10
# Where a task has a best, a kernel that is slower by this factor is useless, too. Until it is given up it is called so
# often at most, should the device drift.
SLOWEST_FACTOR = 50
MOST_SLOW_CALLS = 40
# Twice its size, as caches don't always replace what was used longest ago.
COLD_OVER_CACHE = 2
# Copies of a layer's constants: a session makes them anew, and a virtual machine is told of caches of hundreds of MiB.
MOST_CONSTANTS_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Occasion:
    """What something is measured for.

    Attributes:
        results: the folder of the campaign's records.
        notice: tells whoever watches what a person should know; it is called on the campaign's thread.
        keep: adds to the campaign's records; it is called on the campaign's thread.
        peak_work: where the device's peak is not known yet, the operations of a call of the probe; else 0.
    """

    campaign: str
    results: Path
    notice: Callable[[str], None]
    keep: Callable[[Sequence[BoardEvent]], None]
    peak_work: int = 0


class Measuring(Protocol[T]):
    """What a campaign measures with: a device, or several boards."""

    @property
    def shares_cores(self) -> bool:
        """Whether builds have to make way where it measures."""

    @property
    def answers_later(self) -> bool:
        """Whether there are no replies in this run: it ends when nothing is left to be started."""

    @property
    def board(self) -> str:
        """Which board gave the reply that was taken last; empty where there is only one."""

    @property
    def done(self) -> int:
        """A descriptor that can be read once a reply is there, until it is taken."""

    @property
    def idle(self) -> bool:
        """Whether something more can be started."""

    def start_trial(self, purpose: T, workload: Workload, program: Program, best_s: float | None) -> None:
        """Have a candidate measured; `take` has the reply when it is there.

        Args:
            best_s: seconds per call of the best so far, beyond which a candidate is given up; None at first.
        """

    def start_duels(self, purpose: T, workload: Workload, programs: tuple[Program, ...]) -> None:
        """Have a task's default and its contenders timed in turn."""

    def take(self, limit_s: float) -> tuple[T, Reply] | None:
        """A reply and what it was for, if one comes within `limit_s`."""

    def close(self) -> None:
        """Give up what is under way."""


@dataclass
class Device(Generic[T]):
    """Runs one request at a time and remembers what it was for.

    Attributes:
        probe: what the transport times before and after each request.
        session_limit_s: of every session, beside the time that its calls need.
        cold: as `rpc.request.Timing` has it; None for warm caches.
    """

    transport: Transport
    probe: Program | None
    session_limit_s: float = SESSION_LIMIT_S
    cold: Cold | None = None

    def __post_init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="device")
        self._running: tuple[T, Future[Reply]] | None = None
        self._done = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    @property
    def done(self) -> int:
        """A descriptor that can be read once a reply is there, until it is taken."""
        return self._done

    @property
    def idle(self) -> bool:
        return self._running is None

    @property
    def shares_cores(self) -> bool:
        return True

    @property
    def answers_later(self) -> bool:
        return False

    @property
    def board(self) -> str:
        return ""

    def start_trial(self, purpose: T, workload: Workload, program: Program, best_s: float | None) -> None:
        self._start(purpose, trial_request(self, workload, program, best_s))

    def start_duels(self, purpose: T, workload: Workload, programs: tuple[Program, ...]) -> None:
        self._start(purpose, duel_request(self, workload, programs))

    def _start(self, purpose: T, request: Request) -> None:
        future = self._thread.submit(self.transport.run, request)
        self._running = purpose, future
        future.add_done_callback(lambda _: os.eventfd_write(self._done, 1))

    def take(self, limit_s: float) -> tuple[T, Reply] | None:
        """The reply and what it was for, if it comes within `limit_s`."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._done)
        if self._running is None:
            return None
        purpose, future = self._running
        try:
            reply = future.result(timeout=limit_s)
        except TimeoutError:
            return None
        self._running = None
        return purpose, reply

    def close(self) -> None:
        """Give up the request that is under way, if there is one."""
        if self._running is not None:
            while not self._running[1].done():  # what begins just when it is cancelled is cancelled once more
                self.transport.cancel()
                wait([self._running[1]], CANCEL_EVERY_S)
        self._thread.shutdown(wait=True)
        os.close(self._done)


class Sessions(Protocol):
    """What all sessions of a campaign have in common."""

    @property
    def probe(self) -> Program | None:
        """What the transport times before and after each request."""

    @property
    def session_limit_s(self) -> float:
        """The limit of every session, beside the time that its calls need."""

    @property
    def cold(self) -> Cold | None:
        """As `rpc.request.Timing` has it; None for warm caches."""


def trial_request(sessions: Sessions, workload: Workload, program: Program, best_s: float | None) -> Request:
    """What a device is asked of a candidate."""
    timing = TRIAL_TIMING if best_s is None else replace(TRIAL_TIMING, give_up_s=GIVE_UP * best_s)
    return _request(sessions, (program,), timing, calls_limit_s(workload, best_s))


def verify_request(sessions: Sessions, workload: Workload, program: Program) -> Request:
    """What a device is asked of a candidate where its times say nothing: to run it, on every case."""
    return _request(sessions, (program,), VERIFY_TIMING, EMULATORS_SLOWNESS * calls_limit_s(workload, None))


def duel_request(sessions: Sessions, workload: Workload, programs: tuple[Program, ...]) -> Request:
    """What a device is asked of a task's default and its contenders."""
    return _request(sessions, programs, DUEL_TIMING, len(programs) * calls_limit_s(workload, None))


def _request(sessions: Sessions, programs: tuple[Program, ...], timing: Timing, calls_s: float) -> Request:
    timing = replace(timing, cold=sessions.cold)
    return Request(programs, timing, sessions.session_limit_s + calls_s, sessions.probe)


def calls_limit_s(workload: Workload, best_s: float | None) -> float:
    """Seconds that the calls of one program may take, at the speed of the slowest kernel that is worth its wait."""
    slowest_s = CALLS_BEFORE_TIMING * 2 * workload.macs / SLOWEST_OPS_PER_S
    return slowest_s if best_s is None else min(slowest_s, MOST_SLOW_CALLS * SLOWEST_FACTOR * best_s)


def cold_of(
    mode: CacheMode, capabilities: Capabilities, network: Network, memory_limit_bytes: int | None = None
) -> Cold | None:
    """What calls do not share, so that a kernel finds its arguments where the mode says.

    Args:
        memory_limit_bytes: what a session may use, if that is little.
    """
    match mode:
        case CacheMode.WARM:
            return None
        case CacheMode.COLD:
            return Cold(_bytes_beyond("L2", capabilities))
        case CacheMode.NETWORK:
            others_bytes = sum(layer.count * prod(layer.workload.weight_shape) for layer in network.layers)
            room_bytes = MOST_CONSTANTS_BYTES if memory_limit_bytes is None else memory_limit_bytes // LIMIT_OVER_READ
            enough_bytes = min(_bytes_beyond("L3", capabilities), MOST_CONSTANTS_BYTES, room_bytes)
            return Cold(min(others_bytes, enough_bytes), CONSTANT_INPUTS)


def _bytes_beyond(cache: str, capabilities: Capabilities) -> int:
    """Bytes after which nothing is left in a cache of what was read before; without that one, in the next smaller."""
    found = capabilities.cache_bytes.get(cache) or capabilities.cache_bytes.get("L2", USUAL_CACHE_BYTES["L2"])
    return COLD_OVER_CACHE * found
