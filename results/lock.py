"""The writer lock of a results file: one process writes, and says who it is to the others."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
import weakref
from datetime import UTC, datetime
from pathlib import Path

from results.bounded_json import parse_json
from results.errors import StoreLockedError, StoreWriteError
from results.text import printable
from results.typed_json import from_json

# A process that just took the lock needs a moment to write its name into it.
NAME_LIMIT_S = 0.5


class WriterLock:
    """An exclusive `flock` on `<path>.lock`, which the kernel releases when its holder dies, however it dies.

    The file holds `host`, `pid` and `since` of the holder as JSON. It is emptied on release and stays: removing it
    would let two processes lock two files of one name.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Raises:
            StoreLockedError: another process holds it; the message has its host, its pid and since when.
            StoreWriteError: the lock file can't be made.
        """
        self._descriptor = _open(path.with_name(f"{path.name}.lock"))
        try:
            _acquire(self._descriptor, path)
            _write_holder(self._descriptor, path)
        except BaseException:
            self._close()
            raise
        # A forked child shares the lock and would hold it beyond this process's death.
        itself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _forget(itself))

    def release(self) -> None:
        """Give the lock back. Releasing twice is allowed."""
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _forget(reference: weakref.ref[WriterLock]) -> None:
    lock = reference()
    if lock is not None:
        lock._close()


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise StoreWriteError(f"the lock file can't be opened ({error.strerror}): {path}") from error


def _acquire(descriptor: int, path: Path) -> None:
    limit = time.monotonic() + NAME_LIMIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read_holder(descriptor)
            if holder or time.monotonic() > limit:
                holder = holder or "which did not give its name"
                raise StoreLockedError(f"another process is writing to this file ({holder}): {path}") from None
            time.sleep(0.02)
        except OSError as error:
            raise StoreWriteError(f"the file can't be locked ({error.strerror}): {path}") from error
        else:
            return


def _write_holder(descriptor: int, path: Path) -> None:
    holder = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)
    except OSError as error:
        raise StoreWriteError(f"the lock file can't be written ({error.strerror}): {path}.lock") from error


def _read_holder(descriptor: int) -> str:
    """What the lock file says of its holder; empty if it says nothing yet, or still names a dead process."""
    try:
        holder = parse_json(os.pread(descriptor, 4096, 0))
        host, pid, since = (
            printable(str(holder["host"])),
            from_json(int, holder["pid"]),
            printable(str(holder["since"])),
        )
    except (ValueError, KeyError, TypeError):
        return ""
    if host == socket.gethostname() and not _is_alive(pid):
        return ""
    return f"host {host}, pid {pid}, since {since}"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
