"""Boards behind a real sshd on loopback: this machine, and a Cortex-A53 as QEMU has it. Bad kernels, lost boards."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import psutil
import pytest

from int8tune.compiler.toolchain.linker import link_module
from int8tune.results.record import Outcome
from int8tune.results.store import SqliteStore
from int8tune.rpc.board.agent_route import AgentRoute, route_to_json
from int8tune.rpc.errors import NotProvisionedError
from int8tune.rpc.inventory.boards import Board
from int8tune.rpc.protocol import request_to_json
from int8tune.rpc.provision import provision
from int8tune.rpc.request import Program, Reply, Request, Timing
from int8tune.rpc.transports.agent import AgentTransport
from int8tune.schedules.lowering import compile_function
from int8tune.schedules.registry import template_for
from int8tune.schedules.target import target_for
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.campaign.events import Silence
from int8tune.tuner.campaign.loop import Ending
from int8tune.tuner.campaign.run import run_campaign
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.folders import STORE_FILE
from int8tune.tuner.verify import write_cases, write_suite
from tests.sshd import Sshd, running_sshd
from tests.support.farm.boards import CACHE, CROSS_COMPILER, a53_behind, board_behind, listeners, marked, why_no_a53
from tests.support.kernels.rpc_kernels import BRIEF, Kernels, build_kernels, sha256_of
from tests.support.program.campaigns import SMALL, SMALL_DEPTHWISE, network_of, trials_of

pytestmark = pytest.mark.promise(3, 4, 5, 6, 10, 11, 17)

LAYERS = (
    "conv2d-u8s8-1x6x6x16-k3x3x16-s1-p1-float.c-u8",
    "dwconv2d-s8s8-1x7x7x16-k3x3x1-s2-p1-fixed.c-s8",
    "dense-u8u8-1x40-o10-s32",
)

TUNER = """
import json, sys
from int8tune.rpc.board.agent_route import route_from_json
from int8tune.rpc.protocol import request_from_json
from int8tune.rpc.transports.agent import AgentTransport
message = json.loads(sys.argv[1])
with AgentTransport(route_from_json("route", message["route"]).board) as transport:
    transport.run(request_from_json(message["request"]))
"""


@dataclass(frozen=True, slots=True)
class Ready:
    """A provisioned board, started, with kernels that run on it."""

    board: Board
    transport: AgentTransport
    kernels: Kernels

    def run(self, entry: str, run_limit_s: float = 10.0) -> Reply:
        return self.transport.run(self.kernels.request(entry, run_limit_s=run_limit_s))

    @property
    def agent(self) -> psutil.Process:
        """The resident one; sessions are its children."""
        found = marked(self.board.folder)
        (agent,) = [process for process in found if process.ppid() not in {other.pid for other in found}]
        return agent


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with running_sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture(scope="module", params=["x86", pytest.param("a53", marks=pytest.mark.thorough)])
def ready(request: pytest.FixtureRequest, sshd: Sshd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ready]:
    if request.param == "a53" and (why := why_no_a53()):
        pytest.skip(f"no Cortex-A53: {why}")
    folder = tmp_path_factory.mktemp(request.param) / "board"
    is_a53 = request.param == "a53"
    board = a53_behind(sshd, folder) if is_a53 else board_behind(sshd, "x86", folder)
    provision(board, CACHE, upgrade=False, say=print)
    kernels = build_kernels(tmp_path_factory.mktemp("kernels"), CROSS_COMPILER if is_a53 else "cc")
    with AgentTransport(board) as transport:
        ready = Ready(board, transport, kernels)
        assert ready.run("good").outcome is Outcome.OK
        yield ready
        assert listeners(board.folder) == []
    wait_until_nobody_is_on(board)


def wait_until_nobody_is_on(board: Board) -> None:
    deadline = time.monotonic() + 5
    while marked(board.folder) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert marked(board.folder) == []


BAD = {
    "segfault": (Outcome.RUN_FAILED, "Crash", "in case 0: killed by SIGSEGV"),
    "aborts": (Outcome.RUN_FAILED, "Crash", "in case 0: killed by SIGABRT: first line second"),
    "leaves": (Outcome.RUN_FAILED, "Crash", "in case 0: exited with status 0 before it answered"),
    "raises": (Outcome.RUN_FAILED, "ValueError", "in case 0: no such shape"),
    "hangs": (Outcome.RUN_TIMEOUT, "Timeout", "not done within 1 s: stopped in case 0"),
    "daemonizes_and_hangs": (Outcome.RUN_TIMEOUT, "Timeout", "not done within 1 s: stopped in case 0"),
    "floods": (Outcome.RUN_FAILED, "Crash", "in case 0: killed by SIGXFSZ"),
    "makes_noise": (Outcome.RUN_FAILED, "BadAnswer", "in case 0: "),
    "past_end": (Outcome.WRONG_ANSWER, "OutOfBounds", "case 0: bytes written outside of the 256 of the output: 1,"),
    "before_start": (Outcome.WRONG_ANSWER, "OutOfBounds", "first at byte -3"),
    "does_nothing": (Outcome.WRONG_ANSWER, "WrongValues", "case 0: 25"),
    "skips_last": (Outcome.WRONG_ANSWER, "WrongValues", "case 0: 1 of 256 values differ, first at (3, 7, 7)"),
    "wrong_value": (Outcome.WRONG_ANSWER, "WrongValues", "case 0: 1 of 256 values differ, first at (2, 0, 1)"),
    "idle_later": (Outcome.WRONG_ANSWER, "WrongValues", "case 0 after timing: "),
    "no_such_entry": (Outcome.RUN_FAILED, "AttributeError", "while loading: Module has no function 'no_such_entry'"),
}


# Each of these differs from another one, which is quick, in the kernel alone.
ALIKE = ("hangs", "before_start", "skips_last", "wrong_value")


@pytest.mark.parametrize(
    "entry", [pytest.param(entry, marks=pytest.mark.thorough) if entry in ALIKE else entry for entry in BAD]
)
def test_bad_kernel_costs_its_session_only(ready: Ready, entry: str) -> None:
    agent = ready.agent
    outcome, error_class, words = BAD[entry]
    began = time.monotonic()
    reply = ready.run(entry, run_limit_s=1.0 if "hangs" in entry else 10.0)
    if "hangs" in entry:
        assert time.monotonic() - began < 1 + 1
    assert (reply.outcome, reply.error_class) == (outcome, error_class), reply.error
    assert words in reply.error
    assert marked(ready.board.folder) == [agent]
    assert not (Path(ready.board.folder) / "work").exists()
    assert ready.run("good").outcome is Outcome.OK


def test_a_session_killed_from_outside_is_told_from_one_that_crashed(ready: Ready) -> None:
    """As Linux does where the board's memory runs out; the campaign measures it once more."""
    agent, killed = ready.agent, threading.Event()

    def kill_session() -> None:
        while not killed.is_set():
            for session in agent.children():
                if session.cpu_times().user > 1.0:  # it has begun, and hangs
                    session.kill()
                    killed.set()
            time.sleep(0.02)

    killer = threading.Thread(target=kill_session)
    killer.start()
    reply = ready.run("hangs", run_limit_s=20.0)
    killer.join(10)
    assert killed.is_set()
    assert (reply.outcome, reply.error_class, reply.was_killed) == (Outcome.RUN_FAILED, "Killed", True), reply.error
    assert ready.run("good").outcome is Outcome.OK


@pytest.mark.parametrize("entry", ["good", "prints", "daemonizes"])
def test_good_kernel_may_print_and_leave_processes(ready: Ready, entry: str) -> None:
    agent = ready.agent
    reply = ready.run(entry)
    assert reply.outcome is Outcome.OK, reply.error
    assert marked(ready.board.folder) == [agent]


@pytest.mark.thorough
def test_a_process_that_goes_on_in_its_child_is_ended_whenever_that_is_looked_for(ready: Ready) -> None:
    agent = ready.agent
    for _ in range(20):
        assert ready.run("hands_on").outcome is Outcome.OK
        assert marked(ready.board.folder) == [agent]


@pytest.mark.parametrize("entry", ["hoards", "hoards_in_children"])
def test_memory_has_a_limit(ready: Ready, entry: str) -> None:
    """The limit is each process's where Linux keeps it, and all of a session's together, under an emulator, too."""
    agent = ready.agent
    began = time.monotonic()
    reply = ready.run(entry, run_limit_s=20.0)
    assert time.monotonic() - began < 10
    assert (reply.outcome, reply.error_class) == (Outcome.RUN_FAILED, "Crash"), reply.error
    is_emulated = bool(ready.board.emulator)
    words = "used more than its 1024 MiB" if is_emulated or entry != "hoards" else "killed by SIGSEGV"
    assert f"in case 0: {words}" in reply.error
    assert marked(ready.board.folder) == [agent]
    assert ready.run("good").outcome is Outcome.OK


@pytest.mark.thorough
@pytest.mark.parametrize("ready", ["a53"], indirect=True)
def test_instruction_that_the_cpu_lacks_is_one_failed_run(ready: Ready) -> None:
    reply = ready.run("dot_product")
    assert (reply.outcome, reply.error_class) == (Outcome.RUN_FAILED, "Crash")
    assert "in case 0: killed by SIGILL" in reply.error
    assert ready.run("good").outcome is Outcome.OK


def test_what_the_board_says_of_itself(ready: Ready) -> None:
    device = ready.transport.start()
    if ready.board.architecture == "aarch64":
        assert (device.architecture, device.llvm_cpu) == ("aarch64", "cortex-a53")
        assert {"asimd", "crc32"} <= device.features
        assert "asimddp" not in device.features
        assert device.environment["timing"] == "none"
        assert device.cache_bytes == {}
    else:
        assert device.architecture == "x86_64"
        assert "sse2" in device.features
        assert device.environment["timing"] == "measured"


@pytest.mark.parametrize("key", LAYERS)
def test_kernel_of_a_template_is_exact(ready: Ready, key: str, tmp_path: Path) -> None:
    device = ready.transport.start()
    workload = parse_workload(key)
    target = target_for(device.features, device.llvm_cpu, device.llvm_triple, "generic")
    template = template_for(workload, target)
    kernel = template.apply(workload, target, template.space(workload, target).default)
    link_module(compile_function(kernel.function, target).mod, tmp_path / "kernel.so")
    write_suite(workload, tmp_path / "suite")
    cases = write_cases(workload, kernel, tmp_path / "suite", tmp_path)
    program = Program(str(tmp_path / "kernel.so"), sha256_of(tmp_path / "kernel.so"), "main", cases)
    reply = ready.transport.run(Request((program,), BRIEF, 60.0))
    assert reply.outcome is Outcome.OK, reply.error
    # The same kernel with the cases in another order has other answers.
    shuffled = tuple(replace(case, expected=other.expected) for case, other in itertools.pairwise(cases))
    reply = ready.transport.run(Request((replace(program, cases=shuffled),), BRIEF, 60.0))
    assert reply.outcome is Outcome.WRONG_ANSWER


def test_a_board_says_which_start_of_its_system_this_is(ready: Ready) -> None:
    assert ready.run("good").boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert ready.run("segfault").boot == ready.run("good").boot


@pytest.mark.parametrize("step", [8000, pytest.param(100, marks=pytest.mark.slow)])
def test_changed_library_is_not_loaded(ready: Ready, tmp_path: Path, step: int) -> None:
    """A bit that is another one at every so many bytes, and a file that ends there."""
    whole = ready.kernels.library.read_bytes()
    changes = [
        content
        for place in [*range(0, len(whole), step), len(whole) - 1]
        for content in (whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :], whole[:place])
    ]
    for number, content in enumerate(changes):
        changed = tmp_path / f"{number}.so"
        changed.write_bytes(content)
        program = replace(ready.kernels.program("segfault"), library=str(changed))
        reply = ready.transport.run(replace(ready.kernels.request("good"), programs=(program,)))
        assert (reply.outcome, reply.error_class) == (Outcome.RUN_FAILED, "HashMismatch")
    print(f"{len(changes)} changed libraries were refused")


def test_cases_are_sent_once_and_again_where_they_are_gone(ready: Ready) -> None:
    assert ready.run("good").outcome is Outcome.OK
    cases = Path(ready.board.folder) / "cases"
    there = {path.name: path.stat().st_mtime_ns for path in cases.iterdir()}
    assert len(there) >= 3
    assert ready.run("good").outcome is Outcome.OK
    assert {path.name: path.stat().st_mtime_ns for path in cases.iterdir()} == there
    for path in cases.iterdir():
        path.unlink()
    lost = ready.run("good")
    assert (lost.outcome, lost.error_class) == (Outcome.DEVICE_LOST, "CaseMissing")
    assert ready.run("good").outcome is Outcome.OK


def test_killed_agent_is_a_lost_device_and_the_next_is_served(ready: Ready) -> None:
    reply, took_s = _disturbed(ready, signal.SIGKILL)
    assert reply.outcome is Outcome.DEVICE_LOST
    assert took_s < 2
    assert ready.run("good").outcome is Outcome.OK


@pytest.mark.thorough
@pytest.mark.parametrize("ready", ["x86"], indirect=True)  # it takes 12 seconds
def test_frozen_agent_is_noticed(ready: Ready) -> None:
    frozen = ready.agent
    reply, took_s = _disturbed(ready, signal.SIGSTOP)
    assert reply.outcome is Outcome.DEVICE_LOST
    assert "silent for 12 s" in reply.error
    assert took_s < 15
    assert ready.run("good").outcome is Outcome.OK
    assert frozen not in marked(ready.board.folder)


@pytest.mark.thorough
@pytest.mark.parametrize("ready", ["x86"], indirect=True)  # it takes seven seconds
def test_a_session_that_was_late_since_its_board_stood_still_is_no_time_out(ready: Ready) -> None:
    """Its deadline is over when the board goes on; the kernel was never late."""
    agent = ready.agent
    timer = threading.Timer(0.5, agent.suspend)
    goes_on = threading.Timer(6.2, agent.resume)
    for each in (timer, goes_on):
        each.start()
    request = ready.kernels.request("takes_a_while", run_limit_s=4.0, timing=Timing(400, 0.002), probe="good")
    reply = ready.transport.run(request)
    assert (reply.outcome, reply.error_class) == (Outcome.DEVICE_LOST, "LinkSilent"), reply.error
    goes_on.join(10)
    assert ready.run("good").outcome is Outcome.OK


def test_orphans_of_a_killed_agent_are_ended_by_the_next(ready: Ready) -> None:
    assert ready.run("daemonizes_and_kills_server").outcome is Outcome.DEVICE_LOST
    assert ready.run("good").outcome is Outcome.OK
    assert marked(ready.board.folder) == [ready.agent]


@pytest.mark.thorough
def test_nothing_outlives_a_tuner_that_is_killed(ready: Ready) -> None:
    """Neither on the host nor on the board, not even what a kernel has started."""
    ready.transport.close()
    wait_until_nobody_is_on(ready.board)
    request = request_to_json(ready.kernels.request("daemonizes_and_hangs", run_limit_s=60.0))
    message = json.dumps({"route": route_to_json(AgentRoute(ready.board)), "request": request})
    with subprocess.Popen([sys.executable, "-c", TUNER, message]) as tuner:
        deadline = time.monotonic() + 30
        while len(marked(ready.board.folder)) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        started = {*psutil.Process(tuner.pid).children(recursive=True), *marked(ready.board.folder)}
        assert len(started) >= 4
        tuner.kill()
    # What hangs elsewhere in the tree is ended by the next agent.
    ready.transport.start()
    _, alive = psutil.wait_procs(started, 5)
    assert not alive
    assert ready.run("good").outcome is Outcome.OK


@pytest.mark.thorough
@pytest.mark.parametrize("ready", ["x86"], indirect=True)
def test_a_board_has_one_host(ready: Ready) -> None:
    assert ready.run("good").outcome is Outcome.OK
    with pytest.raises(NotProvisionedError, match=f"another agent is at work here: process {ready.agent.pid}"):
        AgentTransport(ready.board).start()


@pytest.mark.slow
def test_a_campaign_runs_on_a_board(ready: Ready, tmp_path: Path) -> None:
    ready.transport.close()
    board = replace(ready.board, cores=(0,), limits=replace(ready.board.limits, memory_bytes=2 << 30))
    spec = CampaignSpec("small", network_of(SMALL, SMALL_DEPTHWISE), strategy="random", trials_per_task=8)
    run_result = run_campaign(spec, "generic", 1, AgentTransport(board), tmp_path, Silence(), lambda: False)
    assert run_result.ending is Ending.FINISHED
    with closing(SqliteStore(tmp_path / STORE_FILE)) as store:
        trials = trials_of(store, spec)
    assert len(trials) == 16
    assert {trial.outcome for trial in trials} == {Outcome.OK}
    assert {trial.environment["board"] for trial in trials} == {board.name}
    ready.transport.start()


@pytest.mark.slow
@pytest.mark.parametrize("ready", ["x86"], indirect=True)
def test_five_hundred_sessions_leave_the_agent_as_it_was(ready: Ready) -> None:
    entries = ("good", "segfault", "wrong_value", "daemonizes", "leaves")
    for index in range(20):
        ready.run(entries[index % 5])
    agent = ready.agent
    descriptors, memory = agent.num_fds(), agent.memory_info().rss
    for index in range(500):
        ready.run(entries[index % 5])
    assert ready.agent == agent
    assert agent.num_fds() == descriptors
    assert agent.memory_info().rss < memory + (2 << 20)
    assert agent.children() == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ready", ["x86"], indirect=True)
def test_a_thousand_crashes_in_a_row_cost_their_sessions_only(ready: Ready) -> None:
    agent, longest_s = ready.agent, 0.0
    for _ in range(1000):
        began = time.monotonic()
        assert ready.run("segfault").outcome is Outcome.RUN_FAILED
        longest_s = max(longest_s, time.monotonic() - began)
    assert ready.run("good").outcome is Outcome.OK
    assert ready.agent == agent
    print(f"1,000 crashes, the longest session took {longest_s:.2f} s")
    assert longest_s < 1


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("ready", ["x86"], indirect=True)
def test_nothing_is_left_of_a_thousand_sessions(ready: Ready) -> None:
    """Processes that left their group, files in the work folder, shared memory; after good sessions as well."""
    entries = ("good", "daemonizes", "segfault", "makes_noise", "prints")
    agent, shared = ready.agent, set(Path("/dev/shm").iterdir())
    for index in range(1000):
        ready.run(entries[index % len(entries)])
        assert marked(ready.board.folder) == [agent]
        assert not (Path(ready.board.folder) / "work").exists()
    assert set(Path("/dev/shm").iterdir()) <= shared


@pytest.mark.parametrize("ready", ["x86"], indirect=True)  # an emulator's times are no measurements
@pytest.mark.thorough
def test_a_trial_takes_little_more_than_its_kernels(ready: Ready) -> None:
    request = ready.kernels.request("takes_a_while", timing=Timing(repeats=3, min_repeat_s=0.001))
    own_s = 0.002 * (len(request.programs[0].cases) + 1 + 2 * (3 + 2))
    times_s = []
    for _ in range(15):
        began = time.monotonic()
        assert ready.transport.run(request).outcome is Outcome.OK
        times_s.append(time.monotonic() - began - own_s)
    print(f"over the kernel's own time: median {median(times_s) * 1e3:.1f} ms, least {min(times_s) * 1e3:.1f} ms")
    assert min(times_s) < 0.03


def _disturbed(ready: Ready, number: signal.Signals) -> tuple[Reply, float]:
    """What becomes of a session whose agent gets a signal, and how long after that."""
    assert ready.run("good").outcome is Outcome.OK
    sent_at = []

    def disturb() -> None:
        ready.agent.send_signal(number)
        sent_at.append(time.monotonic())

    timer = threading.Timer(0.5, disturb)
    timer.start()
    reply = ready.run("hangs", run_limit_s=40.0)
    timer.join(5)
    return reply, time.monotonic() - sent_at[0]
