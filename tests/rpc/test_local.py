"""The local device's server: what happens when it, the tuner or the link between them ends."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from int8tune.results.record import Outcome
from int8tune.rpc.errors import DeviceLostError, DeviceStartError, ProtocolError
from int8tune.rpc.request import Request, Timing
from int8tune.rpc.transports.local import LocalTransport
from tests.support.kernels.rpc_kernels import Kernels, build_kernels
from tests.support.program.rpc_processes import MARK, marked, server_of, servers_of

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return build_kernels(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def shared_transport() -> Iterator[LocalTransport]:
    with LocalTransport(grace_s=1.0) as transport:
        yield transport


@pytest.fixture
def transport(shared_transport: LocalTransport, kernels: Kernels) -> LocalTransport:
    """With its server running, whatever the test before did to it."""
    assert shared_transport.run(kernels.request("good")).outcome is Outcome.OK
    return shared_transport


@contextlib.contextmanager
def started(core: int | None = None) -> Iterator[tuple[LocalTransport, psutil.Process]]:
    """A transport of the test's own and its server."""
    before = servers_of(psutil.Process())
    with LocalTransport([] if core is None else [core]) as transport:
        (server,) = servers_of(psutil.Process()) - before
        yield transport, server


def test_capabilities_are_of_this_machine() -> None:
    core = max(os.sched_getaffinity(0))
    with started(core) as (transport, server):
        capabilities = transport.start()
        assert capabilities.cores == (core,)
        assert capabilities.architecture == os.uname().machine
        assert capabilities.environment["kernel"] == os.uname().release
        assert psutil.Process().cpu_affinity() != [core] or len(os.sched_getaffinity(0)) == 1
        assert server.cpu_affinity() == [core]


def test_core_that_can_not_be_used_is_refused() -> None:
    with pytest.raises(DeviceStartError, match=r"core can't be used here: 4095$"):
        LocalTransport([4095]).start()


def test_start_limit_is_kept() -> None:
    before = servers_of(psutil.Process())
    began = time.monotonic()
    with pytest.raises(DeviceStartError, match="was not ready in time"):
        LocalTransport(start_limit_s=0.05).start()
    assert time.monotonic() - began < 1
    assert servers_of(psutil.Process()) == before


def test_server_that_can_not_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tvm_ffi.py").write_text("raise ImportError('no runtime here')", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(DeviceStartError, match=r"exited with status 1 ImportError: no runtime here$"):
        LocalTransport().start()


def test_server_sees_little_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "secret")
    with started() as (_, server):
        environment = server.environ()
    assert "DATABASE_PASSWORD" not in environment
    assert environment["OMP_NUM_THREADS"] == "1"


def test_server_opens_no_port(transport: LocalTransport, kernels: Kernels) -> None:
    transport.run(kernels.request("good"))
    assert server_of(psutil.Process()).net_connections("inet") == []


@pytest.mark.parametrize("entry", ["kills_server", "daemonizes_and_kills_server"])
def test_killed_server_is_lost_at_once_and_started_again(
    transport: LocalTransport, kernels: Kernels, entry: str
) -> None:
    mark = server_of(psutil.Process()).environ()[MARK]
    began = time.monotonic()
    reply = transport.run(kernels.request(entry))
    assert time.monotonic() - began < 2
    assert (reply.outcome, reply.error_class) == (Outcome.DEVICE_LOST, "DeviceLostError")
    assert "killed by SIGKILL" in reply.error
    assert marked(mark) == []
    assert transport.run(kernels.request("good")).outcome is Outcome.OK


def test_stopped_server_that_takes_no_request_is_lost_in_time(transport: LocalTransport, kernels: Kernels) -> None:
    server_of(psutil.Process()).suspend()
    began = time.monotonic()
    reply = transport.run(kernels.request("x" * 1_000_000, run_limit_s=0.2))
    assert time.monotonic() - began < 0.2 + 1.0 + 1
    assert reply.outcome is Outcome.DEVICE_LOST
    assert "did not answer in time" in reply.error


def test_stopped_server_is_lost_in_time_and_started_again(transport: LocalTransport, kernels: Kernels) -> None:
    mark = server_of(psutil.Process()).environ()[MARK]
    began = time.monotonic()
    reply = transport.run(kernels.request("stops_server", run_limit_s=0.2))
    assert time.monotonic() - began < 0.2 + 1.0 + 1
    assert reply.outcome is Outcome.DEVICE_LOST
    assert "did not answer in time" in reply.error
    assert marked(mark) == []
    assert transport.run(kernels.request("good")).outcome is Outcome.OK


def test_server_killed_between_requests_costs_one_reply(transport: LocalTransport, kernels: Kernels) -> None:
    server_of(psutil.Process()).kill()
    reply = transport.run(kernels.request("good"))
    assert reply.outcome is Outcome.DEVICE_LOST
    assert reply.error == "the local device's server ended: killed by SIGKILL"
    assert transport.run(kernels.request("good")).outcome is Outcome.OK


def test_interrupt_ends_the_session_and_its_answer_meets_nobody(transport: LocalTransport, kernels: Kernels) -> None:
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    mark = server_of(psutil.Process()).environ()[MARK]
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            transport.run(kernels.request("hangs"))
    finally:
        timer.join(5)
        signal.signal(signal.SIGUSR1, before)
    assert marked(mark) == []
    assert transport.run(kernels.request("good")).outcome is Outcome.OK


def test_server_ignores_the_interrupt_and_outlives_the_thread_that_started_it(kernels: Kernels) -> None:
    before = servers_of(psutil.Process())
    with LocalTransport() as transport:
        transport.close()
        thread = threading.Thread(target=transport.start)
        thread.start()
        thread.join(30)
        (server,) = servers_of(psutil.Process()) - before
        server.send_signal(signal.SIGINT)
        assert transport.run(kernels.request("good")).outcome is Outcome.OK
        assert server.is_running()


def test_close_leaves_nothing(kernels: Kernels) -> None:
    descriptors = psutil.Process().num_fds()
    with started() as (transport, server):
        mark = server.environ()[MARK]
        assert transport.run(kernels.request("daemonizes")).outcome is Outcome.OK
        transport.close()
        assert marked(mark) == []
        assert not server.is_running()
        assert psutil.Process().num_fds() == descriptors
        with pytest.raises(DeviceLostError, match="is not started"):
            transport.run(kernels.request("good"))


@pytest.mark.parametrize(
    ("request_of", "message"),
    [
        (
            lambda kernels: kernels.request("good", run_limit_s=0.0),
            r"`run_limit_s` must be a number from 0.001 to 86400",
        ),
        (lambda kernels: kernels.request(), r"field `programs` must have at least one program"),
    ],
    ids=["no_time", "no_program"],
)
def test_request_out_of_range_is_refused(
    transport: LocalTransport, kernels: Kernels, request_of: Callable[[Kernels], Request], message: str
) -> None:
    server = server_of(psutil.Process())
    with pytest.raises(ProtocolError, match=message):
        transport.run(request_of(kernels))
    assert transport.run(kernels.request("good")).outcome is Outcome.OK
    assert server_of(psutil.Process()) == server


def test_overhead_of_a_session(transport: LocalTransport, kernels: Kernels, benchmark: BenchmarkFixture) -> None:
    """Six cases of a kernel that takes no time, timed as briefly as possible."""
    program = replace(kernels.program("good"), cases=kernels.cases * 2)
    request = Request((program,), Timing(repeats=1, min_repeat_s=0.0), run_limit_s=10.0)
    assert benchmark(transport.run, request).outcome is Outcome.OK
