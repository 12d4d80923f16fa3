"""The results file: an SQLite database that one process writes and any number of processes read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, Engine, Select, exc, insert

from int8tune.results.base import E
from int8tune.results.codec import Codec, codec_of
from int8tune.results.errors import StoreError
from int8tune.results.lock import WriterLock
from int8tune.results.record import Entry
from int8tune.results.rows import ROWS_AT_ONCE, References, contradiction, entry_of, row_of, statement_of
from int8tune.results.sqlite_file import (
    check,
    create,
    has_table,
    reader_engine,
    require_file,
    resolved,
    translated,
    upgrade,
    writer_engine,
)


class SqliteStore:
    """A `Store` in one SQLite file.

    One process at a time writes it; it holds `<path>.lock` and the file itself while the store is open. Readers need no
    lock.
    """

    def __init__(self, path: Path | str, *, readonly: bool = False) -> None:
        """Open the file, and create it if it is not there and not `readonly`.

        Raises:
            StoreLockedError: another process is writing to it.
            ForeignStoreError: it belongs to another program, or is damaged.
            NewerSchemaError: it was written by a newer version of this program.
            StoreWriteError: the file or its folder can't be written.
            StoreError: it is missing, a folder, or unreadable.
        """
        self._path = resolved(Path(path), readonly=readonly)
        self._writer: Engine | None = None
        self._lock: WriterLock | None = None
        self._references = References()
        if require_file(self._path, readonly=readonly):
            check(self._path)
        if not readonly:
            self._open_writer()
        self._reader: Engine | None = reader_engine(self._path)

    def _open_writer(self) -> None:
        self._lock = WriterLock(self._path)
        try:
            if not self._path.exists() or not self._path.stat().st_size:
                create(self._path)
            self._lock.take_file()
            self._writer = writer_engine(self._path)
            with translated(self._path), self._writer.begin() as connection:
                upgrade(connection)
        except BaseException:
            self._close_writer()
            raise

    def append(self, entries: Sequence[Entry]) -> None:
        if self._reader is None:
            raise StoreError(f"the store is closed: {self._path}")
        if self._writer is None:
            raise StoreError(f"the store was opened for reading only: {self._path}")
        if not entries:
            return
        try:
            with translated(self._path), self._writer.begin() as connection:
                for entry in entries:
                    self._insert(connection, entry)
            self._require_file()
        except BaseException:
            # Ids learned in a transaction that was rolled back are void.
            self._references = References()
            raise

    def _require_file(self) -> None:
        """What is acknowledged must be in the file that others find; it costs a look at the folder, not a sync.

        Raises:
            StoreGoneError: the file was removed or replaced.
        """
        if self._lock:
            self._lock.require_file()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction, for the upkeep of the file: what campaigns have to say is appended.

        Raises:
            StoreError: the file is not open for writing, or can't be written.
        """
        if self._writer is None:
            raise StoreError(f"the store is not open for writing: {self._path}")
        try:
            with translated(self._path), self._writer.begin() as connection:
                yield connection
            self._require_file()
        finally:
            self._references = References()

    def compact(self) -> None:
        """Give the room of what was removed back to the disk, where the disk has enough for that."""
        if self._writer is not None:
            with suppress(StoreError), translated(self._path), closing(self._writer.raw_connection()) as raw:
                driver: Any = raw.driver_connection
                driver.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 1)  # the file that SQLite copies to
                try:
                    driver.execute("VACUUM")
                finally:
                    driver.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)

    def query(
        self,
        kind: type[E],
        *,
        campaign: str | None = None,
        workload: str | None = None,
        target: str | None = None,
        device: str | None = None,
    ) -> Iterator[E]:
        if self._reader is None:
            raise StoreError(f"the store is closed: {self._path}")
        codec = codec_of(kind)
        chosen = codec.filters(campaign=campaign, workload=workload, target=target, device=device)
        return self._entries(codec, statement_of(codec, dict(chosen)), self._reader)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.dispose()
            self._reader = None
        self._close_writer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.dispose()
            self._writer = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _insert(self, connection: Connection, entry: Entry) -> None:
        try:
            values = row_of(connection, entry, self._references)
            connection.execute(insert(codec_of(type(entry)).table), values)
        except exc.IntegrityError as error:
            is_taken = getattr(error.orig, "sqlite_errorcode", 0) == sqlite3.SQLITE_CONSTRAINT_UNIQUE
            raise contradiction(entry, str(error.orig), is_taken=is_taken) from error

    def _entries(self, codec: Codec[E], statement: Select[Any], engine: Engine) -> Iterator[E]:
        known: dict[str, Mapping[str, str]] = {}
        with translated(self._path), engine.connect() as connection:
            if not has_table(connection, codec.table):
                return
            rows = connection.execution_options(yield_per=ROWS_AT_ONCE).execute(statement)
            for row in rows.mappings():
                yield entry_of(codec, dict(row), known, str(self._path))
