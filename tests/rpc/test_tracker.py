"""Boards behind a stock TVM tracker: what it and its servers do wrong ends within limits, nothing is left."""

from __future__ import annotations

import contextlib
import json
import re
import resource
import shutil
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from int8tune.results.record import Outcome
from int8tune.rpc.board import server as board_server
from int8tune.rpc.board.agent_route import AgentRoute
from int8tune.rpc.board.server import BoardServer
from int8tune.rpc.errors import DeviceLostError, DeviceStartError, TrackerError
from int8tune.rpc.inventory.boards import Board
from int8tune.rpc.request import Reply, Request
from int8tune.rpc.tracker import take_over
from int8tune.rpc.tracker.client import Tracker
from int8tune.rpc.tracker.take_over import LIBRARY
from int8tune.rpc.transports.tracker import TrackerTransport
from int8tune.rpc.wire import framing
from tests.support.farm.trackers import KEY, StockFarm, family, running_tracker, send_all, tracker_files
from tests.support.kernels.rpc_kernels import Kernels, build_kernels
from tests.support.program.waiting import wait_until


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return build_kernels(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def files() -> Path:
    return tracker_files()


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory, files: Path) -> Iterator[StockFarm]:  # noqa: ARG001
    with running_tracker(tmp_path_factory.mktemp("stock"), servers=2) as running:
        yield running


def impatient(board: Board, connect_s: float = 1.5) -> Board:
    return replace(board, limits=replace(board.limits, connect_s=connect_s))


def failure(board: Board, files: Path, limit_s: float = 6.0) -> str:
    began = time.monotonic()
    with pytest.raises(TrackerError) as raised:
        TrackerTransport(board, files).start()
    assert time.monotonic() - began < limit_s
    assert len(str(raised.value).splitlines()) == 1
    return str(raised.value)


class Running:
    """A request that is under way in a thread."""

    def __init__(self, transport: TrackerTransport, request: Request) -> None:
        self._replies: list[Reply] = []
        self._thread = threading.Thread(target=lambda: self._replies.append(transport.run(request)))
        self._thread.start()

    def reply(self, limit_s: float) -> Reply:
        self._thread.join(limit_s)
        assert self._replies, f"no reply within {limit_s} s"
        return self._replies[0]


def test_a_session_leaves_nothing_and_gives_its_server_back(farm: StockFarm, files: Path, kernels: Kernels) -> None:
    ports = listening([process for server in farm.servers for process in family(server)])
    with TrackerTransport(farm.board(), files) as transport:
        assert transport.run(kernels.request("good")).outcome is Outcome.OK
        assert farm.agents()
        servers = [process for server in farm.servers for process in family(server)]
        assert listening([*servers, *farm.agents()]) == ports
    wait_until(lambda: not farm.agents() and not farm.left(), limit_s=5)
    with TrackerTransport(farm.board("a"), files) as one, TrackerTransport(farm.board("b"), files) as other:
        assert {one.run(kernels.request("good")).outcome, other.run(kernels.request("good")).outcome} == {Outcome.OK}


def test_a_session_that_is_cancelled_gives_its_server_back(farm: StockFarm, files: Path, kernels: Kernels) -> None:
    with TrackerTransport(farm.board(), files) as transport:
        running = Running(transport, kernels.request("daemonizes_and_hangs", run_limit_s=60.0))
        wait_until(lambda: len(farm.agents()) >= 3, limit_s=5)
        transport.cancel()
        assert running.reply(limit_s=5).outcome is Outcome.DEVICE_LOST
        wait_until(lambda: not farm.agents() and free_servers(farm) == 2, limit_s=5)


def listening(processes: list[psutil.Process]) -> set[tuple[str, int]]:
    connections = [connection for process in processes for connection in process.net_connections("inet")]
    return {(c.laddr.ip, c.laddr.port) for c in connections if c.status == psutil.CONN_LISTEN}


_SAME_AS_BY_SSH = pytest.mark.thorough
"""What the agent says of a kernel, `farm/test_boards.py` asks over SSH; a quick run asks here what a server loses."""


@pytest.mark.parametrize(
    ("entry", "outcome", "error"),
    [
        ("segfault", Outcome.RUN_FAILED, "in case 0: killed by SIGSEGV"),
        pytest.param(
            *("leaves", Outcome.RUN_FAILED, "in case 0: exited with status 0 before it answered"), marks=_SAME_AS_BY_SSH
        ),
        pytest.param(
            *("hangs", Outcome.RUN_TIMEOUT, "not done within 0.5 s: stopped in case 0"), marks=_SAME_AS_BY_SSH
        ),
        ("daemonizes_and_kills_server", Outcome.DEVICE_LOST, "gave up: killed by signal 9"),
        pytest.param(
            *("past_end", Outcome.WRONG_ANSWER, "case 0: bytes written outside of the 256 of the output: 1"),
            marks=_SAME_AS_BY_SSH,
        ),
        pytest.param(
            *("does_nothing", Outcome.WRONG_ANSWER, "values differ, first at (0, 0, 0)"), marks=_SAME_AS_BY_SSH
        ),
        ("wrong_later", Outcome.WRONG_ANSWER, "case 0 after timing: 1 of 256 values differ"),
    ],
)
def test_a_bad_kernel_costs_its_session_and_no_server(
    farm: StockFarm, files: Path, kernels: Kernels, entry: str, outcome: Outcome, error: str
) -> None:
    with TrackerTransport(farm.board(), files) as transport:
        reply = transport.run(kernels.request(entry, run_limit_s=0.5))
        assert reply.outcome is outcome, reply.error
        assert error in reply.error
        assert transport.run(kernels.request("good")).outcome is Outcome.OK
    wait_until(lambda: not farm.agents(), limit_s=5)
    wait_until(lambda: free_servers(farm) == 2, limit_s=5)


def free_servers(farm: StockFarm) -> int:
    """By TVM's own client."""
    from tvm import rpc

    summary = rpc.connect_tracker("127.0.0.1", farm.port).summary()
    return int(summary["queue_info"][KEY]["free"])


def known_keys(farm: StockFarm) -> set[str]:
    """The keys for which the tracker has a server: its process is one of `server:KEY`, free or not."""
    from tvm import rpc

    info = rpc.connect_tracker("127.0.0.1", farm.port).summary()["server_info"]
    return {str(server["key"]).removeprefix("server:") for server in info}


def test_a_key_that_the_tracker_does_not_know(farm: StockFarm, files: Path) -> None:
    said = failure(replace(farm.board(), tracker_key="x68"), files)
    assert said == f"the tracker at 127.0.0.1:{farm.port} has no server with key `x68`, its keys: `x86`"


def test_no_server_is_free(farm: StockFarm, files: Path) -> None:
    with TrackerTransport(farm.board("a"), files), TrackerTransport(farm.board("b"), files):
        said = failure(impatient(farm.board("c"), 0.7), files)
    assert said == (
        f"no server with key `x86` was free within 0.7 s, of 2 that the tracker at 127.0.0.1:{farm.port} has"
    )


def test_nobody_answers_where_the_tracker_should_be(farm: StockFarm, files: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        said = failure(impatient(replace(farm.board(), port=port), 0.5), files)
        assert said == (
            f"what listens at 127.0.0.1:{port} does not answer as a TVM tracker: the other side did not answer in time"
        )
    said = failure(replace(farm.board(), port=port), files)
    assert said == f"the tracker at 127.0.0.1:{port} can't be reached: connection refused"


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([b"SSH-2.0"], "is no TVM tracker"),
        ([struct.pack("<i", 0x2F271), struct.pack("<i", 1 << 30)], "answers nonsense: 1073741824 bytes"),
        ([struct.pack("<i", 0x2F271), struct.pack("<i", -1)], "answers nonsense: -1 bytes"),
        ([struct.pack("<i", 0x2F271), b""], "does not say which servers it has: the other side closed"),
        ([struct.pack("<i", 0x2F271), b"\x03\0\0\0[0,"], "answers nonsense"),
        ([struct.pack("<i", 0x2F271), b"\x06\0\0\0[0, 3]"], "a summary without servers"),
    ],
)
def test_a_tracker_that_answers_nonsense(answers: list[bytes], error: str) -> None:
    with pytest.raises(TrackerError, match=error):
        ask_a_false_tracker(answers)


def test_a_tracker_that_hands_out_nonsense() -> None:
    servers = said([0, {"server_info": [{"key": f"server:{KEY}", "addr": [None, 1]}, 7, {"key": 3}], "queue_info": {}}])
    begin = [struct.pack("<i", 0x2F271), servers]
    assert ask_a_false_tracker([*begin, said([0, ["10.0.0.1", 9090, "x86:0.1"]])]) == "10.0.0.1:9090"
    for wrong in (
        [0, ["-oProxyCommand=x", 9090, "k"]],
        [0, ["h", 0, "k"]],
        [0, ["h", True, "k"]],
        [0, [1]],
        [0, ["h", 9, 3]],
    ):
        with pytest.raises(TrackerError, match="nonsense"):
            ask_a_false_tracker([*begin, said(wrong)])
    with pytest.raises(TrackerError, match="hands out no server: the other side closed"):
        ask_a_false_tracker([*begin, b""])


def said(value: object) -> bytes:
    body = json.dumps(value).encode()
    return struct.pack("<i", len(body)) + body


def ask_a_false_tracker(answers: list[bytes]) -> str:
    """Which server one gets that answers this to each message."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)

        def answer() -> None:
            asked, _ = listener.accept()
            with asked, contextlib.suppress(ConnectionError):
                for each in answers:
                    asked.recv(1 << 16)
                    if not each:
                        return
                    asked.sendall(each)
                asked.recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            deadline = time.monotonic() + 3
            with contextlib.closing(Tracker.connect("127.0.0.1", listener.getsockname()[1], deadline)) as tracker:
                tracker.require(KEY, deadline)
                return str(tracker.request(KEY, deadline))
        finally:
            thread.join(5)


@pytest.mark.thorough
def test_a_server_that_is_frozen_when_it_is_handed_out_is_left_for_another(
    farm: StockFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(take_over, "_HANDSHAKE_S", 0.5)
    board = impatient(farm.board(key="frozen"), connect_s=1.0)
    (first,), (other,) = farm.add(key="frozen"), farm.add(key="frozen")
    send_all(family(first), signal.SIGSTOP)
    sock, server = take_over._free_server(board, time.monotonic() + 1.0)
    assert (server.host, server.port) in listening(family(other))
    with sock, pytest.raises(TrackerError) as raised:
        take_over._free_server(board, time.monotonic() + 1.0)
    assert str(raised.value).startswith("no server with key `frozen` was free within 1 s, of 2 that the tracker at ")
    send_all(family(first), signal.SIGCONT)


@pytest.mark.thorough
def test_a_server_that_freezes_in_a_session(farm: StockFarm, files: Path, kernels: Kernels) -> None:
    (server,) = farm.add(key="freezes")
    with TrackerTransport(farm.board(key="freezes"), files) as transport:
        running = Running(transport, kernels.request("hangs", run_limit_s=60.0))
        wait_until(lambda: len(farm.agents()) == 2, limit_s=5)
        frozen = family(server)
        send_all(frozen, signal.SIGSTOP)
        reply = running.reply(limit_s=15)
        assert reply.outcome is Outcome.DEVICE_LOST
        assert reply.error == "the board was silent for 12 s"
        send_all(frozen, signal.SIGCONT)
        assert transport.run(kernels.request("good")).outcome is Outcome.OK
    wait_until(lambda: not farm.agents(), limit_s=10)


def test_a_server_that_is_killed_in_a_session(farm: StockFarm, files: Path, kernels: Kernels) -> None:
    (server,) = farm.add(key="killed")
    with TrackerTransport(impatient(farm.board(key="killed")), files) as transport:
        running = Running(transport, kernels.request("hangs", run_limit_s=60.0))
        wait_until(lambda: len(farm.agents()) == 2, limit_s=5)
        send_all([process for process in family(server) if process not in farm.agents()], signal.SIGKILL)
        reply = running.reply(limit_s=5)
        assert reply.outcome is Outcome.DEVICE_LOST
        assert "closed the connection" in reply.error
        wait_until(lambda: not farm.agents(), limit_s=5)
        wait_until(lambda: "killed" not in known_keys(farm), limit_s=5)  # the tracker finds out in its own time
        lost = transport.run(kernels.request("good"))
        assert lost.outcome is Outcome.DEVICE_LOST
        assert "has no server with key `killed`, its keys: " in lost.error


@pytest.mark.thorough
def test_what_a_server_takes_in_part_is_not_run(farm: StockFarm, files: Path) -> None:
    (server,) = farm.add(key="full")
    for process in family(server):  # as where its disk is full
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    said = failure(farm.board(key="full"), files)
    assert re.search(
        r"hand its session over: \w+[.\w]* came in damaged, 1048576 bytes of it: is the disk full\?$", said
    )


def test_a_library_that_the_server_can_not_load(farm: StockFarm, files: Path, tmp_path: Path) -> None:
    other = shutil.copytree(files, tmp_path / "files")
    (other / LIBRARY).write_bytes(b"\x7fELF of another machine")
    said = failure(farm.board(), other)
    assert "does not load a library, is the board's `architecture` right?: " in said
    wait_until(lambda: free_servers(farm) == 2, limit_s=5)


def test_an_agent_that_can_not_start(farm: StockFarm, files: Path, tmp_path: Path) -> None:
    other = shutil.copytree(files, tmp_path / "files")
    (other / "agent").write_bytes(b"\x7fELF of another machine")
    said = failure(farm.board(), other)
    assert said == (
        "the agent that was sent to `rasp` does not answer: the board's agent gave up: "
        "it can't be started: Exec format error"
    )
    wait_until(lambda: free_servers(farm) == 2, limit_s=5)


def test_a_server_outlives_a_host_that_gives_up(farm: StockFarm, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(*_: object) -> None:
        time.sleep(0.3)  # the answer has come, and nobody has read it
        raise TrackerError("it takes too long")

    monkeypatch.setattr(take_over._ServerSession, "_answer", give_up)
    with pytest.raises(TrackerError, match="it takes too long"):
        take_over.agent_by_tracker(farm.board(), files, time.monotonic() + 5)
    wait_until(lambda: free_servers(farm) == 2, limit_s=5)


def test_a_server_is_given_back_where_nothing_is_asked_of_it(
    farm: StockFarm, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_server, "_PING_EVERY_S", 0.1)
    monkeypatch.setattr(board_server, "_GIVE_BACK_AFTER_S", 0.5)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server = BoardServer(AgentRoute(farm.board(), files=files), theirs)
        thread = threading.Thread(target=serve, args=[server])
        thread.start()
        assert "capabilities" in framing.receive(ours, time.monotonic() + 10)
        assert len(farm.agents()) == 1
        wait_until(lambda: not farm.agents() and free_servers(farm) == 2, limit_s=5)
        ours.close()
        thread.join(5)


def serve(server: BoardServer) -> None:
    with pytest.raises(DeviceLostError):
        server.serve()


@pytest.mark.thorough
def test_another_cpu_than_before_is_refused(farm: StockFarm, files: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server = BoardServer(AgentRoute(farm.board(), files=files), theirs)
        server._connect()
        assert server._capabilities is not None
        server._capabilities = replace(server._capabilities, cpu="another")
        server.close()
        with pytest.raises(DeviceStartError, match=r"`rasp` is another CPU than before: .*, not another"):
            server._connect()
        server.close()
