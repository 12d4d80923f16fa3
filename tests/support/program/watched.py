"""What our processes do that nobody may see: ports that are opened, secrets in arguments and environments."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

_LOOK_EVERY_S = 0.01
_PROCESSES_EVERY = 10
_LISTENS = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}
_ACCEPTS = 0x10000


def listening() -> dict[str, str]:
    """Every socket of this machine that somebody may connect to, by its inode: TCP, UDP and Unix sockets."""
    found = {}
    for kind, state in _LISTENS.items():
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == state:
                    found[words[9]] = f"{kind} {words[1]}"
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        words = line.split()
        if int(words[3], 16) & _ACCEPTS:
            found[words[6]] = f"unix {words[7] if len(words) > 7 else ''}"
    return found


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
