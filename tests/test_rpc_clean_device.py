"""After a session a device is as fast as before it: its canary is timed before and after each kind of faulty kernel.

A process that is left over takes half of the core, and so does each further one: the second canary of a pair then
takes longer than the first. Pairs with faulty kernels and with right ones take turns, since the machine is not quiet.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import psutil
import pytest
import rpc_kernels
from boards import CACHE, board_behind
from probes import cpu_features, host_target
from rpc_kernels import Kernels, build_kernels
from sshd import running_sshd

from results.record import Outcome
from rpc.base import Transport
from rpc.errors import RpcError
from rpc.local import LocalTransport
from rpc.provision import provision
from rpc.request import Program, Request, Timing
from rpc.ssh import AgentTransport
from schedules.target import PROFILES
from tuner.build.pool import BuildPool
from tuner.device_check import build_probes

pytestmark = pytest.mark.alone

MOST_SLOWER = 0.03
# So long that whatever else wants the core gets it within each repeat.
CANARY = Timing(repeats=5, min_repeat_s=0.02)
MEMORY_BYTES = 256 << 20
# Rounds of a pair of each kind, until it is known well enough by how much they differ.
FEWEST, MOST, PAIRS_LIMIT_S = 5, 40, 8.0
# Of a few pairs, each of which leaves one more process, none is below this; of others, some are.
QUICK, LEAKED = 3, 1.2


@dataclass(frozen=True, slots=True)
class Device:
    """A device with the canary that campaigns run on it, and the kernels."""

    transport: Transport
    canary: Program
    kernels: Kernels

    def canary_s(self) -> float:
        """What a call takes at best, when nobody else has the core for long."""
        reply = self.transport.run(Request((self.canary,), CANARY, 60.0))
        assert reply.outcome is Outcome.OK, reply.error
        return min(reply.times_s[0])

    def run(self, entry: str) -> None:
        """Whatever comes of it; where it ends the device's server, the next session starts another one."""
        with contextlib.suppress(RpcError):
            self.transport.run(self.kernels.request(entry, run_limit_s=0.5))

    def slower_after(self, session: Callable[[], None]) -> float:
        """The canary after a session, over the canary before it."""
        before_s = self.canary_s()
        session()
        return self.canary_s() / before_s


@dataclass(frozen=True, slots=True)
class Pairs:
    """Ratios of pairs: with a faulty kernel between the canaries, and with a right one."""

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


def pairs_of(device: Device, session: Callable[[], None], limit_s: float) -> Pairs:
    """As many as it takes to be sure, within the limits."""
    faulty: list[float] = []
    right: list[float] = []
    until_s = time.monotonic() + limit_s
    while len(faulty) < FEWEST or (Pairs(faulty, right).unsure > MOST_SLOWER / 4 and len(faulty) < MOST):
        faulty.append(device.slower_after(session))
        right.append(device.slower_after(lambda: device.run("good")))
        if time.monotonic() > until_s and len(faulty) >= 2:
            break
    return Pairs(faulty, right)


def assert_not_slower(device: Device, entry: str, limit_s: float) -> Pairs:
    pairs = pairs_of(device, lambda: device.run(entry), limit_s)
    assert pairs.slower < MOST_SLOWER + 3 * pairs.unsure, f"{entry}: {pairs}"
    assert min(pairs.faulty) < LEAKED, f"{entry}: {pairs}"
    return pairs


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


@pytest.mark.parametrize("entry", ["burns_in_threads", "burns_as_daemon"])
def test_a_kernel_that_leaves_something_burning_leaves_nothing(here: Device, entry: str) -> None:
    assert min(here.slower_after(lambda: here.run(entry)) for _ in range(QUICK)) < LEAKED


def test_a_process_that_is_left_over_would_be_seen(here: Device) -> None:
    """One more after each session, on the same core; no session started them."""
    core = max(os.sched_getaffinity(0))
    started: list[subprocess.Popen[bytes]] = []

    def leak() -> None:
        process = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
        psutil.Process(process.pid).cpu_affinity([core])
        started.append(process)

    try:
        ratios = [here.slower_after(leak) for _ in range(QUICK)]
    finally:
        for process in started:
            process.kill()
            process.wait(5)
    assert median(ratios) > LEAKED


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("which", ["here", "behind"])
def test_the_canary_is_as_fast_after_every_faulty_kernel(request: pytest.FixtureRequest, which: str) -> None:
    device: Device = request.getfixturevalue(which)
    found = {entry: assert_not_slower(device, entry, limit_s=PAIRS_LIMIT_S) for entry in all_faulty()}
    right = [ratio for pairs in found.values() for ratio in pairs.right]
    print(f"\n{which}: {len(right)} pairs with right kernels: {_spread(right)}")
    for entry, pairs in found.items():
        print(f"{entry}: {100 * pairs.slower:+.1f} % (+- {100 * pairs.unsure:.1f}), pairs: {_spread(pairs.faulty)}")
    faulty = [ratio for pairs in found.values() for ratio in pairs.faulty]
    print(f"all: {100 * (median(faulty) / median(right) - 1):+.2f} %")
    assert abs(median(faulty) / median(right) - 1) < MOST_SLOWER


def _spread(ratios: Sequence[float]) -> str:
    low, middle, high = np.quantile(ratios, [0.1, 0.5, 0.9])
    return f"{low:.3f} {middle:.3f} {high:.3f}"
