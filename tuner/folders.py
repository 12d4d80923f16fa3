"""The results folder, and where in it things are kept."""

from __future__ import annotations

import os
import shutil
import weakref
from pathlib import Path

from int8tune.results.atomic import sync_folder
from int8tune.results.held import hold
from int8tune.results.stores import STORE_FILE as STORE_FILE
from int8tune.tuner.errors import NoRoomError, ResultsFolderError


def make_folder(path: Path) -> Path:
    """Make a results folder, if it is not there; once it is returned, a power failure does not take it away.

    Raises:
        ResultsFolderError: it can't be made.
    """
    _require_utf8(path)
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        for folder in made:
            sync_folder(folder.parent)
    except OSError as error:
        why = "there is a file of this name" if path.is_file() else error.strerror
        raise ResultsFolderError(f"the results folder can't be made ({why}): {path}") from error
    return path


def _require_utf8(path: Path) -> None:
    """Compilers and libraries are given paths as UTF-8.

    Raises:
        ResultsFolderError: the path's bytes are something else, or this process takes them for something else.
    """
    whole = str(path.absolute())
    try:
        is_utf8 = os.fsencode(whole) == whole.encode()
    except UnicodeEncodeError:
        is_utf8 = False
    if not is_utf8:
        raise ResultsFolderError(f"a results folder's path must be UTF-8, in a locale of UTF-8: {os.fsencode(whole)!r}")


def journal_path(results: Path, campaign: str) -> Path:
    """Where a campaign on boards keeps what it must know of them should it be killed; gone once it has finished."""
    return results / f"{campaign}.journal"


def bundles_path(results: Path, campaign: str) -> Path:
    """Where a campaign on a device that can't be reached keeps what it must know of its bundles."""
    return results / f"{campaign}.bundles"


def require_room(folder: Path, needed_bytes: int, purpose: str) -> None:
    """Look at the disk before anything is begun there.

    Raises:
        NoRoomError: it has less room.
    """
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        free, needed = (f"{count / 2**20:,.0f} MiB" for count in (free_bytes, needed_bytes))
        raise NoRoomError(f"no space left on device: {purpose} needs {needed}, there are {free} at {folder}")


class HeldFolder:
    """A folder for builds that is noticed when somebody removes it, such as with the results folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held = hold(path, os.O_RDONLY | os.O_DIRECTORY)
        weakref.finalize(self, self._held.close)

    def require(self) -> None:
        """Raises: ResultsFolderError: it is not there any more."""
        if fault := self._held.fault():
            raise ResultsFolderError(f"a folder of the results was {fault} while it was in use: {self._path}")
