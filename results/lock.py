"""The writer lock of a results file: one process writes, and says who it is to the others."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from datetime import UTC, datetime
from pathlib import Path

from int8tune.results.bounded_json import parse_json
from int8tune.results.errors import (
    ForeignStoreError,
    NotOwnFileError,
    StoreGoneError,
    StoreLockedError,
    StoreWriteError,
)
from int8tune.results.held import Held, hold, hold_own
from int8tune.results.text import printable
from int8tune.results.typed_json import from_json

# A process that just took the lock needs a moment to write its name into it.
NAME_LIMIT_S = 0.5


class WriterLock:
    """Two exclusive `flock`s, on `<path>.lock` and on the file itself; the kernel releases them when their holder dies.

    The lock file says who the holder is, by `host`, `pid` and `since` as JSON. It is emptied on release and stays. Who
    removes it lets nobody in: the results file is locked, too, and one that is removed takes its records with it.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Raises:
            StoreLockedError: another process holds it; the message has its host, its pid and since when.
            ForeignStoreError: what is there is no file of this program's, such as a link.
            StoreWriteError: the lock file can't be made.
        """
        self._path = path
        self._file: Held | None = None
        self._lock = _open(path.with_name(f"{path.name}.lock"))
        try:
            _acquire(self._lock, path)
            _write_holder(self._lock.descriptor, path)
        except BaseException:
            self._close()
            raise

    def take_file(self) -> None:
        """Lock the results file itself, which is there by now and which SQLite has not opened yet.

        Raises:
            StoreLockedError, StoreWriteError: as when it is made.
        """
        try:
            self._file = hold(self._path, os.O_RDWR)
        except OSError as error:
            raise StoreWriteError(f"the results file can't be written ({error.strerror}): {self._path}") from error
        _acquire(self._file, self._path)
        if not _leaves_sqlite_alone(self._file.descriptor):
            self._file.unlock()
        self.require_file()

    def require_file(self) -> None:
        """Raises: StoreGoneError: the file that was locked is not the one at its path."""
        if self._file and (fault := self._file.fault()):
            raise StoreGoneError(f"the results file was {fault} while it was being written: {self._path}")

    def release(self) -> None:
        """Give the lock back, once SQLite has closed the file. Releasing twice is allowed."""
        if self._lock.descriptor >= 0:
            os.ftruncate(self._lock.descriptor, 0)
            self._close()

    def _close(self) -> None:
        if self._file:
            self._file.close()
        self._lock.close()


def _open(path: Path) -> Held:
    try:
        return hold_own(path)
    except NotOwnFileError as error:
        raise ForeignStoreError(f"{error.strerror}: {path}") from error
    except OSError as error:
        raise StoreWriteError(f"the lock file can't be opened ({error.strerror}): {path}") from error


def _acquire(file: Held, path: Path) -> None:
    limit = time.monotonic() + NAME_LIMIT_S
    while True:
        try:
            file.lock()
        except BlockingIOError:
            holder = _read_holder(file.descriptor)
            if holder or time.monotonic() > limit:
                holder = holder or _process_that_locked(file.descriptor) or "which did not give its name"
                raise StoreLockedError(f"another process is writing to this file ({holder}): {path}") from None
            time.sleep(0.02)
        except OSError as error:
            raise StoreWriteError(f"the file can't be locked ({error.strerror}): {path}") from error
        else:
            return


def _leaves_sqlite_alone(descriptor: int) -> bool:
    """Whether a file that has a `flock` can still have the locks of fcntl(2), which SQLite takes. On NFS it can't."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, 1)
    except OSError:
        return False
    fcntl.lockf(descriptor, fcntl.LOCK_UN, 1)
    return True


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


def _process_that_locked(descriptor: int) -> str:
    """Who has the `flock` of a file, by Linux's own list; empty where that is not known."""
    locked = os.fstat(descriptor)
    place = f"{os.major(locked.st_dev):02x}:{os.minor(locked.st_dev):02x}:{locked.st_ino}"
    try:
        rows = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
    except OSError:
        return ""
    # proc(5): number, kind, ADVISORY, READ or WRITE, process, MAJOR:MINOR:INODE
    return next((f"pid {row[4]}" for row in rows if row[1] == "FLOCK" and place in row), "")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
