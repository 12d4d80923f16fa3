"""A results file that is made whole or not at all."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from int8tune.results.atomic import sync_folder
from int8tune.results.errors import ForeignStoreError, StoreLockedError, StoreWriteError, UpkeepError
from int8tune.results.lock import WriterLock
from int8tune.results.store import SqliteStore
from int8tune.results.stores import STORE_FILE


@contextmanager
def new_store(out: Path) -> Iterator[SqliteStore]:
    """A store to be filled, which is at `out` once the block is left without an error; no file is ever replaced.

    Killed before that, it leaves a hidden folder beside `out`, which the next call with the same name removes.

    Raises:
        UpkeepError: there is something at `out` already, or no folder for it.
        StoreWriteError: it can't be written.
    """
    _require_free(out)
    _remove_left_over(out)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.part-", dir=out.parent))
    try:
        draft = folder / STORE_FILE
        with SqliteStore(draft) as store:
            yield store
        try:
            os.link(draft, out)  # a name that is taken is no error of `rename`
            sync_folder(out.parent)
        except FileExistsError:
            _require_free(out)
        except OSError as error:
            raise StoreWriteError(f"the results file can't be written ({error.strerror}): {out}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _require_free(out: Path) -> None:
    if out.exists() or out.is_symlink():
        raise UpkeepError(f"there is a file of this name already: {out}")
    if not out.parent.is_dir():
        raise UpkeepError(f"no such folder: {out.parent}")
    if not os.access(out.parent, os.W_OK):
        raise StoreWriteError(f"the folder can't be written: {out.parent}")


def _remove_left_over(out: Path) -> None:
    """Remove what a killed process was making; not what another one is making now."""
    for folder in out.parent.glob(f".{glob.escape(out.name)}.part-*"):
        with suppress(StoreLockedError, ForeignStoreError, StoreWriteError):
            lock = WriterLock(folder / STORE_FILE)
            shutil.rmtree(folder, ignore_errors=True)
            lock.release()
