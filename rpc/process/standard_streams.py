"""The standard streams of a program: always there, and what can't be written to stderr is no reason to end."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO


def make_usable() -> None:
    """Put the null device in the place of streams that are closed, and have stderr drop what can't be written.

    Without the first, a file that the program opens would become its stdout; without the second, a campaign would end
    with the reader of its progress.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            _open_null_at(descriptor)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    encoding = sys.stderr.encoding if sys.stderr else "utf-8"
    sys.stderr = _dropping_stderr(encoding)


def write_last_words(words: bytes) -> None:
    """Write to stderr from where no exception gets through, such as a signal's handler."""
    _Dropping().write(words)


class _Dropping(io.RawIOBase):
    """Descriptor 2. A closed pipe, a full disk or a terminal that is gone takes everything."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return os.isatty(2)

    def fileno(self) -> int:
        return 2

    def write(self, data: Any, /) -> int:
        try:
            return os.write(2, data)
        except OSError:
            return memoryview(data).nbytes


def _dropping_stderr(encoding: str) -> TextIO:
    return io.TextIOWrapper(io.BufferedWriter(_Dropping()), encoding, errors="backslashreplace", line_buffering=True)


def _open_null_at(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor)
    if null != descriptor:
        os.close(null)
    os.set_inheritable(descriptor, True)
