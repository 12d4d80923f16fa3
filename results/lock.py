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

from results.errors import ForeignStoreError, NotOwnFileError, StoreLockedError, StoreWriteError
from results.own_files import open_own

# A process that just took the lock needs a moment to write its name into it.
NAME_LIMIT_S = 0.5


class HeldFile:
    """A file of the program's own that this process holds, from `take` until it closes it or ends, however it ends."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            NotOwnFileError: a link, or what is no file, is there.
            OSError: it can't be opened or made.
        """
        self.descriptor = open_own(path, os.O_RDWR)
        # A forked child shares the lock and would hold it beyond this process's death.
        itself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _forget(itself))

    def take(self) -> None:
        """
        Raises:
            BlockingIOError: another process holds it.
            OSError: it can't be locked.
        """
        fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        """Give it back. Closing twice is allowed."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class WriterLock:
    """An exclusive `flock` on `<path>.lock`, which the kernel releases when its holder dies, however it dies.

    The file holds `host`, `pid` and `since` of the holder as JSON. It is emptied on release and stays: removing it
    would let two processes lock two files of one name.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Raises:
            StoreLockedError: another process holds it; the message has its host, its pid and since when.
            ForeignStoreError: what is there is no file of this program's, such as a link.
            StoreWriteError: the lock file can't be made.
        """
        self._file = _open(path.with_name(f"{path.name}.lock"))
        try:
            _acquire(self._file, path)
            _write_holder(self._file.descriptor, path)
        except BaseException:
            self._file.close()
            raise

    def release(self) -> None:
        """Give the lock back. Releasing twice is allowed."""
        if self._file.descriptor >= 0:
            os.ftruncate(self._file.descriptor, 0)
            self._file.close()


def _forget(reference: weakref.ref[HeldFile]) -> None:
    held = reference()
    if held is not None:
        held.close()


def _open(path: Path) -> HeldFile:
    try:
        return HeldFile(path)
    except NotOwnFileError as error:
        raise ForeignStoreError(f"{error.strerror}: {path}") from error
    except OSError as error:
        raise StoreWriteError(f"the lock file can't be opened ({error.strerror}): {path}") from error


def _acquire(file: HeldFile, path: Path) -> None:
    limit = time.monotonic() + NAME_LIMIT_S
    while True:
        try:
            file.take()
        except BlockingIOError:
            holder = _read_holder(file.descriptor)
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
        holder = json.loads(os.pread(descriptor, 4096, 0))
        host, pid, since = str(holder["host"]), int(holder["pid"]), str(holder["since"])
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
