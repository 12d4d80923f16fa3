"""Faulty kernels on the local device: each costs its own session, has the right outcome, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import psutil
import pytest

from int8tune.results.record import Outcome
from int8tune.rpc.request import Case, Program, Timing
from int8tune.rpc.transports.local import LocalTransport
from tests.support.kernels.rpc_kernels import BRIEF, Kernels, build_kernels, build_with_tvm
from tests.support.program.rpc_processes import MARK, marked, server_of
from tests.support.run.thinned import one_in

pytestmark = [pytest.mark.alone, pytest.mark.promise(3, 4, 5, 10, 17)]


@dataclass(frozen=True, slots=True)
class Fault:
    entry: str
    outcome: Outcome
    error_class: str
    error: str
    run_limit_s: float = 10.0


FAULTS = (
    Fault("segfault", Outcome.RUN_FAILED, "Crash", "in case 0: killed by SIGSEGV"),
    Fault("aborts", Outcome.RUN_FAILED, "Crash", "killed by SIGABRT: first line second [31mline"),
    Fault("traps", Outcome.RUN_FAILED, "Crash", "killed by SIGILL"),
    Fault("leaves", Outcome.RUN_FAILED, "Crash", "exited with status 0 before it answered"),
    Fault("hoards", Outcome.RUN_FAILED, "Crash", "killed by SIGSEGV"),
    Fault("closes_all", Outcome.RUN_FAILED, "Crash", "in case 0"),
    Fault("makes_noise", Outcome.RUN_FAILED, "BadAnswer", "in case 0"),
    Fault("raises", Outcome.RUN_FAILED, "ValueError", "in case 0: no such shape"),
    Fault("hangs", Outcome.RUN_TIMEOUT, "Timeout", "not done within 0.3 s: stopped in case 0", 0.3),
    Fault("floods", Outcome.RUN_TIMEOUT, "Timeout", "not done within 0.3 s", 0.3),
    Fault("daemonizes_and_hangs", Outcome.RUN_TIMEOUT, "Timeout", "not done within 0.3 s", 0.3),
    Fault("past_end", Outcome.WRONG_ANSWER, "OutOfBounds", "case 0: bytes written outside of the 256 of the output: 1"),
    Fault("before_start", Outcome.WRONG_ANSWER, "OutOfBounds", "first at byte -3"),
    Fault("does_nothing", Outcome.WRONG_ANSWER, "WrongValues", "values differ, first at (0, 0, 0)"),
    Fault("skips_last", Outcome.WRONG_ANSWER, "WrongValues", "1 of 256 values differ, first at (3, 7, 7)"),
    Fault("wrong_value", Outcome.WRONG_ANSWER, "WrongValues", "case 0: 1 of 256 values differ, first at (2, 0, 1)"),
    Fault("wrong_later", Outcome.WRONG_ANSWER, "WrongValues", "case 0 after timing: 1 of 256 values differ"),
    Fault("idle_later", Outcome.WRONG_ANSWER, "WrongValues", "case 0 after timing: "),
    Fault("prints", Outcome.OK, "", ""),
    Fault("daemonizes", Outcome.OK, "", ""),
    Fault("burns_in_threads", Outcome.OK, "", ""),
    Fault("burns_in_fork", Outcome.OK, "", ""),
    Fault("burns_in_session", Outcome.OK, "", ""),
    Fault("burns_as_daemon", Outcome.OK, "", ""),
    Fault("burns_and_crashes", Outcome.RUN_FAILED, "Crash", "in case 0: killed by SIGABRT"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(scope="module")
def kernels(folder: Path) -> Kernels:
    return build_kernels(folder)


@pytest.fixture(scope="module")
def transport() -> Iterator[LocalTransport]:
    with LocalTransport([max(os.sched_getaffinity(0))], memory_limit_bytes=256 << 20) as transport:
        yield transport


@pytest.fixture(scope="module")
def server(transport: LocalTransport, kernels: Kernels) -> psutil.Process:
    transport.run(kernels.request("good"))  # the first session opens what stays open
    return server_of(psutil.Process())


def started_by(server: psutil.Process) -> list[psutil.Process]:
    return [process for process in marked(server.environ()[MARK]) if process.pid != server.pid]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.entry)
def test_fault_costs_its_own_session_only(
    transport: LocalTransport, kernels: Kernels, server: psutil.Process, fault: Fault
) -> None:
    descriptors = server.num_fds()
    started = time.monotonic()
    reply = transport.run(kernels.request(fault.entry, run_limit_s=fault.run_limit_s))
    assert time.monotonic() - started < fault.run_limit_s + 1
    assert (reply.outcome, reply.error_class) == (fault.outcome, fault.error_class), reply.error
    assert fault.error in reply.error
    assert reply.error.isprintable()
    assert bool(reply.times_s) == (fault.outcome is Outcome.OK)
    assert server.children(recursive=True) == []
    assert started_by(server) == []
    assert server.num_fds() == descriptors
    assert transport.run(kernels.request("good")).outcome is Outcome.OK
    assert server.is_running()


def test_daemon_would_be_seen(server: psutil.Process) -> None:
    """`started_by` finds a process that left its parent and its session, so that finding none means something."""
    mark = {MARK: server.environ()[MARK], "PATH": os.environ["PATH"]}
    daemon = psutil.Popen(["setsid", "sleep", "30"], env=mark)
    try:
        deadline = time.monotonic() + 5
        while not started_by(server) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [found.pid for found in started_by(server)] == [daemon.pid]
    finally:
        daemon.kill()
        daemon.wait(5)


def test_fault_of_the_second_program_says_so(transport: LocalTransport, kernels: Kernels) -> None:
    reply = transport.run(kernels.request("good", "skips_last"))
    assert reply.outcome is Outcome.WRONG_ANSWER
    assert reply.error.startswith("program 1, case 0: 1 of 256 values differ")


def test_compiled_kernel_is_verified_and_timed(transport: LocalTransport, kernels: Kernels, folder: Path) -> None:
    request = replace(kernels.request("good", probe="good"), programs=(build_with_tvm(folder, kernels),))
    reply = transport.run(request)
    assert reply.outcome is Outcome.OK, reply.error
    assert len(reply.times_s[0]) == request.timing.repeats
    assert 0 < max(reply.times_s[0]) < 1e-4
    assert {"probe_before_s", "probe_after_s", "load_1min"} <= set(reply.observed)


@pytest.mark.parametrize(("probe", "timings"), [("slows_down_once", 2), ("slows_down", 3)])
def test_a_device_that_drifts_times_again(
    transport: LocalTransport, kernels: Kernels, probe: str, timings: int
) -> None:
    """The probe's calls before the first timing are its 4 calibrating ones and 6 that are timed, and 6 follow it."""
    reply = transport.run(kernels.request("good", probe=probe, timing=replace(BRIEF, most_drift=0.1)))
    assert reply.outcome is Outcome.OK, reply.error
    assert reply.observed["timings"] == timings
    assert len(reply.times_s[0]) == BRIEF.repeats
    assert reply.observed["probe_after_s"] < 2 * reply.observed["probe_before_s"]
    assert transport.run(kernels.request("good", probe=probe)).observed["timings"] == 1


def test_a_busy_core_does_not_show_in_times(kernels: Kernels) -> None:
    """Some repeats are interrupted on a core that another process has half of the time, and take twice as long."""
    request = kernels.request("good", timing=Timing(repeats=30, min_repeat_s=0.002))
    core = max(os.sched_getaffinity(0))

    def is_even() -> bool:
        with LocalTransport([core]) as transport:
            alone = transport.run(request)
            with subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) as busy:
                psutil.Process(busy.pid).cpu_affinity([core])
                beside = transport.run(request)
                busy.kill()
        assert alone.outcome is beside.outcome is Outcome.OK
        assert beside.observed["interrupted"] >= 3
        return max(beside.times_s[0]) < 1.5 * median(alone.times_s[0])

    # What the host of a virtual machine does on this core can't be seen from inside, and is over some time.
    assert any(is_even() for _ in range(3))


def test_times_are_those_of_the_kernel(transport: LocalTransport, kernels: Kernels) -> None:
    reply = transport.run(kernels.request("takes_a_while", "good"))
    slow, fast = reply.times_s
    # The machine may take its time in some repeats, but no kernel is faster than it is.
    assert min(slow) > 0.002
    assert median(slow) < 0.02
    assert median(fast) < 0.0005
    assert reply.calls_per_repeat[0] == 1
    assert reply.calls_per_repeat[1] > 10


@pytest.mark.parametrize(
    ("field", "value", "error_class"),
    [
        ("sha256", "0" * 64, "HashMismatch"),
        ("entry", "no_such_entry", "AttributeError"),
        ("library", "/nowhere/kernels.so", "FileNotFoundError"),
    ],
)
def test_library_that_is_not_what_was_built(
    transport: LocalTransport, kernels: Kernels, field: str, value: str, error_class: str
) -> None:
    good = kernels.program("good")
    parts = {"library": good.library, "sha256": good.sha256, "entry": good.entry} | {field: value}
    program = Program(**parts, cases=good.cases)
    reply = transport.run(replace(kernels.request("good"), programs=(program,)))
    assert (reply.outcome, reply.error_class) == (Outcome.RUN_FAILED, error_class), reply.error


def test_changed_library_is_not_loaded(transport: LocalTransport, kernels: Kernels, tmp_path: Path) -> None:
    changed = tmp_path / "kernels.so"
    changed.write_bytes(kernels.library.read_bytes()[:-1] + b"?")
    program = Program(str(changed), kernels.sha256, "segfault", kernels.cases)
    reply = transport.run(replace(kernels.request("good"), programs=(program,)))
    assert (reply.outcome, reply.error_class) == (Outcome.RUN_FAILED, "HashMismatch")


@pytest.mark.parametrize("content", [None, b"", b"\x93NUMPY", b"no array"], ids=["missing", "empty", "cut", "foreign"])
def test_unreadable_case_is_no_candidate_s_fault(
    transport: LocalTransport, kernels: Kernels, tmp_path: Path, content: bytes | None
) -> None:
    bad = tmp_path / "bad.npy"
    if content is not None:
        bad.write_bytes(content)
    program = replace(kernels.program("good"), cases=(Case((str(bad),), kernels.cases[0].expected),))
    reply = transport.run(replace(kernels.request("good"), programs=(program,)))
    assert (reply.outcome, reply.error_class) == (Outcome.DEVICE_LOST, "CaseUnreadable")
    assert str(bad) in reply.error


@pytest.mark.parametrize("probe", one_in(2, ["segfault", "no_such_entry"]))
def test_failing_probe_is_no_candidate_s_fault(transport: LocalTransport, kernels: Kernels, probe: str) -> None:
    reply = transport.run(kernels.request("good", probe=probe))
    assert (reply.outcome, reply.error_class) == (Outcome.DEVICE_LOST, "ProbeFailed")
    assert "in the probe" in reply.error


@pytest.mark.slow
def test_two_hundred_sessions_leave_the_server_as_it_was(
    transport: LocalTransport, kernels: Kernels, server: psutil.Process
) -> None:
    entries = ("good", "segfault", "wrong_value", "daemonizes")
    for index in range(20):
        transport.run(kernels.request(entries[index % 4]))
    descriptors, memory = server.num_fds(), server.memory_info().rss
    for index in range(200):
        transport.run(kernels.request(entries[index % 4]))
    assert server.num_fds() == descriptors
    assert server.memory_info().rss < memory + (2 << 20)
    assert server.children() == []
