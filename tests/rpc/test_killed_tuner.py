"""A tuner that is killed takes its server, the kernel that runs and what that started with it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.support.kernels.rpc_kernels import Kernels, build_kernels
from tests.support.places import ROOT
from tests.support.program.rpc_processes import MARK, marked, server_of
from tests.support.run.thinned import one_in

pytestmark = [pytest.mark.alone, pytest.mark.promise(5)]

START_LIMIT_S = 30.0
PATIENCE_S = 5.0

TUNER = """
import os, sys, time
sys.path[:0] = {paths!r}
from pathlib import Path
from tests.support.kernels.rpc_kernels import Kernels, write_case
from int8tune.rpc.transports.local import LocalTransport

kernels = Kernels(Path({library!r}), {sha256!r}, (write_case(Path({folder!r}), 0),))
transport = LocalTransport()
transport.start()
if {forks}:
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)
print("ready", flush=True)
transport.run(kernels.request({entry!r}, run_limit_s=60))
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return build_kernels(tmp_path_factory.mktemp("kernels"))


def wait_for_busy(mark: str, count: int) -> None:
    """Until the server, the kernel's process and what that started are there, and the kernel spins."""
    deadline = time.monotonic() + START_LIMIT_S
    while len(marked(mark)) < count or max(process.cpu_percent(0.05) for process in marked(mark)) < 20:
        assert time.monotonic() < deadline


def wait_until_gone(mark: str) -> list[psutil.Process]:
    deadline = time.monotonic() + PATIENCE_S
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def end_all(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.mark.parametrize("case", one_in(2, ["plain", "socket_shared", "server_killed", "server_stopped"]))
def test_nothing_outlives_a_killed_tuner(kernels: Kernels, tmp_path: Path, case: str) -> None:
    """Also when a fork of the tuner holds the socket open, and when the server is stopped or killed with it."""
    script = TUNER.format(
        paths=[str(ROOT)],
        library=str(kernels.library),
        sha256=kernels.sha256,
        folder=str(tmp_path),
        forks=case == "socket_shared",
        entry="hangs" if case == "server_killed" else "daemonizes_and_hangs",
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        tuner = psutil.Process(process.pid)
        family, server = tuner.children(), server_of(tuner)
        mark = server.environ()[MARK]
        try:
            wait_for_busy(mark, count=2 if case == "server_killed" else 3)
            if case == "server_stopped":
                server.suspend()
            process.kill()
            if case == "server_killed":
                server.kill()
            assert wait_until_gone(mark) == []
        finally:
            process.kill()
            end_all([*family, *marked(mark)])
