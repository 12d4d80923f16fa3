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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from int8tune.results.json_forms import number_within
from int8tune.results.text import printable
from int8tune.rpc.errors import StatusFileError
from int8tune.rpc.farm.values import State
from int8tune.rpc.process.status_files import (
    LONGEST_TEXT,
    Count,
    Moment,
    ShortLine,
    Writer,
    read_status_file,
    state_folder,
    write_status,
)

LONGEST_S = 1e6
_BOARDS = "boards"
_MOST_FILES = 1000


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

    board: ShortLine
    campaign: ShortLine
    target: ShortLine
    state: State
    since: Moment
    waits_for: ShortLine
    until: Moment | None
    cause: ShortLine
    canary_at: Moment | None
    canary_s: Annotated[float, number_within(0, LONGEST_S)]
    canary_fault: ShortLine
    trials: Count
    per_minute: Annotated[float, number_within(0, LONGEST_S)]
    written_at: Moment
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
    value = asdict(report)
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
        report = read_status_file(path, BoardReport)
    except (OSError, ValueError) as error:
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
