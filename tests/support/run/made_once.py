"""What the processes of one run share: each thing is made once, by the process that needs it first."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

FOLDER = "INT8TUNE_FOLDER_OF_THE_RUN"


def folder_of_the_run() -> Path | None:
    """A folder that ends with the run; None outside of a run."""
    named = os.environ.get(FOLDER)
    return Path(named) if named else None


def made_once(name: str, make: Callable[[Path], None], otherwise: Path) -> Path:
    """A folder of the run that `make` has filled; outside of a run, one in `otherwise`."""
    folder = (folder_of_the_run() or otherwise) / name
    with folder.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            begun = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder.parent))
            make(begun)
            begun.rename(folder)
    return folder
