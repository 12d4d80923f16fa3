"""After a session a device is as fast as before it: its canary is timed before and after each kind of faulty kernel.

As campaigns time it, without what other processes interrupt; pairs with faulty kernels and with the right one take
turns, since the machine is not quiet. And in repeats so long that whatever else wants the core gets its share of each:
beside a process that was left over, the canary never has more than half of the core.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import psutil
import pytest

from int8tune.results.record import Outcome
from int8tune.rpc.errors import RpcError
from int8tune.rpc.provision import provision
from int8tune.rpc.request import Program, Request, Timing
from int8tune.rpc.transports.agent import AgentTransport
from int8tune.rpc.transports.base import Transport
from int8tune.rpc.transports.local import LocalTransport
from int8tune.schedules.target import PROFILES
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.campaign.boards import CANARY_TIMING
from int8tune.tuner.device_check import build_probes
from tests.sshd import running_sshd
from tests.support.farm.boards import CACHE, board_behind
from tests.support.kernels import rpc_kernels
from tests.support.kernels.rpc_kernels import Kernels, build_kernels
from tests.support.run.probes import cpu_features, host_target
from tests.support.run.thinned import one_in

pytestmark = [pytest.mark.alone, pytest.mark.promise(5)]

MOST_SLOWER = 0.03
LONG = Timing(repeats=5, min_repeat_s=0.02)
MEMORY_BYTES = 256 << 20
ROUNDS = 2
# By how much the canary is late at least beside another process; how long a core may be slow for what another machine
# does, and how often it is asked where somebody is there.
BESIDE, PATIENCE_S, TRIES_BESIDE = 1.5, 60.0, 4


@dataclass(slots=True)
class Device:
    """A device with the canary that campaigns run on it and what a call of it took at best, and the kernels."""

    transport: Transport
    canary: Program
    kernels: Kernels
    best_s: float = math.inf

    def canary_s(self, timing: Timing = CANARY_TIMING) -> float:
        """What a call of the canary takes at best."""
        reply = self.transport.run(Request((self.canary,), timing, 60.0))
        assert reply.outcome is Outcome.OK, reply.error
        return min(reply.times_s[0])

    def is_alone(self) -> bool:
        """Whether the canary has most of the core at least once: what was left over would be there each time."""
        until_s = time.monotonic() + PATIENCE_S
        while not (is_alone := self.has_the_core()) and time.monotonic() < until_s:
            pass
        return is_alone

    def is_shared(self) -> bool:
        """Whether the canary never has most of the core."""
        return not any(self.has_the_core() for _ in range(TRIES_BESIDE))

    def has_the_core(self) -> bool:
        """Whether the canary is once in a long time as fast as it ever was in a short one."""
        before_s, long_s, after_s = (self.canary_s(timing) for timing in (CANARY_TIMING, LONG, CANARY_TIMING))
        self.best_s = min(self.best_s, before_s, after_s)
        return long_s < BESIDE * self.best_s

    def run(self, entry: str) -> None:
        """Whatever comes of it; where it ends the device's server, the next session starts another one."""
        with contextlib.suppress(RpcError):
            self.transport.run(self.kernels.request(entry, run_limit_s=0.5))

    def slower_after(self, entry: str) -> float:
        """The canary after a kernel, over the canary before it."""
        before_s = self.canary_s()
        self.run(entry)
        return self.canary_s() / before_s


@dataclass(frozen=True, slots=True)
class Pairs:
    """Ratios of pairs: with faulty kernels between the canaries, and with the right one."""

    faulty: Sequence[float]
    right: Sequence[float]

    @property
    def slower(self) -> float:
        """The share by which faulty kernels make the canary slower."""
        return median(self.faulty) / median(self.right) - 1

    @property
    def unsure(self) -> float:
        """The standard error of that, as the right kernels' pairs have it."""
        low, high = np.quantile(self.right, [0.25, 0.75])
        return float(1.25 * np.sqrt(2) * (high - low) / 1.35 / np.sqrt(len(self.right)))

    def __str__(self) -> str:
        spreads = (
            " ".join(f"{q:.3f}" for q in np.quantile(pairs, [0.1, 0.5, 0.9])) for pairs in (self.faulty, self.right)
        )
        return f"{100 * self.slower:+.2f} % (+- {100 * self.unsure:.2f}); {' beside '.join(spreads)} (10, 50, 90 %)"


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return build_kernels(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The peak loop of this machine's best target, as campaigns build it."""
    folder = tmp_path_factory.mktemp("canary")
    profile = next(profile.name for profile in PROFILES if profile.needs <= cpu_features())
    with BuildPool([], min(os.sched_getaffinity(0)), folder / "log") as pool:
        return build_probes(pool, host_target(profile), folder, {}).peak_program


@pytest.fixture(scope="module")
def here(kernels: Kernels, canary: Program) -> Iterator[Device]:
    core = max(os.sched_getaffinity(0))
    with LocalTransport([core], memory_limit_bytes=MEMORY_BYTES) as transport:
        yield Device(transport, canary, kernels)


@pytest.fixture(scope="module")
def behind(kernels: Kernels, canary: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Device]:
    with running_sshd(tmp_path_factory.mktemp("sshd")) as sshd:
        board = board_behind(sshd, "x86", tmp_path_factory.mktemp("board") / "board")
        provision(board, CACHE, upgrade=False, say=print)
        with AgentTransport(board) as transport:
            yield Device(transport, canary, kernels)


def all_faulty() -> list[str]:
    """Every kernel of `rpc_kernels` but the right one."""
    source = Path(rpc_kernels.__file__).read_text(encoding="utf-8")
    found = re.findall(r"^KERNEL\((\w+)", source, re.MULTILINE)
    return [name for name in found if name not in ("good", "dot_product", "NAME")]


def skip_unless_free(device: Device) -> None:
    if device.is_shared():
        pytest.skip("the core is never free: somebody else uses it all the time")


@pytest.mark.parametrize(
    "entry", one_in(4, ["burns_in_session", "burns_in_threads", "burns_in_fork", "burns_as_daemon"])
)
def test_nothing_burns_after_a_kernel_that_leaves_something_burning(here: Device, entry: str) -> None:
    skip_unless_free(here)
    here.run(entry)
    assert here.is_alone()


@pytest.mark.thorough
def test_a_process_that_is_left_over_would_be_seen(here: Device) -> None:
    """On the same core; no session started it."""
    words = [sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(words, start_new_session=True) as left_over:
        psutil.Process(left_over.pid).cpu_affinity([max(os.sched_getaffinity(0))])
        is_shared = here.is_shared()
        left_over.kill()
    assert is_shared


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("which", ["here", "behind"])
def test_nothing_burns_after_any_faulty_kernel(request: pytest.FixtureRequest, which: str) -> None:
    device: Device = request.getfixturevalue(which)
    skip_unless_free(device)
    for entry in all_faulty():
        device.run(entry)
        assert device.is_alone(), f"something burns after {entry}"
    print(f"\n{which}: the core is free after each of {len(all_faulty())} faulty kernels")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("which", ["here", "behind"])
def test_the_canary_is_as_fast_after_every_faulty_kernel(request: pytest.FixtureRequest, which: str) -> None:
    device: Device = request.getfixturevalue(which)
    entries, faulty, right = all_faulty(), [], []
    for _ in range(ROUNDS):
        for entry in entries:
            faulty.append(device.slower_after(entry))
            right.append(device.slower_after("good"))
    pairs = Pairs(faulty, right)
    print(f"\n{which}: {len(faulty)} pairs with {len(entries)} faulty kernels, {len(right)} with the right one")
    print(f"the canary is slower by {pairs}")
    assert pairs.slower < MOST_SLOWER + 3 * pairs.unsure
