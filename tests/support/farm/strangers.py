"""What a stranger may try at a board's sshd: each act with OpenSSH's own programs, and whether it worked."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.sshd import Sshd

BANNER = b"the inside of the board's network"
# What a board's own configuration has, that a restricted key must not get.
OPEN_HOUSE = """
Subsystem sftp internal-sftp
AllowTcpForwarding yes
AllowStreamLocalForwarding yes
AllowAgentForwarding yes
PermitTTY yes
AcceptEnv LC_*
"""
_LIMIT_S = 10.0
_SOON_S = 4.0
_PROGRAMS = ("ssh", "scp", "sftp", "ssh-agent")


def why_no_ssh() -> str:
    """Why nobody can be a stranger here; empty if somebody can."""
    missing = [name for name in _PROGRAMS if not shutil.which(name)]
    return f"not installed: {', '.join(missing)}" if missing else ""


@dataclass(frozen=True, slots=True)
class Tried:
    """Whether an act worked, and what the stranger was told."""

    worked: bool
    words: str


@dataclass(frozen=True, slots=True)
class Stranger:
    """Somebody who has a key, and a folder for what he finds."""

    sshd: Sshd
    key: Path
    folder: Path

    @property
    def place(self) -> str:
        return f"{self.sshd.user}@127.0.0.1"

    @property
    def options(self) -> list[str]:
        hosts = self.folder / "hosts"
        hosts.write_text(f"[127.0.0.1]:{self.sshd.port} {self.sshd.host_key}\n")
        words = ["BatchMode=yes", "IdentitiesOnly=yes", "StrictHostKeyChecking=yes", f"UserKnownHostsFile={hosts}"]
        words += [f"Port={self.sshd.port}", f"IdentityFile={self.key}", "ConnectTimeout=5"]
        return ["-F", "none", *(part for word in words for part in ("-o", word))]

    def run(self, program: str, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """To its end; one that nobody answers is given up."""
        command = [program, *self.options, *arguments]
        try:
            return subprocess.run(command, input=given, capture_output=True, timeout=_SOON_S, check=False)
        except subprocess.TimeoutExpired as expired:
            return subprocess.CompletedProcess(command, -1, expired.stdout or b"", expired.stderr or b"")

    @contextlib.contextmanager
    def running(self, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
        """`ssh`, with its standard input left open."""
        pipe = subprocess.PIPE
        command, env = ["ssh", *self.options, *arguments], {**os.environ, **environment}
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=env) as process:
            try:
                yield process
            finally:
                process.kill()

    def on_board(self) -> list[tuple[str, psutil.Process]]:
        """Processes that the sshd has started, with their names, without its own."""
        found = []
        for process in psutil.Process(self.sshd.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                found.append((process.name(), process))
        return [(name, process) for name, process in found if not name.startswith("sshd")]


def runs_a_command(stranger: Stranger) -> Tried:
    marker = stranger.folder / "ran"
    ended = stranger.run("ssh", stranger.place, f"touch {marker}; id")
    return Tried(marker.exists() or b"uid=" in ended.stdout, _text(ended.stdout))


def has_a_shell(stranger: Stranger) -> Tried:
    marker = stranger.folder / "ran"
    ended = stranger.run("ssh", "-T", stranger.place, given=f"touch {marker}\n".encode())
    return Tried(marker.exists(), _text(ended.stdout))


def reads_a_file(stranger: Stranger) -> Tried:
    secret = stranger.folder / "secret"
    secret.write_bytes(BANNER)
    ended = stranger.run("ssh", stranger.place, f"cat {secret}")
    return Tried(BANNER in ended.stdout, _text(ended.stdout))


def copies_with_scp(stranger: Stranger) -> Tried:
    return _copies(stranger, "scp", "-O")


def copies_with_scp_over_sftp(stranger: Stranger) -> Tried:
    return _copies(stranger, "scp", "-s")


def _copies(stranger: Stranger, program: str, way: str) -> Tried:
    mine, there = stranger.folder / "mine", stranger.folder / "there"
    mine.write_bytes(BANNER)
    ended = stranger.run(program, way, str(mine), f"{stranger.place}:{there}")
    return Tried(there.exists(), _text(ended.stderr))


def uses_sftp(stranger: Stranger) -> Tried:
    mine, there, batch = (stranger.folder / name for name in ("mine", "there", "batch"))
    mine.write_bytes(BANNER)
    batch.write_text(f"put {mine} {there}\n")
    ended = stranger.run("sftp", "-b", str(batch), stranger.place)
    return Tried(there.exists(), _text(ended.stderr))


def forwards_a_port(stranger: Stranger) -> Tried:
    with (
        listening() as inside,
        stranger.running("-N", "-L", f"{(port := free_port())}:127.0.0.1:{inside}", *_to(stranger)) as ssh,
    ):
        return Tried(_hears(port, ssh), _end(ssh))


def forwards_to_a_socket(stranger: Stranger) -> Tried:
    """To a Unix socket of the board, as databases and container engines have them."""
    path = stranger.folder / "socket"
    with listening(path), stranger.running("-N", "-L", f"{(port := free_port())}:{path}", *_to(stranger)) as ssh:
        return Tried(_hears(port, ssh), _end(ssh))


def forwards_back(stranger: Stranger) -> Tried:
    refuse = ("-o", "ExitOnForwardFailure=yes")
    with (
        listening() as inside,
        stranger.running("-N", *refuse, "-R", f"{(port := free_port())}:127.0.0.1:{inside}", *_to(stranger)) as ssh,
    ):
        return Tried(_hears(port, ssh), _end(ssh))


def uses_it_as_a_proxy(stranger: Stranger) -> Tried:
    with listening() as inside, stranger.running("-N", "-D", str(port := free_port()), *_to(stranger)) as ssh:
        greeting = b"\x05\x01\x00", b"\x05\x01\x00\x01\x7f\x00\x00\x01" + inside.to_bytes(2, "big")
        return Tried(_hears(port, ssh, *greeting), _end(ssh))


def hops_to_another_host(stranger: Stranger) -> Tried:
    with listening() as inside:
        ended = stranger.run("ssh", "-W", f"127.0.0.1:{inside}", stranger.place)
    return Tried(BANNER in ended.stdout, _text(ended.stderr))


def forwards_its_agent(stranger: Stranger) -> Tried:
    """Whether the board offers the way back to the stranger's keys to what runs there."""
    path = stranger.folder / "agent"
    with ssh_agent(path), stranger.running("-A", stranger.place, "sleep 20", SSH_AUTH_SOCK=str(path)) as ssh:
        _wait_for(stranger.on_board)
        sshds = psutil.Process(stranger.sshd.process.pid).children(recursive=True)
        return Tried(any(map(_listens_for_an_agent, sshds)), _end(ssh))


def _listens_for_an_agent(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):  # sshd's helpers come and go
        return any(re.search(r"agent\.", str(connection.laddr)) for connection in process.net_connections("unix"))
    return False


def gets_a_terminal(stranger: Stranger) -> Tried:
    with stranger.running("-tt", stranger.place, "sleep 20") as ssh:
        _wait_for(lambda: stranger.on_board() or ssh.poll() is not None)
        if any(process.terminal() for _, process in stranger.on_board()):
            return Tried(True, _end(ssh))
        # The refusal may still be on its way when the agent runs: closing its standard input ends both, in order.
        return Tried(False, _text(ssh.communicate(timeout=_LIMIT_S)[1]))


def sets_variables(stranger: Stranger) -> Tried:
    """Looks at the variables of what ends up running, not of the shell that starts it."""
    with stranger.running("-o", "SetEnv=LC_STRANGER=here", stranger.place, "exec sleep 20") as ssh:
        assert _wait_for(lambda: {"sleep", "agent"} & {name for name, _ in stranger.on_board()})
        found = [process.environ() for _, process in stranger.on_board()]
        return Tried(any("LC_STRANGER" in variables for variables in found), _end(ssh))


# What he is told where it does not work; where the agent answers him, it is one line of its own.
NO_COMMAND = "a message is too long|^$"
PROHIBITED = "administratively prohibited|^$"
ACTS: dict[Callable[[Stranger], Tried], str] = {
    runs_a_command: NO_COMMAND,
    has_a_shell: NO_COMMAND,
    reads_a_file: NO_COMMAND,
    copies_with_scp: "",
    copies_with_scp_over_sftp: "Connection closed|Received message too long",
    uses_sftp: "Connection closed|Received message too long",
    forwards_a_port: PROHIBITED,
    forwards_to_a_socket: "open failed|^$",
    forwards_back: "remote port forwarding failed",
    uses_it_as_a_proxy: PROHIBITED,
    hops_to_another_host: "stdio forwarding failed",
    forwards_its_agent: "",
    gets_a_terminal: "PTY allocation request failed",
    sets_variables: "",
}


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def listening(path: Path | None = None) -> Iterator[int]:
    """Somebody inside, who says one line to whoever reaches him: on a port, or on a Unix socket."""
    with socket.socket(socket.AF_UNIX if path else socket.AF_INET) as server:
        server.bind(str(path) if path else ("127.0.0.1", 0))
        server.listen()
        server.settimeout(0.1)
        ended = threading.Event()

        def serve() -> None:
            while not ended.is_set():
                with contextlib.suppress(OSError):
                    connection, _ = server.accept()
                    with connection:
                        connection.sendall(BANNER)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield 0 if path else int(server.getsockname()[1])
        finally:
            ended.set()
            thread.join(5)


@contextlib.contextmanager
def ssh_agent(path: Path) -> Iterator[None]:
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL) as process:
        try:
            _wait_for(path.exists)
            yield
        finally:
            process.kill()


def _to(stranger: Stranger) -> tuple[str]:
    return (stranger.place,)


def _hears(port: int, ssh: subprocess.Popen[bytes], *said: bytes) -> bool:
    """Whether somebody inside is heard at this port, once it is there."""
    deadline = time.monotonic() + _SOON_S
    while ssh.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2) as sock:
            heard = b""
            for words in said:
                sock.sendall(words)
                heard += sock.recv(100)
            return BANNER in heard + sock.recv(100)
        time.sleep(0.05)
    return False


def _wait_for(there: Callable[[], object]) -> object:
    deadline = time.monotonic() + _SOON_S
    while not (found := there()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def _end(ssh: subprocess.Popen[bytes]) -> str:
    """What it wrote to its standard error until now."""
    ssh.terminate()
    try:
        words = ssh.communicate(timeout=1)[1]
    except subprocess.TimeoutExpired:  # a client whose channel was refused may wait for it
        ssh.kill()
        words = ssh.communicate(timeout=_LIMIT_S)[1]
    return _text(words)


def _text(data: bytes) -> str:
    return "".join(
        char if char.isprintable() or char == "\n" else " " for char in data.decode(errors="replace")
    ).strip()
