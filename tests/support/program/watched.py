"""What our processes do that nobody may see: ports that are opened, secrets in arguments and environments."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

_LOOK_EVERY_S = 0.01
_PROCESSES_EVERY = 10
_LISTENS = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}
_ACCEPTS = 0x10000

# sock_diag(7)
_SOCK_DIAG = 4
_BY_FAMILY = 20
_DUMP = 0x301
_DONE, _ERROR = 3, 2
_LISTEN = 10
_HEADER = struct.Struct("=IHHII")
_ASKED = struct.Struct("=BBBBI48x")
_ANSWER = struct.Struct("=4x2s2x32x12x16xI")


def listening() -> dict[str, str]:
    """Every socket of this machine that somebody may connect to, by its inode: TCP, UDP and Unix sockets."""
    found: dict[str, str] = {}
    kinds: tuple[str, ...] = tuple(_LISTENS)
    # A kernel without sock_diag has the files.
    with contextlib.suppress(OSError):
        for kind, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
            found |= {inode: f"{kind} port {port}" for inode, port in _listening_tcp(family)}
        kinds = ("udp", "udp6")
    for kind in kinds:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTENS[kind]:
                    found[words[9]] = f"{kind} {words[1]}"
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        words = line.split()
        if int(words[3], 16) & _ACCEPTS:
            found[words[6]] = f"unix {words[7] if len(words) > 7 else ''}"
    return found


def _listening_tcp(family: int) -> Iterator[tuple[str, int]]:
    """Inodes and ports. Linux reads its whole table of connections for /proc/net/tcp: 4 ms of each look."""
    asked = _ASKED.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << _LISTEN)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(5)
        kernel.send(_HEADER.pack(_HEADER.size + len(asked), _BY_FAMILY, _DUMP, 1, 0) + asked)
        while True:
            messages = kernel.recv(1 << 20)
            while messages:
                size, kind, *_ = _HEADER.unpack_from(messages)
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    raise OSError("sock_diag is not there")
                port, inode = _ANSWER.unpack_from(messages, _HEADER.size)
                yield str(inode), int.from_bytes(port, "big")
                messages = messages[size + 3 & ~3 :]


class Watch:
    """Looks at this process, all that it started and all that agents of some folders did, until it is closed.

    Attributes:
        doors: sockets of theirs that were listening, and were not before.
        leaks: where one of the secrets was: `pid` and `cmdline` or `environ`, with the process's name.
        seen: names of the processes that were looked at.
    """

    def __init__(self, marked: Callable[[], Sequence[psutil.Process]], secrets: Sequence[bytes] = ()) -> None:
        self.doors: set[str] = set()
        self.leaks: set[str] = set()
        self.seen: set[str] = set()
        self.looks = 0
        self._marked = marked
        self._secrets = secrets
        self._before = listening()
        self._known: set[tuple[int, str]] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(10)
        self._look()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_EVERY_S):
            self._look()

    def _look(self) -> None:
        """At ports each time; at processes now and then, as that takes longer, and when there is a new port."""
        self.looks += 1
        new = {inode: door for inode, door in listening().items() if inode not in self._before}
        if not new and self.looks % _PROCESSES_EVERY and not self._ended.is_set():
            return
        family = self._family()
        owned = {inode for process in family for inode in _sockets(process.pid)} if new else set()
        self.doors |= {door for inode, door in new.items() if inode in owned}
        for process in family:
            self._look_into(process)

    def _family(self) -> list[psutil.Process]:
        family = [psutil.Process()]
        with contextlib.suppress(psutil.NoSuchProcess):  # one of them ended meanwhile
            family += psutil.Process().children(recursive=True)
        with contextlib.suppress(psutil.NoSuchProcess):
            family += self._marked()
        return family

    def _look_into(self, process: psutil.Process) -> None:
        """Once under each of its names: a process has its parent's until it has its own."""
        with contextlib.suppress(psutil.NoSuchProcess, OSError):
            key = process.pid, process.name()
            if key in self._known:
                return
            self._known.add(key)
            self.seen.add(key[1])
            for place in ("cmdline", "environ"):
                content = Path(f"/proc/{process.pid}/{place}").read_bytes()
                if any(secret in content for secret in self._secrets):
                    self.leaks.add(f"{process.pid} {place} of {key[1]}")


def _sockets(pid: int) -> set[str]:
    inodes = set()
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if match := re.fullmatch(r"socket:\[(\d+)\]", str(entry.readlink())):
                    inodes.add(match[1])
    return inodes
