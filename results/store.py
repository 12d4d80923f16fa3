"""The results file: an SQLite database that one process writes and any number of processes read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, Engine, Select, exc

from int8tune.results import selected_rows
from int8tune.results.base import Before, E, Tally
from int8tune.results.codec import Codec, codec_of
from int8tune.results.errors import StoreError
from int8tune.results.lock import WriterLock
from int8tune.results.record import Entry, Trial
from int8tune.results.rows import ROWS_AT_ONCE, References, entry_of, insert_all, statement_of
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
                insert_all(connection, entries, self._references, _is_taken)
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
        codec = codec_of(kind)
        chosen = codec.filters(campaign=campaign, workload=workload, target=target, device=device)
        return self._entries(codec, lambda _: statement_of(codec, dict(chosen)), self._open_reader())

    def first_trials(
        self,
        *,
        campaign: str | None = None,
        workload: str | None = None,
        target: str | None = None,
        device: str | None = None,
    ) -> Iterator[Trial]:
        codec = codec_of(Trial)
        chosen = codec.filters(campaign=campaign, workload=workload, target=target, device=device)
        return self._entries(codec, lambda _: selected_rows.first_trials(dict(chosen)), self._open_reader())

    def trials_of(self, campaign: str, candidates: Collection[str]) -> Iterator[Trial]:
        statement = selected_rows.trials_of(campaign, candidates)
        return self._entries(codec_of(Trial), lambda _: statement, self._open_reader())

    def spread_trials(self, before: Before, most: int) -> Iterator[Trial]:
        def ask(connection: Connection) -> Select[Any]:
            return selected_rows.spread_trials(connection, before, most)

        return self._entries(codec_of(Trial), ask, self._open_reader())

    def tally(self, campaign: str) -> Tally:
        with translated(self._path), self._open_reader().connect() as connection:
            if not has_table(connection, codec_of(Trial).table):
                return Tally({})
            return selected_rows.tally_of(connection.execute(selected_rows.tally(campaign)), str(self._path))

    def trials_after(self, campaign: str, row: int) -> Iterator[tuple[int, Trial]]:
        statement = selected_rows.trials_after(campaign, row)
        return self._numbered(codec_of(Trial), lambda _: statement, self._open_reader())

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

    def _open_reader(self) -> Engine:
        if self._reader is None:
            raise StoreError(f"the store is closed: {self._path}")
        return self._reader

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.dispose()
            self._writer = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _entries(self, codec: Codec[E], ask: Callable[[Connection], Select[Any]], engine: Engine) -> Iterator[E]:
        return (entry for _, entry in self._numbered(codec, ask, engine))

    def _numbered(
        self, codec: Codec[E], ask: Callable[[Connection], Select[Any]], engine: Engine
    ) -> Iterator[tuple[int, E]]:
        known: dict[str, Mapping[str, str]] = {}
        with translated(self._path), engine.connect() as connection:
            if not has_table(connection, codec.table):
                return
            rows = connection.execution_options(yield_per=ROWS_AT_ONCE).execute(ask(connection))
            names = list(rows.keys())
            for row in rows:
                values = dict(zip(names, row, strict=True))
                yield values["id"], entry_of(codec, values, known, str(self._path))


def _is_taken(error: exc.IntegrityError) -> bool:
    return getattr(error.orig, "sqlite_errorcode", 0) == sqlite3.SQLITE_CONSTRAINT_UNIQUE
