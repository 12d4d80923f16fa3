"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from int8tune.results.errors import ExportError
from int8tune.results.own_files import require_own


@contextmanager
def replacement(path: Path, *, waits_for_disk: bool = True) -> Iterator[IO[bytes]]:
    """A new file, which takes a path's place when all is written; a link that is there is replaced, not followed.

    A reader sees the old content or the new; so does a crash at any moment, where this waits for the disk.

    Raises:
        OSError: it can't be written; the old one is as it was.
    """
    partial = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            if waits_for_disk:
                os.fsync(file.fileno())
        partial.replace(path)
        if waits_for_disk:
            sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def write_atomic(path: Path, text: str) -> None:
    """Replace a file that a person named by one with this text; where that is a link, the file that it leads to.

    Raises:
        ExportError: the file can't be written; the old one is as it was.
    """
    write_bytes_atomic(path, text.encode())


def write_bytes_atomic(path: Path, content: bytes) -> None:
    """The same with bytes.

    Raises:
        ExportError: the file can't be written; the old one is as it was.
    """
    _replace(Path(os.path.realpath(path)), path, content)


def require_folder(path: Path) -> None:
    """See before the work whether there is a folder for the file that is to come of it.

    Raises:
        ExportError: there is none.
    """
    if not path.parent.is_dir() or path.is_dir():
        what = "a folder has its name" if path.is_dir() else "no such folder"
        raise ExportError(f"the file can't be written ({what}): {path}")


def write_own(path: Path, text: str) -> None:
    """The same of a file under a name that is the program's.

    Raises:
        ExportError: the file can't be written; the old one is as it was.
        NotOwnFileError: a link, or what is no file, is there.
    """
    require_own(path)
    _replace(path, path, text.encode())


def sync_folder(folder: Path) -> None:
    """Make the names of new files in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(target: Path, named: Path, content: bytes) -> None:
    try:
        with replacement(target) as file:
            file.write(content)
    except OSError as error:
        raise ExportError(f"the file can't be written ({error.strerror}): {named}") from error
