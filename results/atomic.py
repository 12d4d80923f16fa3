"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from results.errors import ExportError


def write_atomic(path: Path, text: str) -> None:
    """Replace a file by one with this text; a reader, or a crash at any moment, sees the old content or the new.

    Raises:
        ExportError: the file can't be written; the old one is as it was.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        _write_durably(temporary, text.encode())
        temporary.replace(target)
        sync_folder(target.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if not isinstance(error, OSError):
            raise
        raise ExportError(f"the file can't be written ({error.strerror}): {path}") from error


def sync_folder(folder: Path) -> None:
    """Make the names of new files in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
