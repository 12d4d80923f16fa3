"""What a campaign says of its boards while it runs: a small file for each, read by whoever asks from another process.

The files lie in the user's state folder, by the inventory's path: who asks for a board knows its inventory, not for
whose results it measures, and a folder with an inventory may be read-only. A board has one host at a time, so a file
has one writer. Nothing listens: a reader sees what was written last, and whether its writer still lives.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from int8tune.results.atomic import replacement
from int8tune.results.bounded_json import parse_json
from int8tune.results.own_files import make_own_folder
from int8tune.results.text import printable
from int8tune.rpc.errors import ProtocolError, StatusFileError
from int8tune.rpc.farm.values import State
from int8tune.rpc.process.processes import started_ticks
from int8tune.rpc.wire.fields import Fields, integer, line, number, optional

FORMAT = 1
LONGEST_S = 1e6
_LONGEST_TEXT = 300
_LARGEST_BYTES = 1 << 16
_LAST_MOMENT = 1e11
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


@dataclass(frozen=True, slots=True)
class BoardReport:
    """A board as its campaign saw it last. Moments are seconds since 1970, for people: no clock is trusted for more.

    Attributes:
        until: how long it waits for that at most, where there is a limit.
        cause: of its state, where it is off.
        canary_s: what a call of the last canary took; 0 where the board did not say.
        canary_fault: what was wrong with it; empty where it was good.
        per_minute: trials that it answered, of late.
        writer: the campaign's process; None once the campaign has ended.
    """

    board: str
    campaign: str
    target: str
    state: State
    since: float
    waits_for: str
    until: float | None
    cause: str
    canary_at: float | None
    canary_s: float
    canary_fault: str
    trials: int
    per_minute: float
    written_at: float
    writer: Writer | None

    @property
    def is_current(self) -> bool:
        """Whether its campaign still runs."""
        return self.writer is not None and self.writer.is_alive


def status_folder(inventory: Path) -> Path:
    """Where campaigns on an inventory's boards say how these are."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    key = hashlib.sha256(os.fsencode(inventory.resolve())).hexdigest()[:16]
    return state / "int8tune" / "boards" / key


def write_report(folder: Path, report: BoardReport) -> None:
    """Replace a board's file; a reader sees the old or the new one. After a power loss it may be gone.

    Raises:
        OSError: it can't be written.
    """
    folder.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for own in (folder.parent, folder):
        make_own_folder(own)
    value = {"format": FORMAT} | asdict(report)
    for name in ("waits_for", "cause", "canary_fault"):
        value[name] = printable(value[name])[:_LONGEST_TEXT]
    with replacement(_path(folder, report.board), waits_for_disk=False) as file:
        file.write(json.dumps(value, allow_nan=False).encode("ascii"))


def read_report(folder: Path, board: str) -> BoardReport | None:
    """What a campaign said last of a board; None if none ever did. Whoever wrote it is not trusted.

    Raises:
        StatusFileError: the file can't be read, or has something else in it.
    """
    path = _path(folder, board)
    try:
        text = _content(path)
        report = None if text is None else _report(parse_json(text))
    except (OSError, ValueError, ProtocolError) as error:
        why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
        raise StatusFileError(f"{path}: {printable(why)[:_LONGEST_TEXT]}") from error
    if report is not None and report.board != board:
        raise StatusFileError(f"{path}: it is about another board: {report.board}")
    return report


def host_boot() -> str:
    """What tells one run of this machine's Linux from the next; empty where it does not say."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _path(folder: Path, board: str) -> Path:
    return folder / f"{board}.json"


def _content(path: Path) -> str | None:
    """The text of a file; None where there is none. A pipe or a device is not waited for."""
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


def _report(value: object) -> BoardReport:
    read = Fields("", value, ("format", *(field.name for field in fields(BoardReport))))
    read.read("format", integer(FORMAT, FORMAT))
    moment = number(0, _LAST_MOMENT)
    return BoardReport(
        board=read.read("board", _short),
        campaign=read.read("campaign", _short),
        target=read.read("target", _short),
        state=State(read.read("state", _short)),
        since=read.read("since", moment),
        waits_for=read.read("waits_for", _short),
        until=read.read("until", optional(moment)),
        cause=read.read("cause", _short),
        canary_at=read.read("canary_at", optional(moment)),
        canary_s=read.read("canary_s", number(0, LONGEST_S)),
        canary_fault=read.read("canary_fault", _short),
        trials=read.read("trials", integer(0, _MOST)),
        per_minute=read.read("per_minute", number(0, LONGEST_S)),
        written_at=read.read("written_at", moment),
        writer=read.read("writer", optional(_writer)),
    )


def _writer(place: str, value: object) -> Writer:
    read = Fields(place, value, tuple(field.name for field in fields(Writer)))
    return Writer(
        pid=read.read("pid", integer(1, 1 << 31)),
        started_ticks=read.read("started_ticks", integer(0, _MOST)),
        boot=read.read("boot", _short),
    )


def _short(place: str, value: object) -> str:
    return line(place, value)[:_LONGEST_TEXT]
