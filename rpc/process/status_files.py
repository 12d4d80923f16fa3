"""Small files in which a process says how something is, for whoever reads them from another process of this machine.

They lie in the user's state folder. Nothing listens: a reader sees what was written last, and whether its writer still
lives. Whoever wrote a file is not trusted.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from int8tune.results.atomic import replacement
from int8tune.results.bounded_json import parse_json
from int8tune.results.json_forms import Made, number_within, one_line, whole_number
from int8tune.results.own_files import make_own_folder
from int8tune.results.typed_json import from_json
from int8tune.rpc.process.processes import started_ticks

LAST_MOMENT = 1e11
LONGEST_TEXT = 300
LONGEST_LINE = 1 << 14
FORMAT = 1
_LARGEST_BYTES = 1 << 16
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

Status = TypeVar("Status")
Moment = Annotated[float, number_within(0, LAST_MOMENT)]
"""Seconds since 1970, for people: no clock is trusted for more."""
ShortLine = Annotated[str, Made(Annotated[str, one_line(LONGEST_LINE)], lambda text: text[:LONGEST_TEXT], ValueError)]
"""Text of one line, which is cut where it is long."""
Count = Annotated[int, whole_number(0, 1 << 62)]


@dataclass(frozen=True, slots=True)
class _Format:
    """What every file says before all else."""

    format: Annotated[int, whole_number(FORMAT, FORMAT)]


@dataclass(frozen=True, slots=True)
class Writer:
    """A process of this machine, told from later ones of its number."""

    pid: Annotated[int, whole_number(1, 1 << 31)]
    started_ticks: Count
    boot: ShortLine

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
    """Replace a file in a folder of the state folder, with `FORMAT`; a reader sees the old or the new one.

    After a power loss it may be gone.

    Raises:
        OSError: it can't be written.
    """
    folder = path.parent
    folder.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for own in (folder.parent, folder):
        make_own_folder(own)
    with replacement(path, waits_for_disk=False) as file:
        file.write(json.dumps({"format": FORMAT} | dict(value), allow_nan=False).encode("ascii"))


def read_status_file(path: Path, kind: type[Status]) -> Status | None:
    """What a file says; None where there is none. A pipe or a device is not waited for.

    Raises:
        OSError: it can't be read.
        ValueError: it is no file, too long, or has something else in it.
    """
    text = _text(path)
    if text is None:
        return None
    value = parse_json(text)
    if isinstance(value, dict):
        from_json(_Format, {name: value.pop(name) for name in ("format",) if name in value})
    return from_json(kind, value)


def _text(path: Path) -> str | None:
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
