"""Programs that a test has started and left behind, as one that fails does: none outlives its test."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

import psutil
import pytest

_STARTED: list[subprocess.Popen[bytes]] = []
_END_LIMIT_S = 10.0


def note_started(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    _STARTED.append(process)
    return process


@pytest.fixture(autouse=True)
def no_program_outlives_its_test() -> Iterator[None]:
    yield
    while _STARTED:
        process = _STARTED.pop()
        if process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                    child.kill()
            process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        process.wait(_END_LIMIT_S)
