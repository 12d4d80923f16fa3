"""Which process holds a campaign: what it says of itself, and whether it is still there."""

from __future__ import annotations

import functools
import os
import socket
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_STARTED = 19  # of proc(5)'s values after the name of a process


@dataclass(frozen=True, slots=True)
class Holder:
    """A process.

    Attributes:
        process: a name that no other process has, on any host; empty where that is not known.
        since: when it took hold, in ISO 8601 UTC.
    """

    host: str
    pid: int
    process: str
    since: str

    def __str__(self) -> str:
        return f"host {self.host}, pid {self.pid}, since {self.since}"

    @property
    def is_gone(self) -> bool:
        """Whether it is known to have ended: it ran where this process does, and is not there."""
        here, _, _ = _place().rpartition("/")
        place, _, started = self.process.rpartition(":")
        if not here or place.rpartition("/")[0] != here or self.host != socket.gethostname():
            return False
        return _started(self.pid) != started


def this_process(since: str) -> Holder:
    """What this process says of itself."""
    started = _started(os.getpid())
    name = f"{_place()}:{started}" if started and _place() else ""
    return Holder(socket.gethostname(), os.getpid(), name, since)


def _place() -> str:
    """This process among those of all hosts: the start of the system, the namespace of its number, and that."""
    space = _system()
    return f"{space}/{os.getpid()}" if space else ""


@functools.cache
def _system() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process began, in ticks; empty where there is none, or what is left of it waits for its parent."""
    try:
        values = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if values[0] in "ZX" else values[_STARTED]
