"""A real sshd on loopback, for boards behind it: keys of its own, a high port, no PAM.

`python -m tests.sshd FOLDER` starts one until it is interrupted, and writes `FOLDER/farm.toml` with two boards: this
machine, and a Cortex-A53. What it needs: OpenSSH's `sshd` and `ssh-keygen`. Nothing of the machine's own configuration
is read or written.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from int8tune.rpc.process import processes

_START_LIMIT_S = 10.0
_CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile {folder}/sshd.pid
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
LogLevel VERBOSE
"""


@dataclass(frozen=True, slots=True)
class Sshd:
    """A running server: `user_key` logs in as this user; `other_key` does not."""

    folder: Path
    port: int
    user: str
    user_key: Path
    other_key: Path
    host_key: str
    process: subprocess.Popen[bytes]

    def set_authorized(self, line: str) -> None:
        """What `authorized_keys` has, with `KEY` for the user's public key."""
        key = self.user_key.with_suffix(".pub").read_text().strip()
        (self.folder / "authorized_keys").write_text(line.replace("KEY", key) + "\n")

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")


def why_no_sshd() -> str:
    """Why none can run here; empty if one can."""
    missing = [name for name in ("ssh-keygen",) if not shutil.which(name)]
    if _sshd() is None:
        missing.append("sshd")
    if not sys.platform.startswith("linux"):
        return "needs Linux"
    try:
        import paramiko  # noqa: F401
    except ImportError:
        missing.append("paramiko")
    return f"not installed: {', '.join(missing)}" if missing else ""


@contextlib.contextmanager
def running_sshd(folder: Path, more: str = "") -> Iterator[Sshd]:
    """Set up a server in an empty folder, and end it with what it started. `more`: lines for its configuration."""
    if why := why_no_sshd():
        import pytest  # not there where only the command runs

        pytest.skip(f"no sshd: {why}")
    folder.mkdir(mode=0o700, exist_ok=True)
    for name in ("host_key", "user_key", "other_key"):
        make_key(folder / name)
    port = _free_port()
    (folder / "config").write_text(_CONFIG.format(port=port, folder=folder) + more)
    if os.geteuid() == 0:  # where root's sshd confines itself; Debian's service makes it
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    path = _sshd()
    assert path is not None
    with (folder / "log").open("wb") as log:
        command = [path, "-D", "-e", "-f", str(folder / "config")]
        process = subprocess.Popen(command, stderr=log, start_new_session=True, preexec_fn=_end_with_parent)
    host_key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    sshd = Sshd(folder, port, getpass.getuser(), folder / "user_key", folder / "other_key", host_key, process)
    sshd.set_authorized("KEY")
    try:
        _wait_for(port, process)
        yield sshd
    finally:
        process.terminate()
        process.wait(10)


def make_key(path: Path) -> None:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(command, check=True, timeout=20, stdin=subprocess.DEVNULL)


def _end_with_parent() -> None:
    processes.signal_when_parent_ends(signal.SIGTERM)


def _sshd() -> str | None:
    return shutil.which("sshd") or next((path for path in ("/usr/sbin/sshd",) if Path(path).is_file()), None)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline:
        assert process.poll() is None, "sshd ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise AssertionError("sshd does not listen")


_FARM = """
[[boards]]
name = "here"
{way}
folder = "{folder}/here"
cores = [0]
{more}
[[boards]]
name = "a53"
{way}
folder = "{folder}/a53"
cores = [{other}]
architecture = "aarch64"
emulator = "qemu-aarch64-static -cpu cortex-a53 -L /usr/aarch64-linux-gnu"
timing = "none"
"""


def farm_toml(sshd: Sshd, more: str = "") -> str:
    """An inventory of this machine and a Cortex-A53, each on a core of its own; `more` is of the first one."""
    way = f'transport = "ssh"\naddress = "127.0.0.1"\nport = {sshd.port}\nuser = "{sshd.user}"\n'
    way += f'key_file = "{sshd.user_key}"\nhost_key = "{sshd.host_key}"'
    return _FARM.format(way=way, folder=sshd.folder, other=(os.cpu_count() or 2) - 1, more=more).lstrip()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.sshd", description="Serve two boards until Ctrl-C.")
    parser.add_argument("folder", type=Path, help="gets keys, what boards are given, and farm.toml")
    folder = parser.parse_args().folder.resolve()
    if why := why_no_sshd():
        parser.error(f"{why}; apt install openssh-server openssh-client, pip install 'int8tune[farm]'")
    with running_sshd(folder) as served:
        (served.folder / "farm.toml").write_text(farm_toml(served))
        print(served.folder / "farm.toml", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            served.process.wait()


if __name__ == "__main__":
    main()
