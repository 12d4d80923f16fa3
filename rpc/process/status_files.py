"""Small files in which a process says how something is, for whoever reads them from another process of this machine.

They lie in the user's state folder. Nothing listens: a reader sees what was written last, and whether its writer still
lives. Whoever wrote a file is not trusted.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from int8tune.results.atomic import replacement
from int8tune.results.own_files import make_own_folder
from int8tune.rpc.process.processes import started_ticks
from int8tune.rpc.wire.fields import Fields, integer, line

LAST_MOMENT = 1e11
LONGEST_TEXT = 300
_LARGEST_BYTES = 1 << 16
_MOST = 1 << 62
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Writer:
    """A process of this machine, told from later ones of its number."""

    pid: int
    started_ticks: int
    boot: str

    @classmethod
    def this(cls) -> Writer:
        return cls(os.getpid(), started_ticks(os.getpid()), host_boot())

    @property
    def is_alive(self) -> bool:
        return self.boot == host_boot() and self.started_ticks == started_ticks(self.pid) != 0


def state_folder() -> Path:
    """Where this program keeps what its processes say of themselves."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "int8tune"


def write_status(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a file in a folder of the state folder; a reader sees the old or the new one.

    After a power loss it may be gone.

    Raises:
        OSError: it can't be written.
    """
    folder = path.parent
    folder.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for own in (folder.parent, folder):
        make_own_folder(own)
    with replacement(path, waits_for_disk=False) as file:
        file.write(json.dumps(value, allow_nan=False).encode("ascii"))


def status_text(path: Path) -> str | None:
    """The text of a file; None where there is none. A pipe or a device is not waited for.

    Raises:
        OSError: it can't be read.
        ValueError: it is no file, too long, or not ASCII.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("not a file")
        data = file.read(_LARGEST_BYTES + 1)
    if len(data) > _LARGEST_BYTES:
        raise ValueError(f"must have at most {_LARGEST_BYTES} bytes")
    return data.decode("ascii")


def host_boot() -> str:
    """What tells one run of this machine's Linux from the next; empty where it does not say."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def writer(place: str, value: object) -> Writer:
    """Reads a writer."""
    read = Fields(place, value, tuple(field.name for field in fields(Writer)))
    return Writer(
        pid=read.read("pid", integer(1, 1 << 31)),
        started_ticks=read.read("started_ticks", integer(0, _MOST)),
        boot=read.read("boot", short_line),
    )


def short_line(place: str, value: object) -> str:
    """Reads text of one line, and cuts it where it is long."""
    return line(place, value)[:LONGEST_TEXT]
