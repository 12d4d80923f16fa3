"""The results folder, and where in it things are kept."""

from __future__ import annotations

from pathlib import Path

from results.atomic import sync_folder
from tuner.errors import ResultsFolderError

STORE_FILE = "records.db"


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
