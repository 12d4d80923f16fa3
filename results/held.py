"""A file or folder that is held open, so that it is noticed when its name leads nowhere, or elsewhere."""

from __future__ import annotations

import os
from pathlib import Path


class Held:
    """What a path led to when it was opened. While it is held, nothing else gets its number on the disk.

    Attributes:
        descriptor: -1 once it was closed.
    """

    def __init__(self, path: Path, flags: int) -> None:
        """Raises: OSError: it can't be opened."""
        self._path = path
        self.descriptor = os.open(path, flags | os.O_CLOEXEC)

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
        """Let go of it. Closing twice is allowed."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
