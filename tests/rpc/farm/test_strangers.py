"""What a stranger gets at a board: nothing. Real sshd, real agent, its forced command, OpenSSH's own programs.

Each act is tried twice: with a key that may do everything, where it has to work, and with the one that
`devices provision` prints.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import psutil
import pytest

from int8tune.results.record import Outcome
from int8tune.rpc.errors import LoginError, UnreachableError
from int8tune.rpc.inventory.boards import Board
from int8tune.rpc.provision import provision
from int8tune.rpc.request import Timing
from int8tune.rpc.transports.agent import AgentTransport
from tests.sshd import Sshd, running_sshd
from tests.support.farm.boards import CACHE, board_behind, marked
from tests.support.farm.strangers import (
    ACTS,
    OPEN_HOUSE,
    Stranger,
    Tried,
    forwards_a_port,
    runs_a_command,
    why_no_ssh,
)
from tests.support.kernels.rpc_kernels import Kernels, build_kernels
from tests.support.run.thinned import representatives

pytestmark = [
    pytest.mark.skipif(bool(why_no_ssh()), reason=f"nobody can be a stranger: {why_no_ssh()}"),
    pytest.mark.promise(9),
]

# TVM's RPC server takes these 8 bytes for a client; other ones end its listener for good.
TVM_MAGIC = (0xFF271).to_bytes(4, "little") + b"\0\0\0\0"
HALF_OPEN = 200
# In which sshd starts as many processes as it takes logins at a time: here they are the measuring core's, too.
SETTLE_S = 1.0
# Addresses of this machine; the second one is another host's to sshd.
OTHER_ADDRESS = "127.0.0.2"
NOBODY = 65534


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Not in pytest's own folder, which nobody else may enter."""
    path = Path(tempfile.mkdtemp(prefix="int8tune-strangers-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def sshd(folder: Path) -> Iterator[Sshd]:
    with running_sshd(folder / "sshd", OPEN_HOUSE) as running:
        yield running


@pytest.fixture(scope="module")
def key_line(sshd: Sshd, folder: Path) -> str:
    """The line of `authorized_keys` for a board that is provisioned."""
    done = provision(board_behind(sshd, "x86", folder / "board"), CACHE, upgrade=False, say=print)
    return done.key_line


@pytest.fixture
def board(sshd: Sshd, folder: Path, key_line: str) -> Iterator[Board]:
    """Its key is restricted to the agent."""
    sshd.set_authorized(key_line)
    yield board_behind(sshd, "x86", folder / "board")
    sshd.set_authorized("KEY")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return build_kernels(tmp_path_factory.mktemp("kernels"))


@pytest.mark.slow
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_each_act_would_work_with_a_key_that_may_do_everything(
    sshd: Sshd, tmp_path: Path, act: Callable[[Stranger], Tried]
) -> None:
    sshd.set_authorized("KEY")
    tried = act(Stranger(sshd, sshd.user_key, tmp_path))
    assert tried.worked, tried.words


# A command and a port; files and terminals are among the others.
QUICK = (runs_a_command, forwards_a_port)


@pytest.mark.parametrize("act", representatives(ACTS, lambda act: {act} & {*QUICK}), ids=lambda act: act.__name__)
def test_the_restricted_key_does_none_of_it(
    board: Board, sshd: Sshd, kernels: Kernels, tmp_path: Path, act: Callable[[Stranger], Tried]
) -> None:
    tried = act(Stranger(sshd, sshd.user_key, tmp_path))
    assert not tried.worked, tried.words
    assert re.search(ACTS[act], tried.words), tried.words
    with AgentTransport(board) as transport:
        assert transport.run(kernels.request("good")).outcome is Outcome.OK


def test_another_key_does_not_log_in(board: Board, sshd: Sshd, tmp_path: Path) -> None:
    stranger = Stranger(sshd, sshd.other_key, tmp_path)
    ended = stranger.run("ssh", stranger.place, "id")
    assert (ended.returncode, ended.stdout) == (255, b"")
    assert re.fullmatch(rb".*: Permission denied \(publickey\)\.\s*", ended.stderr)
    with pytest.raises(LoginError) as raised:
        AgentTransport(replace(board, key_file=sshd.other_key)).start()
    assert "\n" not in str(raised.value)
    assert not marked(board.folder)


def test_the_agent_has_nothing_of_its_caller_s_environment(board: Board) -> None:
    with AgentTransport(board):
        (agent,) = marked(board.folder)
        assert agent.environ().keys() == {"INT8TUNE_AGENT", "LD_LIBRARY_PATH", "PATH"}


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(TVM_MAGIC, id="tvm", marks=pytest.mark.thorough),
        pytest.param(b"\0" * 8, id="zeros", marks=pytest.mark.thorough),
        pytest.param(b"\xff" * 8, id="ones", marks=pytest.mark.thorough),
        pytest.param(b"SSH-2.0-stranger\r\n", id="ssh", marks=pytest.mark.thorough),
        pytest.param(secrets.token_bytes(1 << 16), id="noise"),
    ],
)
def test_bytes_of_a_stranger_end_no_listener(board: Board, sshd: Sshd, kernels: Kernels, said: bytes) -> None:
    """Stock TVM's server runs what the first of these lead to, and is gone for good after others."""
    with AgentTransport(board) as transport:
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", sshd.port), timeout=5) as sock, contextlib.suppress(OSError):
                sock.sendall(said)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(1 << 12):
                    pass
        assert transport.run(kernels.request("good")).outcome is Outcome.OK
    with AgentTransport(board) as transport:
        assert transport.run(kernels.request("good")).outcome is Outcome.OK


def test_silent_connections_hold_nobody_up(board: Board, sshd: Sshd, kernels: Kernels) -> None:
    """One of them blocks stock TVM's server as long as it is held. sshd lets ten wait (`MaxStartups`)."""
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(socket.create_connection(("127.0.0.1", sshd.port), timeout=5))
        began = time.monotonic()
        with AgentTransport(board) as transport:
            assert transport.run(kernels.request("good")).outcome is Outcome.OK
        assert time.monotonic() - began < 5


@pytest.mark.slow
def test_half_open_connections_do_not_slow_measuring(board: Board, sshd: Sshd, kernels: Kernels) -> None:
    """200 of them, in turn with none: sessions of a kernel of 2 ms, 0.1 s each."""
    compare_rates(board, sshd, kernels, rounds=3, window_s=1.5)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_half_open_connections_do_not_slow_measuring_for_long(board: Board, sshd: Sshd, kernels: Kernels) -> None:
    compare_rates(board, sshd, kernels, rounds=12, window_s=3.0)


def compare_rates(board: Board, sshd: Sshd, kernels: Kernels, rounds: int, window_s: float) -> None:
    """By the median session, which says little of what else this machine does."""
    request = kernels.request("takes_a_while", timing=Timing(repeats=7, min_repeat_s=0.002))
    took_s: dict[int, list[float]] = {0: [], HALF_OPEN: []}
    with AgentTransport(board) as transport:
        assert transport.run(request).outcome is Outcome.OK
        for _ in range(rounds):
            for count, times_s in took_s.items():
                with half_open(sshd.port, count):
                    time.sleep(SETTLE_S)
                    until_s = time.monotonic() + window_s
                    while (began := time.monotonic()) < until_s:
                        assert transport.run(request).outcome is Outcome.OK
                        times_s.append(time.monotonic() - began)
    without, beside = (1 / median(times_s) for times_s in took_s.values())
    share = beside / without
    print(f"{without:.1f} sessions a second, with {HALF_OPEN} half-open {beside:.1f}: {share:.1%}")
    assert share >= 0.9


@pytest.mark.thorough
def test_a_login_beside_half_open_connections(folder: Path, kernels: Kernels) -> None:
    """A new one may be refused, in a line, while sshd has as many as it takes; not with `PerSourceMaxStartups`."""
    with running_sshd(folder / "limited", f"{OPEN_HOUSE}PerSourceMaxStartups 5\n") as limited:
        board = board_behind(limited, "x86", folder / "limited-board")
        provision(board, CACHE, upgrade=False, say=print)
        with half_open(limited.port, HALF_OPEN), AgentTransport(board) as transport:
            assert transport.run(kernels.request("good")).outcome is Outcome.OK
    with running_sshd(folder / "unlimited", "MaxStartups 10\n") as unlimited, half_open(unlimited.port, HALF_OPEN):
        refused = AgentTransport(replace(board, port=unlimited.port, host_key=unlimited.host_key))
        with pytest.raises(UnreachableError, match="does not speak SSH as it should: "):
            refused.start()


@contextlib.contextmanager
def half_open(port: int, count: int) -> Iterator[None]:
    """So many connections from another address, over which nothing is said. sshd closes some of them."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            address = (OTHER_ADDRESS, 0)
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5, source_address=address))
        yield


OTHER_USER = """
import os, socket, sys
os.setgroups([]), os.setgid({nobody}), os.setuid({nobody})

def tries(what, act):
    try:
        act()
    except OSError:
        return
    print("could", what)

folder, paths, pids = {folder!r}, {paths!r}, {pids!r}
tries("use the folder", lambda: os.listdir(folder))
for name in ("run", "agent", "lock", "cases", "bundle"):
    tries("open " + name, lambda: os.open(os.path.join(folder, name), os.O_RDONLY))
for path in paths:
    tries("connect to " + path, lambda: socket.socket(socket.AF_UNIX).connect(path))
for pid in pids:
    tries(f"look into {{pid}}", lambda: open(f"/proc/{{pid}}/environ", "rb").read())
    tries(f"list what {{pid}} has open", lambda: os.listdir(f"/proc/{{pid}}/fd"))
    for number in range(64):
        tries(f"open {{number}} of {{pid}}", lambda: os.open(f"/proc/{{pid}}/fd/{{number}}", os.O_RDWR))
    tries(f"stop {{pid}}", lambda: os.kill(pid, 19))
print("done")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_of_the_machine_finds_no_door(board: Board, kernels: Kernels) -> None:
    """Neither to the host's processes, which speak over sockets without a name, nor to the board's folder."""
    with AgentTransport(board) as transport:
        assert transport.run(kernels.request("good")).outcome is Outcome.OK
        own = [psutil.Process(), *psutil.Process().children(recursive=True), *marked(board.folder)]
        # A database of other tests has a door: its clients' socket.
        family = [process for process in own if not process.name().startswith(("sshd", "postgres"))]
        assert len(family) >= 3
        script = OTHER_USER.format(
            nobody=NOBODY, folder=board.folder, paths=_unix_sockets(family), pids=[process.pid for process in family]
        )
        ended = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, timeout=30, text=True)
        assert (ended.stdout, ended.stderr) == ("done\n", "")


def _unix_sockets(family: list[psutil.Process]) -> list[str]:
    """Those that have a name: anybody may try them."""
    found = [connection.laddr for process in family for connection in process.net_connections("unix")]
    return sorted({str(path) for path in found if path})
