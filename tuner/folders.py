"""The results folder: the records, and a place for builds while something runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from results.atomic import sync_folder
from tuner.errors import ResultsFolderError

STORE_FILE = "records.db"
WORK_FOLDER = ".work"


def make_folder(path: Path) -> Path:
    """Make a results folder, if it is not there; once it is returned, a power failure does not take it away.

    Raises:
        ResultsFolderError: it can't be made.
    """
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        for folder in made:
            sync_folder(folder.parent)
    except OSError as error:
        why = "there is a file of this name" if path.is_file() else error.strerror
        raise ResultsFolderError(f"the results folder can't be made ({why}): {path}") from error
    return path


def journal_path(results: Path, campaign: str) -> Path:
    """Where a campaign on boards keeps what it must know of them should it be killed; gone once it has finished."""
    return results / f"{campaign}.journal"


def bundles_path(results: Path, campaign: str) -> Path:
    """Where a campaign on a device that can't be reached keeps what it must know of its bundles."""
    return results / f"{campaign}.bundles"


@contextmanager
def work_folder(results: Path, name: str) -> Iterator[Path]:
    """A folder for builds, empty at the start even after a crash, and gone at the end.

    Raises:
        ResultsFolderError: it can't be made.
    """
    folder = results / WORK_FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ResultsFolderError(f"the build folder can't be made ({error.strerror}): {folder}") from error
    try:
        yield folder.resolve()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if not any(folder.parent.iterdir()):
            folder.parent.rmdir()
