"""Opens records, wherever they are: in a folder, in a file, or where a URL says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from int8tune.results.base import ClaimingStore, Store
from int8tune.results.entry_points import STORES, parts
from int8tune.results.errors import StoreError
from int8tune.results.redaction import without_password

STORE_FILE = "records.db"
"""In a results folder."""
DEFAULT_FOLDER = Path("int8tune-results")

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.DOTALL)
_SHOWN = 200


def open_store(where: str | Path, *, readonly: bool = False, files: Path = DEFAULT_FOLDER) -> Store:
    """The records of a results folder or of a results file, or those that a URL names.

    Args:
        files: where a store that is elsewhere may keep files on this host.

    Raises:
        StoreError: they are not there or can't be read, or nobody opens such URLs.
        ExtensionError: the package that opens such URLs can't be imported.
    """
    if not (url := _URL.fullmatch(str(where))):
        path = Path(where)
        return _sqlite(path if path.is_file() else path / STORE_FILE, readonly)
    if url[1] in _OWN:
        return _OWN[url[1]](str(where), readonly, files)
    known = parts(STORES, tuple(_OWN))
    if url[1] not in known:
        more = f", known: {', '.join([*_OWN, *known])}"
        shown = without_password(str(where))[:_SHOWN]
        raise StoreError(f"no installed package opens records at {url[1]}://{more}: {shown}")
    store: Store = known[url[1]].load()(str(where), readonly=readonly)
    return store


def is_url(where: str | Path) -> bool:
    """Whether records are where a URL says, and not in a folder."""
    return _URL.fullmatch(str(where)) is not None


def claim(store: Store, campaign: str) -> None:
    """Be the only writer of a campaign, in a store that has several writers.

    Raises:
        StoreLockedError: another process writes it.
    """
    if isinstance(store, ClaimingStore):
        store.claim(campaign)


def _sqlite(path: Path, readonly: bool) -> Store:
    from int8tune.results.store import SqliteStore  # it takes a while

    return SqliteStore(path, readonly=readonly)


def _sqlite_url(url: str, readonly: bool, _files: Path) -> Store:
    return _sqlite(Path(url.partition("://")[2].removeprefix("/") or STORE_FILE), readonly)


def _postgresql(url: str, readonly: bool, files: Path) -> Store:
    from int8tune.results.postgresql.store import PostgresStore  # it takes a while

    return PostgresStore(url, readonly=readonly, files=files)


_OWN: dict[str, Callable[[str, bool, Path], Store]] = {
    "sqlite": _sqlite_url,
    "postgresql": _postgresql,
    "postgres": _postgresql,
}
