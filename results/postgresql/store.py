"""A store in a PostgreSQL database, which several hosts write at once, each its own campaigns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, CursorResult, Row, Select, func, select, tuple_

from int8tune.results import selected_rows
from int8tune.results.base import Before, E, Tally
from int8tune.results.codec import Codec, Values, codec_of
from int8tune.results.errors import StoreError
from int8tune.results.postgresql.leases import LEASE_S
from int8tune.results.postgresql.server import READ_LIMIT_S, Server, end_reading, give_up, within
from int8tune.results.postgresql.writer import Writer
from int8tune.results.record import Entry, Trial
from int8tune.results.rows import ROWS_AT_ONCE, entry_of, order_of, statement_of
from int8tune.results.schema import SINCE

Page = list[Values]
Ask = Callable[[Connection], Select[Any]]


class PostgresStore:
    """A `Store` in a database.

    Any number of processes read and write. A campaign has one writer at a time, who holds a lease of it from its first
    entry, or from `claim`, until the store is closed.
    """

    def __init__(self, url: str, *, readonly: bool = False, files: Path, lease_s: float = LEASE_S) -> None:
        """Connect, and make the tables where there are none and not `readonly`.

        Args:
            url: as libpq takes it; passwords and TLS are best left to libpq's environment.
            files: the folder on this host in which entries wait while the database is away.
            lease_s: how long a campaign stays this writer's if nothing is heard of it.

        Raises:
            StoreAwayError: the database can't be reached.
            NewerSchemaError: it was written by a newer version of this program.
            StoreError: it can't be used, has no records, or refuses what waited.
            StoreWriteError: nothing can be kept in the folder.
        """
        self._server = Server(url)
        self._writer: Writer | None = None
        self._closed = False
        try:
            if not readonly:
                self._writer = Writer(self._server, files, lease_s)
            self._version = self._server.require_tables()
        except BaseException:
            self.close()
            raise

    def append(self, entries: Sequence[Entry]) -> None:
        self._require_open()
        if self._writer is None:
            raise StoreError(f"the store was opened for reading only: {self._server.name}")
        if entries:
            self._writer.add(entries)

    def claim(self, campaign: str) -> None:
        self._require_open()
        if self._writer is None:
            raise StoreError(f"the store was opened for reading only: {self._server.name}")
        self._writer.claim(campaign)

    def query(
        self,
        kind: type[E],
        *,
        campaign: str | None = None,
        workload: str | None = None,
        target: str | None = None,
        device: str | None = None,
    ) -> Iterator[E]:
        self._require_open()
        codec = codec_of(kind)
        chosen = codec.filters(campaign=campaign, workload=workload, target=target, device=device)
        return self._entries(codec, lambda _: statement_of(codec, dict(chosen)))

    def first_trials(
        self,
        *,
        campaign: str | None = None,
        workload: str | None = None,
        target: str | None = None,
        device: str | None = None,
    ) -> Iterator[Trial]:
        self._require_open()
        codec = codec_of(Trial)
        chosen = codec.filters(campaign=campaign, workload=workload, target=target, device=device)
        return self._entries(codec, lambda _: selected_rows.first_trials(dict(chosen)))

    def trials_of(self, campaign: str, candidates: Collection[str]) -> Iterator[Trial]:
        self._require_open()
        statement = selected_rows.trials_of(campaign, candidates)
        return self._entries(codec_of(Trial), lambda _: statement)

    def spread_trials(self, before: Before, most: int) -> Iterator[Trial]:
        self._require_open()
        return self._entries(codec_of(Trial), lambda connection: selected_rows.spread_trials(connection, before, most))

    def tally(self, campaign: str) -> Tally:
        self._require_open()
        return self._writer.reached(lambda: self._tally(campaign)) if self._writer else self._tally(campaign)

    def _tally(self, campaign: str) -> Tally:
        server = self._server
        with server.translated():
            rows = server.answer(lambda connection: connection.execute(selected_rows.tally(campaign)).all())
        return selected_rows.tally_of(rows, server.name)

    def trials_after(self, campaign: str, row: int) -> Iterator[tuple[int, Trial]]:
        self._require_open()
        return self._numbered(codec_of(Trial), lambda _: selected_rows.trials_after(campaign, row))

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            if self._writer is not None:
                self._writer.close()
        finally:
            self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError(f"the store is closed: {self._server.name}")

    def _entries(self, codec: Codec[E], ask: Ask) -> Iterator[E]:
        return (entry for _, entry in self._numbered(codec, ask))

    def _numbered(self, codec: Codec[E], ask: Ask) -> Iterator[tuple[int, E]]:
        if self._version < int(codec.table.info.get(SINCE, 1)):
            return
        known: dict[str, Mapping[str, str]] = {}
        reading = _Reading(self._server, codec, ask)
        try:
            while page := self._page(reading):
                for row in page:
                    yield row["id"], entry_of(codec, row, known, self._server.name)
            reading.end()
        finally:
            reading.close()

    def _page(self, reading: _Reading) -> Page:
        """The next rows; a writer goes on where it was when the database comes back."""
        return self._writer.reached(reading.page) if self._writer is not None else reading.page()


class _Reading:
    """The rows of a query, page by page, as they were when the first was read."""

    def __init__(self, server: Server, codec: Codec[Any], ask: Ask) -> None:
        self._server, self._ask = server, ask
        self._id, self._order = codec.table.c.id, order_of(codec)
        self._bound: int | None = None
        self._after: tuple[int, ...] = ()
        self._open: _Open | None = None

    def page(self) -> Page:
        """The next rows; none at the end.

        Raises:
            StoreAwayError: the database can't be reached; another call goes on where this was.
        """
        try:
            with self._server.translated():
                if self._open is None:
                    self._open, found = self._begin()
                elif self._open.is_whole:
                    found = ()
                else:
                    with within(self._open.connection, READ_LIMIT_S):
                        found = self._open.next_page()
            rows = [dict(zip(self._open.names, row, strict=True)) for row in found]
        except BaseException:
            self.close()
            raise
        if rows:
            self._after = tuple(rows[-1][column.name] for column in self._order)
        return rows

    def end(self) -> None:
        """Let another reading have the connection; this one is at its end."""
        if self._open is not None:
            opened, self._open = self._open, None
            end_reading(opened.connection, opened.cursor)

    def close(self) -> None:
        """End the connection, wherever the reading is."""
        if self._open is not None:
            opened, self._open = self._open, None
            give_up(opened.connection, opened.cursor)

    def _begin(self) -> tuple[_Open, Sequence[Row[Any]]]:
        """The open query, and its first page."""
        _, begun = self._server.begin_reading(self._started)
        return begun

    def _started(self, connection: Connection) -> tuple[_Open, Sequence[Row[Any]]]:
        rows = self._rows(connection)
        opened = _Open(connection, rows.cursor, list(rows.keys()), rows.partitions())
        return opened, opened.next_page()

    def _rows(self, connection: Connection) -> CursorResult[Any]:
        if self._bound is None:
            self._bound = connection.execute(select(func.max(self._id))).scalar() or 0
        statement = self._ask(connection).where(self._id <= self._bound)
        if self._after:
            statement = statement.where(tuple_(*self._order) > tuple_(*self._after))
        return connection.execution_options(yield_per=ROWS_AT_ONCE).execute(statement)


@dataclass(slots=True)
class _Open:
    """A query that was begun; a page that is not full is its last one."""

    connection: Connection
    cursor: Any
    names: Sequence[str]
    pages: Iterator[Sequence[Row[Any]]]
    is_whole: bool = False

    def next_page(self) -> Sequence[Row[Any]]:
        page = next(self.pages, ())
        self.is_whole = len(page) < ROWS_AT_ONCE
        return page
