"""Folders that are made once and kept, such as what is compiled for boards."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path


def make_once(folder: Path, fill: Callable[[Path], None]) -> None:
    """Have a folder made, unless it is there: whole or not at all, by whoever is faster.

    Args:
        fill: is given an empty folder beside it, which gets its name when `fill` is done.
    """
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        fill(made)
        try:
            made.rename(folder)
        except OSError:  # somebody else was faster
            if not folder.is_dir():
                raise
