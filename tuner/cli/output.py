"""What the program writes: data to stdout, all else to stderr, and no control character from anybody else's text."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import sys
from collections.abc import Sequence
from typing import TextIO

from int8tune.results.text import printable

# Of a stdout that is no terminal.
PAGE_COLUMNS = 100
LONGEST_LINE = 1000


def emit(text: str) -> None:
    """Write lines of data to stdout.

    A reader that went away, such as `head`, or a terminal that was closed, is no error: the rest is dropped.

    Raises:
        OSError: the data can't be written.
    """
    try:
        _write(sys.stdout, safe(text))
    except OSError as error:
        is_reader_gone = _is_reader_gone(error)
        _drop_what_is_left()
        if not is_reader_gone:
            raise


def end_stdout() -> None:
    """Write what is left of stdout at the end of the program; what can't be written has been said to be lost."""
    try:
        sys.stdout.flush()
    except OSError:
        _drop_what_is_left()


def _drop_what_is_left() -> None:
    """What is in the buffer of stdout must not fail once more when Python ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _is_reader_gone(error: OSError) -> bool:
    """Whether stdout was a pipe that nobody reads any more, or a terminal that was closed."""
    is_terminal = stat.S_ISCHR(os.fstat(sys.stdout.fileno()).st_mode)
    return isinstance(error, BrokenPipeError) or (error.errno == errno.EIO and is_terminal)


def emit_json(value: object) -> None:
    """Write a value to stdout as JSON in ASCII."""
    emit(json.dumps(value, indent=2, allow_nan=False))


def say(text: str) -> None:
    """Write lines for a person to stderr, cut where somebody made them endless."""
    _write(sys.stderr, "\n".join(line[:LONGEST_LINE] for line in safe(text).split("\n")))


def safe(text: str) -> str:
    """The text as a terminal may get it: lines of printable characters."""
    return "\n".join(map(printable, text.removesuffix("\n").split("\n")))


def stdout_columns() -> int:
    """How wide a table on stdout may be."""
    return shutil.get_terminal_size((PAGE_COLUMNS, 24)).columns if sys.stdout.isatty() else PAGE_COLUMNS


def uncut_columns() -> int:
    """How wide a table on stdout may be before something is left out of it: in a pipe, nothing is."""
    return stdout_columns() if sys.stdout.isatty() else sys.maxsize


def size(count: int) -> str:
    """A number of bytes, such as `2.4 MiB`; in KiB below a tenth of a MiB."""
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 / 10 else f"{count / 2**10:.1f} KiB"


def aligned(rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Rows in columns two spaces apart, the columns at positions `numbers` aligned right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if position in numbers else cell.ljust(width)
            for position, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()
