"""A board made ready, and left as it was: over SSH, in one folder of its user, without root.

On the board this needs a POSIX shell, `cat`, `mkdir`, `mv`, `rm`, `chmod`, `uname` and `sha256sum`.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from int8tune.rpc.agent.build import AGENT, MARK, Bundle, compilers, is_of_this_version, launcher, make_bundle
from int8tune.rpc.board.agent_route import LAUNCHER
from int8tune.rpc.errors import ProvisionError
from int8tune.rpc.inventory.boards import ARCHITECTURES, Board
from int8tune.rpc.streams.ssh import SshConnection, public_key_of

UPLOAD_LIMIT_S = 120.0
_COMMAND_LIMIT_S = 30.0
_NAME_FILE = "bundle"
_LONGEST_WORDS = 300


@dataclass(frozen=True, slots=True)
class Found:
    """What is on a board.

    Attributes:
        folder: the board's folder, whole.
        state: `absent`, `ours`, or `foreign`: something that provisioning did not make.
    """

    machine: str
    folder: str
    state: str
    bundle: str


@dataclass(frozen=True, slots=True)
class Provisioned:
    """What provisioning did.

    Attributes:
        change: `installed`, `upgraded`, `repaired` or `unchanged`.
        key_line: for the board's `authorized_keys`: it lets the key start the agent and nothing else.
    """

    change: str
    bundle: str
    sent_bytes: int
    folder: str
    key_line: str
    took_s: float


def provision(board: Board, cache: Path, upgrade: bool, say: Callable[[str], None]) -> Provisioned:
    """Put this version's agent on a board, unless it is there.

    Raises:
        DeviceStartError: the board can't be reached, or not safely.
        DeviceLostError: the connection broke.
        ProvisionError: the board has another version and `upgrade` is not set, or what it needs is missing.
    """
    began = time.monotonic()
    connection = SshConnection.open(board, began + board.limits.connect_s)
    try:
        found = _look(connection, board)
        architecture = board.architecture or found.machine
        if architecture not in ARCHITECTURES:
            raise ProvisionError(f"`{board.name}` must be one of {', '.join(ARCHITECTURES)}: {architecture[:40]}")
        _check_replaceable(board, found, architecture, upgrade)
        change, bundle, sent = "unchanged", found.bundle, 0
        if not _is_whole(connection, board, found, architecture):
            made = _install(connection, board, architecture, cache, say)
            change = _change(board, found, architecture)
            bundle, sent = made.name, made.size_bytes
        folder = found.folder
        key_line = f'restrict,command="{folder}/{LAUNCHER}" {public_key_of(board)}'
        return Provisioned(change, bundle, sent, folder, key_line, time.monotonic() - began)
    finally:
        connection.close()


def release(board: Board) -> bool:
    """End the board's agent and remove its folder; whether there was one.

    Raises:
        DeviceStartError: the board can't be reached, or not safely.
        DeviceLostError: the connection broke.
        ProvisionError: the folder is not ours, or something of it could not be removed.
    """
    connection = SshConnection.open(board, time.monotonic() + board.limits.connect_s)
    try:
        found = _look(connection, board)
        if found.state == "foreign":
            raise ProvisionError(f"not removed, int8tune did not make it: {found.folder} on `{board.name}`")
        folder = shlex.quote(board.folder)
        _shell(connection, f"{_END_AGENTS.format(mark=shlex.quote(f'{MARK}={found.folder}'))}")
        _shell(connection, f"rm -rf -- {folder} {folder}.new {folder}.old && [ ! -e {folder} ]")
        return found.state == "ours"
    finally:
        connection.close()


_LOOK = """
echo "machine=$(uname -m)"
if [ -e {folder} ] && [ -n "$(ls -A {folder})" ]; then
  if [ -f {folder}/{name} ] && [ -f {folder}/{run} ]; then echo state=ours; else echo state=foreign; fi
  echo "folder=$(cd {folder} && pwd -P)"
else
  echo state=absent
  case {folder} in /*) echo folder={folder};; *) echo "folder=$(pwd -P)/"{folder};; esac
fi
echo "bundle=$(cat {folder}/{name} 2>/dev/null)"
"""
_END_AGENTS = """
for process in /proc/[0-9]*; do
  if tr '\\0' '\\n' 2>/dev/null < "$process/environ" | grep -qxF {mark}; then kill -9 "${{process#/proc/}}"; fi
done 2>/dev/null; true
"""


def _look(connection: SshConnection, board: Board) -> Found:
    folder = shlex.quote(board.folder)
    out = _shell(connection, _LOOK.format(folder=folder, name=_NAME_FILE, run=LAUNCHER))
    pairs = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    if not {"machine", "folder", "state", "bundle"} <= set(pairs):
        raise ProvisionError(
            f"`{board.name}` runs no commands for this key, it may be restricted to the agent: "
            f"{board.key_file}, use another key to provision, upgrade or release"
        )
    return Found(pairs["machine"], pairs["folder"], pairs["state"], pairs["bundle"])


def _check_replaceable(board: Board, found: Found, architecture: str, upgrade: bool) -> None:
    if found.state == "foreign":
        raise ProvisionError(f"there is something that int8tune did not make: {found.folder} on `{board.name}`")
    if (
        found.state == "ours"
        and not is_of_this_version(found.bundle, architecture, board.gpu is not None)
        and not upgrade
    ):
        raise ProvisionError(f"`{board.name}` has the agent of another version: {found.bundle[:60]}, add --upgrade")


def _change(board: Board, found: Found, architecture: str) -> str:
    if found.state == "absent":
        return "installed"
    return "repaired" if is_of_this_version(found.bundle, architecture, board.gpu is not None) else "upgraded"


def _is_whole(connection: SshConnection, board: Board, found: Found, architecture: str) -> bool:
    """Whether all of this version's files are there as they were sent, and start as the inventory says."""
    if found.state != "ours" or not is_of_this_version(found.bundle, architecture, board.gpu is not None):
        return False
    folder = shlex.quote(board.folder)
    check = "if sha256sum -c sums >/dev/null 2>&1; then echo whole; fi"
    out = _shell(connection, f"cd {folder} && cat {LAUNCHER} && {check}")
    return out == f"{launcher(board.emulator)}whole\n"


def _install(
    connection: SshConnection, board: Board, architecture: str, cache: Path, say: Callable[[str], None]
) -> Bundle:
    """With the first compiler whose agent starts on the board."""
    candidates = compilers(architecture)
    for place, compiler in enumerate(candidates):
        bundle = make_bundle(architecture, cache, compiler, has_gpu=board.gpu is not None)
        say(f"sending {bundle.size_bytes / 1e6:.1f} MB to `{board.name}`")
        _upload(connection, board, bundle)
        try:
            _try_agent(connection, board, architecture)
        except ProvisionError as error:
            if "GLIBC_" not in str(error) or place + 1 == len(candidates):
                _shell(connection, f"rm -rf -- {shlex.quote(board.folder)}.new")
                raise
            say(f"`{board.name}` has an older C library: compiling for that, which takes a minute the first time")
            continue
        folder = shlex.quote(board.folder)
        swap = f"rm -rf -- {folder}.old; [ ! -e {folder} ] || mv {folder} {folder}.old; mv {folder}.new {folder}"
        _shell(connection, f"{swap} && rm -rf -- {folder}.old")
        return bundle
    raise AssertionError("there is at least one compiler")


def _upload(connection: SshConnection, board: Board, bundle: Bundle) -> None:
    folder = shlex.quote(f"{board.folder}.new")
    _shell(connection, f"umask 077; rm -rf -- {folder} && mkdir -p {folder}")
    sums = "".join(f"{digest}  {name}\n" for name, digest in bundle.files.items())
    contents = {name: (bundle.folder / name).read_bytes() for name in bundle.files}
    contents |= {LAUNCHER: launcher(board.emulator).encode(), "sums": sums.encode()}
    for name, content in contents.items():
        _shell(connection, f"umask 077; cat > {folder}/{name}", content, UPLOAD_LIMIT_S)
    done = _shell(
        connection, f"cd {folder} && chmod 700 {AGENT} {LAUNCHER} && sha256sum -c sums >/dev/null && echo whole"
    )
    if done.strip() != "whole":
        raise ProvisionError(f"what `{board.name}` has is not what was sent")
    _shell(connection, f"umask 077; cat > {folder}/{_NAME_FILE}", f"{bundle.name}\n".encode())


def _try_agent(connection: SshConnection, board: Board, architecture: str) -> None:
    """Have the agent say what it runs on.

    Raises:
        ProvisionError: it does not start there.
    """
    folder = shlex.quote(f"{board.folder}.new")
    start = " ".join(
        ["env", '-i "LD_LIBRARY_PATH=$PWD" PATH=/usr/local/bin:/usr/bin:/bin', *map(shlex.quote, board.emulator)]
    )
    out = _shell(connection, f"cd {folder} && {start} ./{AGENT} --about")
    if f"architecture={architecture}\n" not in out:
        raise ProvisionError(f"the agent does not run on `{board.name}`: it says nothing of {architecture}")


def _shell(connection: SshConnection, script: str, given: bytes = b"", limit_s: float = _COMMAND_LIMIT_S) -> str:
    """What a script prints.

    Raises:
        ProvisionError: it failed; with the last line that it wrote to its standard error.
    """
    ended = connection.run(f"LC_ALL=C exec sh -c {shlex.quote(script)}", time.monotonic() + limit_s, given)
    if ended.status != 0:
        lines = ended.errors.strip().splitlines() or [f"status {ended.status}"]
        raise ProvisionError(f"a command failed on the board: {lines[-1][:_LONGEST_WORDS]}")
    return ended.out
