"""File systems of their own for tests, where this user can mount them."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def mounted(place: Path, *how: str) -> Iterator[Path]:
    """Mount something for a while; skips the test where mounting is not allowed."""
    place.mkdir()
    program = shutil.which("mount")
    if program is None:
        pytest.skip("nothing can be mounted here: no mount program")
    done = subprocess.run([program, *how, place], capture_output=True, text=True, timeout=10)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True, timeout=10)


def fill_up(path: Path) -> None:
    """Let a file take all the room that is left."""
    with path.open("ab", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))
