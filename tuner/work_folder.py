"""Folders for builds in a results folder: each has one process, and whatever ends that, the next one removes it."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from int8tune.results.held import Held, hold_own
from int8tune.results.own_files import make_own_folder
from int8tune.rpc.errors import RpcError
from int8tune.tuner.errors import ResultsFolderError, TunerError
from int8tune.tuner.folders import HeldFolder

WORK_FOLDER = ".work"
_OWNER = ".owner"
_MOST_ATTEMPTS = 100


@contextmanager
def work_folder(results: Path, name: str) -> Iterator[Path]:
    """A folder for builds of this process, gone at the end; those of processes that were killed are removed first.

    It is empty but for a file that this process holds: by that, others see that it is in use. A results folder that
    was not there is gone at the end, too, where nothing was kept in it.

    Raises:
        ResultsFolderError: it can't be made; or it was removed, whatever came of that.
    """
    work = results / WORK_FOLDER
    # Its name is known before it is made: a signal may end this process in the middle of that.
    folder = work / f"{name}-{secrets.token_hex(8)}"
    missing = [path for path in (results, *results.parents) if not path.exists()]
    owner: Held | None = None
    try:
        owner = _make(folder)
        held = HeldFolder(folder)
        try:
            yield folder.resolve()
        except (OSError, TunerError, RpcError):
            held.require()  # whatever else was said then, this is why
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if owner:
            owner.close()
        with contextlib.suppress(OSError):  # another process builds there, or something is kept
            for path in (work, *missing):
                path.rmdir()


def _make(folder: Path) -> Held:
    """Make a folder in that for all, and hold it; another process may take either away before it is held.

    Raises:
        ResultsFolderError: it can't be made.
    """
    work = folder.parent
    try:
        for _ in range(_MOST_ATTEMPTS):
            with contextlib.suppress(FileNotFoundError):
                work.parent.mkdir(parents=True, exist_ok=True)
                make_own_folder(work)
                _remove_leftovers(work)
                folder.mkdir(mode=0o700, exist_ok=True)
                if owner := _hold(folder):
                    return owner
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(work))
    except OSError as error:
        where = error.filename or work
        raise ResultsFolderError(f"the build folder can't be made ({error.strerror}): {where}") from error


def _remove_leftovers(work: Path) -> None:
    for folder in [entry for entry in work.iterdir() if entry.is_dir() and not entry.is_symlink()]:
        with contextlib.suppress(OSError):  # another user's, or just gone
            if owner := _hold(folder):
                shutil.rmtree(folder, ignore_errors=True)
                owner.close()


def _hold(folder: Path) -> Held | None:
    """Become the owner of a folder; None where it has one that lives, or is gone.

    Raises:
        OSError: its file can't be opened, or locked.
    """
    path = folder / _OWNER
    try:
        owner = hold_own(path)
    except FileNotFoundError:
        return None
    try:
        owner.lock()
        if os.path.samestat(path.stat(), os.fstat(owner.descriptor)):
            return owner
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        owner.close()
        raise
    owner.close()
    return None
