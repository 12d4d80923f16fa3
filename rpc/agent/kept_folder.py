"""Folders that are made once and kept, such as what is compiled for boards."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

# Longer than a download and a compile may take.
_WAIT_LIMIT_S = 1000.0
_LOOK_EVERY_S = 0.05


def make_once(folder: Path, fill: Callable[[Path], None]) -> None:
    """Have a folder made, unless it is there: whole or not at all. Others who want it meanwhile wait for it.

    Args:
        fill: is given an empty folder beside it, which gets its name when `fill` is done.
    """
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(folder.parent):
        if not folder.is_dir():
            _make(folder, fill)


def _make(folder: Path, fill: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        fill(made)
        try:
            made.rename(folder)
        except OSError:  # somebody else was faster
            if not folder.is_dir():
                raise


@contextlib.contextmanager
def _one_at_a_time(parent: Path) -> Iterator[None]:
    """Lock a folder itself, so that no file is left of it; without a lock where a file system has none."""
    descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    deadline = time.monotonic() + _WAIT_LIMIT_S
    try:
        while time.monotonic() < deadline and _is_held_by_others(descriptor):
            time.sleep(_LOOK_EVERY_S)
        yield
    finally:
        os.close(descriptor)


def _is_held_by_others(descriptor: int) -> bool:
    """Whether it could not be locked, since somebody else has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
