"""A process that leaves nothing of a PostgreSQL when it gets SIGTERM, which the kernel sends when the tests' own ends.

So nothing is left of a server that is frozen or was killed, nor when the tests are killed. It imports nothing but what
is Python's own, as it is started beside each server.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

LIMIT_S = 10.0
_IPC_RMID = 0
_SEGMENT_LINE = 6  # of postmaster.pid: key and id of the System V segment that says that a server runs


def leave_nothing(folder: Path) -> None:
    """End all processes that run in a folder, and remove it, and the shared memory that is noted there."""
    segment = _segment(folder)
    began_s = time.monotonic()
    while (pids := list(processes_in(folder))) and (waited_s := time.monotonic() - began_s) < LIMIT_S:
        for pid in pids:
            # The first process waits for the others, so that none is left as a zombie.
            for number in (signal.SIGCONT, signal.SIGQUIT) if waited_s < LIMIT_S / 2 else (signal.SIGKILL,):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        time.sleep(0.05)
    if segment is not None:
        ctypes.CDLL(None).shmctl(segment, _IPC_RMID, None)
    shutil.rmtree(folder, ignore_errors=True)


def processes_in(folder: Path) -> Iterator[int]:
    """Processes whose working folder is there: all of a PostgreSQL work in the folder of its data."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "cwd").readlink().is_relative_to(folder):
                    yield int(entry.name)


def _segment(folder: Path) -> int | None:
    """The shared memory of a server that runs, or was killed; None where it ended by itself."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((folder / "data/postmaster.pid").read_text().splitlines()[_SEGMENT_LINE].split()[1])
    return None


if __name__ == "__main__":
    signal.sigwait({signal.SIGTERM})
    leave_nothing(Path(sys.argv[1]))
