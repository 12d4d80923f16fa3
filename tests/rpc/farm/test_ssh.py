"""The way to a board: made ready and left by SSH, keys that are known and those that are not, what a stranger gets."""

from __future__ import annotations

import base64
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from int8tune.results.record import Outcome
from int8tune.rpc.board.agent_route import AgentRoute
from int8tune.rpc.board.connection import connect
from int8tune.rpc.errors import (
    DeviceLostError,
    HostKeyError,
    LateError,
    LoginError,
    NoAnswerError,
    NotProvisionedError,
    ProvisionError,
    SessionEndedError,
    UnreachableError,
)
from int8tune.rpc.inventory.boards import Board
from int8tune.rpc.inventory.file import read_inventory
from int8tune.rpc.provision import provision, release
from int8tune.rpc.streams.ssh import SshConnection, fingerprint, public_key_of
from int8tune.rpc.transports.agent import AgentTransport
from tests.sshd import Sshd, farm_toml, make_key, running_sshd
from tests.support.farm.boards import CACHE, board_behind, listeners, marked
from tests.support.farm.faulty_link import FaultyLink
from tests.support.kernels.rpc_kernels import Kernels, build_kernels
from tests.support.program.cli_program import int8tune

pytestmark = pytest.mark.promise(6, 8, 17, 23)


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with running_sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def board(sshd: Sshd, tmp_path: Path) -> Iterator[Board]:
    """Nothing is on it yet."""
    sshd.set_authorized("KEY")
    yield board_behind(sshd, "x86", tmp_path / "home" / "board")
    sshd.set_authorized("KEY")


@pytest.fixture(scope="module")
def provisioned(sshd: Sshd, tmp_path_factory: pytest.TempPathFactory) -> Board:
    """For tests that leave it as it is."""
    board = board_behind(sshd, "x86", tmp_path_factory.mktemp("provisioned") / "board")
    ready(board)
    return board


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return build_kernels(tmp_path_factory.mktemp("kernels"))


def ready(board: Board) -> str:
    return provision(board, CACHE, upgrade=False, say=print).change


def soon() -> float:
    return time.monotonic() + 10


@pytest.mark.thorough
def test_provisioned_upgraded_and_released(board: Board) -> None:
    folder = Path(board.folder)
    assert ready(board) == "installed"
    files = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert set(files) == {"agent", "bundle", "libtvm_ffi.so", "libtvm_runtime.so", "run", "sums"}
    assert folder.stat().st_mode & 0o077 == 0
    assert ready(board) == "unchanged"
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == files
    (folder / "bundle").write_text("x86_64-0123456789abcdef\n")
    with pytest.raises(
        ProvisionError, match="has the agent of another version: x86_64-0123456789abcdef, add --upgrade"
    ):
        ready(board)
    with pytest.raises(NotProvisionedError, match="has the agent of another version: x86_64-0123456789abcdef"):
        AgentTransport(board).start()
    assert provision(board, CACHE, upgrade=True, say=print).change == "upgraded"
    with AgentTransport(board):
        assert len(marked(board.folder)) == 1
        assert release(board)
        assert marked(board.folder) == []
    assert list(folder.parent.iterdir()) == []
    assert not release(board)


@pytest.mark.thorough
def test_a_damaged_file_is_repaired(board: Board) -> None:
    assert ready(board) == "installed"
    for name in ("libtvm_runtime.so", "run"):
        file = Path(board.folder) / name
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        assert ready(board) == "repaired"
    assert ready(board) == "unchanged"


def test_a_folder_of_somebody_else_is_left_alone(board: Board) -> None:
    folder = Path(board.folder)
    folder.mkdir(parents=True)
    (folder / "thesis.tex").write_text("all of it")
    for action in (ready, release):
        with pytest.raises(ProvisionError, match="int8tune did not make"):
            action(board)
    assert (folder / "thesis.tex").read_text() == "all of it"


@pytest.mark.thorough  # compiles an agent for it
def test_a_board_of_another_kind_is_refused(board: Board) -> None:
    """This machine can't run code of a 64-bit Arm without an emulator; what was sent is removed."""
    with pytest.raises(ProvisionError):
        ready(replace(board, architecture="aarch64"))
    assert not Path(board.folder).exists()
    assert not Path(f"{board.folder}.new").exists()


def test_no_agent_is_said(board: Board) -> None:
    with pytest.raises(NotProvisionedError, match=r"no agent answers on `x86`: .*run: No such file or directory"):
        AgentTransport(board).start()


def test_a_changed_host_key_is_refused_with_both_fingerprints(board: Board, sshd: Sshd, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    other = " ".join((tmp_path / "other.pub").read_text().split()[:2])
    known, shown = (fingerprint(base64.b64decode(key.split()[1])) for key in (other, sshd.host_key))
    with pytest.raises(HostKeyError) as raised:
        AgentTransport(replace(board, host_key=other)).start()
    assert f"known: {known}, shown: {shown}" in str(raised.value)
    assert f"int8tune devices trust x86 {shown}" in str(raised.value)


def test_a_host_key_that_nobody_knows_is_refused(provisioned: Board, sshd: Sshd, tmp_path: Path) -> None:
    hosts = tmp_path / "known_hosts"
    hosts.write_text(f"elsewhere {sshd.host_key}\n")
    with pytest.raises(HostKeyError, match=rf"no host key of `\[127.0.0.1\]:{sshd.port}` is known: {hosts}"):
        AgentTransport(replace(provisioned, host_key=str(hosts))).start()
    hosts.write_text(f"[127.0.0.1]:{sshd.port} {sshd.host_key}\n")
    assert ready(replace(provisioned, host_key=str(hosts))) == "unchanged"


def test_a_key_that_the_board_does_not_take(board: Board, sshd: Sshd) -> None:
    with pytest.raises(LoginError, match=f"{sshd.user}@127.0.0.1:{sshd.port} does not take the key {sshd.other_key}"):
        AgentTransport(replace(board, key_file=sshd.other_key)).start()


def test_a_key_that_can_t_be_used(board: Board, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(locked)], check=True, timeout=20)
    with pytest.raises(LoginError, match="has a passphrase, and nobody is asked for it"):
        AgentTransport(replace(board, key_file=locked)).start()
    (tmp_path / "noise").write_text("no key")
    with pytest.raises(LoginError, match="not a private key"):
        AgentTransport(replace(board, key_file=tmp_path / "noise")).start()


def test_nobody_there(board: Board) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(UnreachableError, match="can't be reached: Connection refused"):
        AgentTransport(replace(board, port=port)).start()


def test_a_silent_port_is_given_up(board: Board) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = time.monotonic()
        slow = replace(board, port=silent.getsockname()[1], limits=replace(board.limits, connect_s=1.0))
        with pytest.raises(UnreachableError):
            AgentTransport(slow).start()
        assert time.monotonic() - began < 4


@pytest.mark.thorough
def test_a_shell_that_says_nothing_is_given_up(board: Board, sshd: Sshd) -> None:
    """Who logs in is let in, and whatever is started there is never heard of."""
    sshd.set_authorized('command="sleep 600" KEY')
    slow = replace(board, limits=replace(board.limits, connect_s=3.0))
    with pytest.raises(NoAnswerError, match=r"`x86` did not answer in time: .* its agent said nothing for 3 s"):
        AgentTransport(slow).start()
    for given in (b"", bytes(8 << 20)):  # more than anybody buffers
        connection = SshConnection.open(slow, time.monotonic() + 10)
        with pytest.raises(LateError, match=r"`x86` did not answer in time: .* took over 1 s"):
            connection.run("true", time.monotonic() + 1, given)
        connection.close()


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["check", pytest.param("provision", marks=pytest.mark.slow)])
def test_the_program_says_of_a_silent_shell_what_to_try(sshd: Sshd, tmp_path: Path, command: str) -> None:
    sshd.set_authorized('command="sleep 600" KEY')
    farm = tmp_path / "farm.toml"
    farm.write_text(farm_toml(sshd, "limits = { connect_s = 3 }"))
    ended = int8tune("devices", command, "here", "--inventory", str(farm))
    sshd.set_authorized("KEY")
    assert ended.code == 4
    assert "error: `here` did not answer in time: it lets" in ended.err
    assert "hint: try it by hand: ssh -i KEY" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.thorough
def test_the_restricted_key_starts_the_agent_and_nothing_else(provisioned: Board, sshd: Sshd, kernels: Kernels) -> None:
    import paramiko

    line = provision(provisioned, CACHE, upgrade=False, say=print).key_line
    assert line == f'restrict,command="{provisioned.folder}/run" {public_key_of(provisioned)}'
    sshd.set_authorized(line)
    with AgentTransport(provisioned) as transport:
        assert transport.run(kernels.request("good")).outcome is Outcome.OK
    with pytest.raises(ProvisionError, match="may be restricted to the agent"):
        ready(provisioned)
    connection = SshConnection.open(provisioned, soon())
    try:
        ended = connection.run("echo shell; id", soon())
        assert "shell" not in ended.out
        assert "uid" not in ended.out
        with pytest.raises(paramiko.ChannelException):
            connection._transport.open_channel("direct-tcpip", ("127.0.0.1", sshd.port), ("127.0.0.1", 0), timeout=5)
        with pytest.raises(paramiko.SSHException):
            connection._transport.request_port_forward("127.0.0.1", 0)
        with pytest.raises((paramiko.SSHException, EOFError, OSError)):
            paramiko.SFTPClient.from_transport(connection._transport)
    finally:
        connection.close()
        sshd.set_authorized("KEY")


def test_the_key_is_in_no_argument_environment_or_message(provisioned: Board, sshd: Sshd) -> None:
    lines = sshd.user_key.read_text().splitlines()[1:-1]
    material = [line.encode() for line in lines]
    with AgentTransport(provisioned):
        for process in [psutil.Process(), *psutil.Process().children(recursive=True), *marked(provisioned.folder)]:
            for name in ("cmdline", "environ"):
                content = Path(f"/proc/{process.pid}/{name}").read_bytes()
                assert not any(line in content for line in material)
    assert not any(line in sshd.log.encode() for line in material)
    assert not any(
        path.read_bytes().find(material[1]) >= 0 for path in Path(provisioned.folder).rglob("*") if path.is_file()
    )


def test_no_port_is_opened(provisioned: Board, kernels: Kernels) -> None:
    with AgentTransport(provisioned) as transport:
        assert listeners(provisioned.folder) == []
        asked = threading.Thread(target=transport.run, args=[kernels.request("hangs", run_limit_s=1.0)])
        asked.start()
        deadline = time.monotonic() + 5
        while len(marked(provisioned.folder)) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(marked(provisioned.folder)) == 2
        assert listeners(provisioned.folder) == []
        asked.join(20)
    listens = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", listens], stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        assert len(listeners(provisioned.folder)) == 1
        other.kill()


def test_the_board_itself_ends_a_session_at_its_deadline(provisioned: Board) -> None:
    link, _ = connect(AgentRoute(provisioned), soon())
    try:
        link.open(0.3, soon())
        began = time.monotonic()
        with pytest.raises(SessionEndedError, match="deadline"):
            link.receive(soon())
        assert 0.2 < time.monotonic() - began < 1
        link.open(0.3, soon())
        link.end_session(soon())
        assert len(marked(provisioned.folder)) == 1
    finally:
        link.close()


@pytest.mark.thorough
def test_a_case_that_is_damaged_on_its_way_is_not_taken(provisioned: Board) -> None:
    link, _ = connect(AgentRoute(provisioned), soon())
    try:
        with pytest.raises(DeviceLostError, match="the board took no case: the case was damaged on its way"):
            link.upload(b"\0" * 32, b"content", soon())
        assert not (Path(provisioned.folder) / "cases" / ("00" * 32)).exists()
    finally:
        link.close()


@pytest.mark.slow
def test_a_link_that_falls_silent_is_noticed(provisioned: Board, sshd: Sshd, kernels: Kernels) -> None:
    with FaultyLink(sshd.port) as link, AgentTransport(replace(provisioned, port=link.port)) as transport:
        assert transport.run(kernels.request("good")).outcome is Outcome.OK
        stalled_at: list[float] = []
        timer = threading.Timer(0.5, lambda: (stalled_at.append(time.monotonic()), link.stall(60.0)))
        timer.start()
        reply = transport.run(kernels.request("hangs", run_limit_s=60.0))
        took_s = time.monotonic() - stalled_at[0]
        assert (reply.outcome, "silent for 12 s" in reply.error) == (Outcome.DEVICE_LOST, True), reply.error
        print(f"a silent link was noticed after {took_s:.1f} s")
        assert took_s < 15


@pytest.mark.slow
def test_an_agent_leaves_where_its_host_is_silent(provisioned: Board) -> None:
    link, _ = connect(AgentRoute(provisioned), soon())
    try:
        link.open(600.0, soon())
        link.state(soon())  # answered after the session was begun
        assert len(marked(provisioned.folder)) == 2
        deadline = time.monotonic() + 25
        while marked(provisioned.folder) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert marked(provisioned.folder) == []
    finally:
        link.close()


@pytest.mark.thorough
def test_commands(board: Board, sshd: Sshd, tmp_path: Path) -> None:
    farm = tmp_path / "farm.toml"
    make_key(tmp_path / "other")
    other = " ".join((tmp_path / "other.pub").read_text().split()[:2])
    farm.write_text(
        f'[[boards]]\nname = "x86"\ntransport = "ssh"\naddress = "127.0.0.1"\nuser = "{sshd.user}"\n'
        f'port = {sshd.port}\nkey_file = "{sshd.user_key}"\nhost_key = "{other}"\n'
        f'folder = "{board.folder}"\ntiming = "none"\n'
    )

    def devices(*arguments: str) -> tuple[int, str, str]:
        ended = int8tune("devices", *arguments, "--inventory", str(farm))
        return ended.code, ended.out, ended.err

    code, out, _ = devices("list")
    assert code == 0
    assert re.search(rf"x86 +ssh +{sshd.user}@127.0.0.1:{sshd.port} +best +all +none", out)
    code, _, err = devices("provision", "x86")
    assert code == 4
    shown = fingerprint(base64.b64decode(sshd.host_key.split()[1]))
    assert f"accept it: int8tune devices trust x86 {shown}" in err
    assert devices("trust", "x86", "SHA256:other")[0] == 4
    assert devices("trust", "x86", shown)[0] == 0
    assert read_inventory(farm).board("x86").host_key == sshd.host_key
    code, out, err = devices("provision", "x86")
    assert code == 0, err
    assert "installed" in out
    assert f'restrict,command="{board.folder}/run"' in err
    code, out, err = devices("check", "x86")
    assert code == 0, err
    assert re.search(r"canary +exact", out)
    assert devices("release", "x86")[1] == "x86: released\n"
    assert devices("release", "nobody")[0] == 2
    farm.write_text(farm.read_text() + 'colour = "red"\n')
    code, _, err = devices("list")
    assert code == 2
    assert f"{farm}:11: boards[0].colour: unknown field" in err
