"""Processes of sessions on an emulated GPU: started ahead of time, each for one session, none of them left over."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from int8tune.results.record import Outcome
from int8tune.rpc.inventory.boards import Board
from int8tune.rpc.request import Timing
from int8tune.rpc.transports.agent import AgentTransport
from tests.rpc.test_gpu import BOARD, agent_with_gpu, start
from tests.support.farm.boards import LIMITS, marked
from tests.support.gpu import emulated as emulated_gpus
from tests.support.gpu.kernels import build_gpu_kernels
from tests.support.kernels.rpc_kernels import Kernels

WAIT_S = 20.0
REPEATS = 3
TIMING = Timing(repeats=REPEATS, min_repeat_s=0.0001)
MOUNTED = ("unshare", "--mount", "--map-root-user", "sh", "-c")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return build_gpu_kernels(tmp_path_factory.mktemp("kernels"))


@contextmanager
def agent(folder: Path, board: Board = BOARD, **settings: int) -> Iterator[AgentTransport]:
    launcher = agent_with_gpu(folder / "agent", log=1, **settings)
    with AgentTransport(board, (str(launcher),)) as transport:
        transport.start()
        yield transport


def log_of(folder: Path) -> list[tuple[str, int]]:
    """What processes did, in order."""
    lines = (folder / "agent" / emulated_gpus.LOG).read_text().splitlines()
    return [(what, int(pid)) for what, pid in map(str.split, lines)]


def pids(log: Sequence[tuple[str, int]], what: str) -> list[int]:
    return list(dict.fromkeys(pid for seen, pid in log if seen == what))


def wait_until_left(folder: Path, count: int) -> list[psutil.Process]:
    """The processes of an agent, when there are no more than so many."""
    deadline = time.monotonic() + WAIT_S
    while len(found := marked(str(folder / "agent"))) > count and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def test_a_session_finds_the_driver_started(tmp_path: Path, kernels: Kernels) -> None:
    """The process that said what the GPU is serves the first session."""
    with agent(tmp_path) as transport:
        greeted = log_of(tmp_path)
        assert [what for what, _ in greeted] == ["start", "started"]
        for _ in range(3):
            started = pids(log_of(tmp_path), "started")
            assert transport.run(kernels.request("increment", timing=TIMING)).outcome is Outcome.OK
            assert pids(log_of(tmp_path), "graph")[-1] in started


@pytest.mark.thorough
def test_nothing_is_timed_while_a_driver_starts(tmp_path: Path, kernels: Kernels) -> None:
    """Longer than all that comes before a session's first timing. What calibrates repeats is no timing."""
    with agent(tmp_path, start_ms=700) as transport:
        for _ in range(6):
            assert transport.run(kernels.request("increment", timing=TIMING)).outcome is Outcome.OK
    log = log_of(tmp_path)
    sessions = pids(log, "graph")
    assert len(sessions) == 6
    for session in sessions:
        timed = [place for place, line in enumerate(log) if line == ("graph", session)][-REPEATS:]
        for pid in pids(log, "start"):
            began, done = log.index(("start", pid)), log.index(("started", pid))
            assert not [place for place in timed if began < place < done]


@pytest.mark.thorough
def test_no_driver_starts_when_a_session_is_over(tmp_path: Path, kernels: Kernels) -> None:
    """Others may use the GPU then, such as contestants of a comparison."""
    with agent(tmp_path, start_ms=700) as transport:
        for entry in ("nowhere", "increment", "nowhere", "increment", "skips_last"):
            transport.run(kernels.request(entry, timing=TIMING))
            log = log_of(tmp_path)
            assert pids(log, "start")
            assert set(pids(log, "start")) == set(pids(log, "started"))


@pytest.mark.thorough
def test_a_fault_costs_its_session_and_no_process_serves_two(tmp_path: Path, kernels: Kernels) -> None:
    with agent(tmp_path) as transport:
        for entry, outcome in [
            ("wild", Outcome.RUN_FAILED),
            ("increment", Outcome.OK),
            ("hangs", Outcome.RUN_TIMEOUT),
            ("increment", Outcome.OK),
            ("wild", Outcome.RUN_FAILED),
            ("increment", Outcome.OK),
        ]:
            assert transport.run(kernels.request(entry, run_limit_s=2.0, timing=TIMING)).outcome is outcome
        log = log_of(tmp_path)
    assert len(pids(log, "graph")) == 3
    # One that greeted, and twice three that started beside each other, of which one is left.
    assert len(pids(log, "start")) == 7


def test_spares_that_were_killed_are_not_missed(tmp_path: Path, kernels: Kernels) -> None:
    with agent(tmp_path) as transport:
        for _ in range(2):
            assert transport.run(kernels.request("increment")).outcome is Outcome.OK
            spares = set(pids(log_of(tmp_path), "start"))
            for process in wait_until_left(tmp_path, 4):
                if process.pid in spares:
                    process.kill()
            wait_until_left(tmp_path, 1)
        assert transport.run(kernels.request("increment")).outcome is Outcome.OK


@pytest.mark.parametrize("how", ["close", "kill"])
def test_nothing_is_left_when_the_host_or_the_agent_is_gone(tmp_path: Path, kernels: Kernels, how: str) -> None:
    with agent(tmp_path) as transport:
        assert transport.run(kernels.request("increment")).outcome is Outcome.OK
        spares = {process.pid for process in marked(str(tmp_path / "agent"))}
        assert len(spares) == 4
        if how == "kill":
            parents = {process.ppid() for process in map(psutil.Process, spares)}
            (agent_pid,) = parents & spares
            psutil.Process(agent_pid).kill()
            assert not wait_until_left(tmp_path, 0)
    assert not wait_until_left(tmp_path, 0)


@pytest.mark.thorough
def test_memory_of_spares_is_not_the_session_s(tmp_path: Path, kernels: Kernels) -> None:
    """Each start takes 150 MiB: twice that a session with a process of its kernel, too much with two spares."""
    board = replace(BOARD, limits=replace(LIMITS, memory_bytes=400 << 20))
    with agent(tmp_path, board, start_bytes=150 << 20) as transport:
        assert transport.run(kernels.request("increment", timing=TIMING)).outcome is Outcome.OK
        late = transport.run(kernels.request("hangs", run_limit_s=3.0))
    assert (late.outcome, late.error_class) == (Outcome.RUN_TIMEOUT, "Timeout")


def test_repeats_on_a_gpu_are_not_void_where_the_host_was_interrupted(tmp_path: Path, kernels: Kernels) -> None:
    """On one core, a process that does not let go of it is interrupted by each kernel, which is a process here."""
    core = min(psutil.Process().cpu_affinity())
    with agent(tmp_path, replace(BOARD, cores=(core,)), busy=1) as transport:
        reply = transport.run(kernels.request("increment", timing=TIMING))
    assert (reply.outcome, reply.error) == (Outcome.OK, "")
    assert reply.observed["interrupted"] == 0


def moved_driver(folder: Path, place: Path) -> Path:
    """What starts an agent whose driver is in another folder; the runtime stays with the agent."""
    launcher = agent_with_gpu(folder / "agent")
    place.mkdir(parents=True)
    for name in emulated_gpus.STUBS:
        shutil.move(launcher.parent / name, place / name)
    return launcher


def test_a_driver_in_the_library_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = moved_driver(tmp_path, tmp_path / "driver")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:*::{tmp_path / 'driver'}:/")
    assert start(launcher).environment["gpu"] == "Emulated GPU"
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    with pytest.raises(Exception, match=r"libcuda\.so\.1"):
        start(launcher)


def no_mounts() -> str | None:
    """Why no process can have a file system of its own here, or None."""
    if not shutil.which(MOUNTED[0]):
        return "needs unshare"
    done = subprocess.run([*MOUNTED, "mount -t tmpfs none /usr/local"], capture_output=True, text=True, timeout=10)
    return done.stderr.strip() if done.returncode else None


@pytest.mark.skipif(no_mounts() is not None, reason=str(no_mounts()))
@pytest.mark.parametrize("place", ["/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"])
def test_a_driver_of_containers_is_found(tmp_path: Path, place: str) -> None:
    launcher = moved_driver(tmp_path, tmp_path / "driver")
    found = f"mount -t tmpfs none /usr/local && mkdir -p {place} && cp {tmp_path}/driver/* {place} && exec {launcher}"
    with AgentTransport(BOARD, (*MOUNTED, found)) as transport:
        assert transport.start().environment["gpu"] == "Emulated GPU"
