"""What a program does to the files of a folder, and what it says meanwhile: recorded by a library that is preloaded."""

from __future__ import annotations

import functools
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
LIMIT_S = 100.0

_HEADER = struct.Struct("<QqIIII")


@dataclass(frozen=True, slots=True)
class DiskEvent:
    """A call that returned without an error.

    Attributes:
        kind: `o` opened, `w` written, `t` cut or stretched, `f` synced, `d` the folder synced, `r` renamed,
            `u` unlinked, `m` mapped for writing, `s` said on standard output.
        offset: of what was written; the new size of a `t`; whether there was a file of this name before an `o`.
    """

    kind: str
    inode: int = 0
    name: str = ""
    to: str = ""
    offset: int = 0
    data: bytes = b""


def missing() -> str:
    """Why nothing can be recorded on this machine; empty if it can."""
    if not sys.platform.startswith("linux"):
        return "disk events are recorded on Linux only"
    if shutil.which("cc") is None:
        return "needs a C compiler, `cc`"
    return ""


def record(command: Sequence[str], folder: Path) -> list[DiskEvent]:
    """Run a program and return what it did in this folder. It has to write with one thread.

    Raises:
        RuntimeError: it failed, or what it said is not what was recorded: the recorder was not loaded.
    """
    with tempfile.TemporaryDirectory(prefix="int8tune-events-") as name:
        log = Path(name) / "log"
        names = {"LD_PRELOAD": str(_recorder()), "DISK_EVENTS_FOLDER": str(folder), "DISK_EVENTS_LOG": str(log)}
        done = subprocess.run(command, env=os.environ | names, capture_output=True, timeout=LIMIT_S, check=False)
        if done.returncode:
            raise RuntimeError(f"status {done.returncode}: {done.stderr.decode(errors='replace')}")
        events = list(_read(log.read_bytes())) if log.exists() else []
    if b"".join(event.data for event in events if event.kind == "s") != done.stdout or not events:
        raise RuntimeError(f"the recorder was not loaded by: {command[0]}")
    return events


@functools.cache
def _recorder() -> Path:
    library = Path(_folder().name) / "disk_events.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", str(SOURCE), "-o", str(library), "-ldl"]
    subprocess.run(command, check=True, timeout=LIMIT_S, capture_output=True)
    return library


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="int8tune-recorder-")


def _read(log: bytes) -> Iterator[DiskEvent]:
    place = 0
    while place < len(log):
        inode, offset, kind, *lengths = _HEADER.unpack_from(log, place)
        place += _HEADER.size
        fields = []
        for length in lengths:
            fields.append(log[place : place + length])
            place += length
        name, to, data = fields
        yield DiskEvent(chr(kind), inode, os.fsdecode(name), os.fsdecode(to), offset, data)
