"""What a campaign says of its boards while it runs: a small file for each, read by whoever asks from another process.

The files lie in the user's state folder, by the inventory's path: who asks for a board knows its inventory, not for
whose results it measures, and a folder with an inventory may be read-only. A board has one host at a time, so a file
has one writer. Nothing listens: a reader sees what was written last, and whether its writer still lives.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from int8tune.results.bounded_json import parse_json
from int8tune.results.text import printable
from int8tune.rpc.errors import ProtocolError, StatusFileError
from int8tune.rpc.farm.values import State
from int8tune.rpc.process.status_files import (
    LAST_MOMENT,
    LONGEST_TEXT,
    Writer,
    short_line,
    state_folder,
    status_text,
    write_status,
    writer,
)
from int8tune.rpc.wire.fields import Fields, integer, number, optional

FORMAT = 1
LONGEST_S = 1e6
_BOARDS = "boards"
_MOST_FILES = 1000
_MOST = 1 << 62


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
    key = hashlib.sha256(os.fsencode(inventory.resolve())).hexdigest()[:16]
    return state_folder() / _BOARDS / key


def write_report(folder: Path, report: BoardReport) -> None:
    """Replace a board's file; a reader sees the old or the new one. After a power loss it may be gone.

    Raises:
        OSError: it can't be written.
    """
    value = {"format": FORMAT} | asdict(report)
    for name in ("waits_for", "cause", "canary_fault"):
        value[name] = printable(value[name])[:LONGEST_TEXT]
    write_status(_path(folder, report.board), value)


def read_report(folder: Path, board: str) -> BoardReport | None:
    """What a campaign said last of a board; None if none ever did. Whoever wrote it is not trusted.

    Raises:
        StatusFileError: the file can't be read, or has something else in it.
    """
    path = _path(folder, board)
    try:
        text = status_text(path)
        report = None if text is None else _report(parse_json(text))
    except (OSError, ValueError, ProtocolError) as error:
        why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
        raise StatusFileError(f"{path}: {printable(why)[:LONGEST_TEXT]}") from error
    if report is not None and report.board != board:
        raise StatusFileError(f"{path}: it is about another board: {report.board}")
    return report


def latest_reports() -> list[BoardReport]:
    """The last report on each board of all inventories that can be read; newest first."""
    return sorted(_readable(), key=lambda report: -report.written_at)


def _readable() -> Iterator[BoardReport]:
    with suppress(OSError):
        for path in sorted((state_folder() / _BOARDS).glob("*/*.json"))[:_MOST_FILES]:
            with suppress(StatusFileError):
                if report := read_report(path.parent, path.stem):
                    yield report


def _path(folder: Path, board: str) -> Path:
    return folder / f"{board}.json"


def _report(value: object) -> BoardReport:
    read = Fields("", value, ("format", *(field.name for field in fields(BoardReport))))
    read.read("format", integer(FORMAT, FORMAT))
    moment = number(0, LAST_MOMENT)
    return BoardReport(
        board=read.read("board", short_line),
        campaign=read.read("campaign", short_line),
        target=read.read("target", short_line),
        state=State(read.read("state", short_line)),
        since=read.read("since", moment),
        waits_for=read.read("waits_for", short_line),
        until=read.read("until", optional(moment)),
        cause=read.read("cause", short_line),
        canary_at=read.read("canary_at", optional(moment)),
        canary_s=read.read("canary_s", number(0, LONGEST_S)),
        canary_fault=read.read("canary_fault", short_line),
        trials=read.read("trials", integer(0, _MOST)),
        per_minute=read.read("per_minute", number(0, LONGEST_S)),
        written_at=read.read("written_at", moment),
        writer=read.read("writer", optional(writer)),
    )
