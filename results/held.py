"""Files and folders that this process holds open, to lock them, or to notice that they are removed or replaced."""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path

from int8tune.results.own_files import open_own


class Held:
    """What a path led to when it was opened, until it is closed or this process ends, however it ends.

    Nothing else gets its number on the disk meanwhile.

    Attributes:
        descriptor: -1 once it was closed.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self.descriptor = descriptor
        # A forked child shares the lock and would hold it beyond this process's death.
        itself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _forget(itself))

    def lock(self) -> None:
        """Take the exclusive `flock`.

        Raises:
            BlockingIOError: another process has it.
            OSError: it can't be locked.
        """
        fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock(self) -> None:
        """Give the `flock` back and go on holding."""
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def fault(self) -> str:
        """Whether it was `removed`, or `replaced` by another one; empty where it is where it was."""
        try:
            there = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return "removed"
        except OSError:  # a disk that is away for a moment says so to who reads it or writes
            return ""
        return "" if os.path.samestat(there, os.fstat(self.descriptor)) else "replaced"

    def close(self) -> None:
        """Let go of it, and of its lock. Closing twice is allowed."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def hold(path: Path, flags: int) -> Held:
    """Hold what is there.

    Raises:
        OSError: it can't be opened.
    """
    return Held(path, os.open(path, flags | os.O_CLOEXEC))


def hold_own(path: Path) -> Held:
    """Hold a file of the program's own, which is made where there is none.

    Raises:
        NotOwnFileError: a link, or what is no file, is there.
        OSError: it can't be opened or made.
    """
    return Held(path, open_own(path, os.O_RDWR))


def _forget(reference: weakref.ref[Held]) -> None:
    held = reference()
    if held is not None:
        held.close()
