"""Opens records, wherever they are: in a folder, in a file, or where a URL says."""

from __future__ import annotations

import re
from pathlib import Path

from int8tune.results.base import Store
from int8tune.results.entry_points import STORES, parts
from int8tune.results.errors import StoreError

STORE_FILE = "records.db"
"""In a results folder."""

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://.*")
_OWN = ("sqlite",)
_SHOWN = 200


def is_url(where: str | Path) -> bool:
    """Whether records are at a URL, and not in a folder or file."""
    return _URL.fullmatch(str(where)) is not None


def open_store(where: str | Path, *, readonly: bool = False) -> Store:
    """The records of a results folder or of a results file, or those that a URL names.

    Raises:
        StoreError: they are not there or can't be read, or nobody opens such URLs.
        ExtensionError: the package that opens such URLs can't be imported.
    """
    if url := _URL.fullmatch(str(where)):
        known = parts(STORES, _OWN)
        if url[1] not in known:
            more = f", known: {', '.join(known)}" if known else ""
            raise StoreError(f"no installed package opens records at {url[1]}://{more}: {str(where)[:_SHOWN]}")
        store: Store = known[url[1]].load()(str(where), readonly=readonly)
        return store
    from int8tune.results.store import SqliteStore  # it takes a while

    path = Path(where)
    return SqliteStore(path if path.is_file() else path / STORE_FILE, readonly=readonly)
