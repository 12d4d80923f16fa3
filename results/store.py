"""The results file: an SQLite database that one process writes and any number of processes read."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, Engine, Select, exc, insert, select

from int8tune.results.base import E
from int8tune.results.codec import Codec, Values, checksum, codec_of, encode, to_json
from int8tune.results.columns import check_types, texts_of
from int8tune.results.errors import ForeignStoreError, RecordError, StoreError
from int8tune.results.lock import WriterLock
from int8tune.results.record import Campaign, Duel, Entry, Trial
from int8tune.results.schema import campaigns, environments
from int8tune.results.sqlite_file import (
    check,
    create,
    has_table,
    one_line,
    reader_engine,
    require_file,
    resolved,
    translated,
    upgrade,
    writer_engine,
)

ROWS_AT_ONCE = 500


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
        self._references = _References()
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
            self._references = _References()
            raise

    def _require_file(self) -> None:
        """What is acknowledged must be in the file that others find; it costs a look at the folder, not a sync.

        Raises:
            StoreGoneError: the file was removed or replaced.
        """
        if self._lock:
            self._lock.require_file()

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
        statement = _statement(codec).where(*(codec.columns[name] == value for name, value in chosen))
        return self._entries(codec, statement, self._reader)

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
        codec = codec_of(type(entry))
        values = encode(entry)
        if isinstance(entry, Trial | Duel):
            values["campaign_id"] = self._references.campaign(connection, entry.campaign)
        if not isinstance(entry, Campaign):
            values["environment_id"] = self._references.environment(connection, entry.environment)
        values["checksum"] = checksum(codec.table, values)
        try:
            connection.execute(insert(codec.table), values)
        except exc.IntegrityError as error:
            raise _contradiction(entry, error) from error

    def _entries(self, codec: Codec[E], statement: Select[Any], engine: Engine) -> Iterator[E]:
        known: dict[str, Mapping[str, str]] = {}
        with translated(self._path), engine.connect() as connection:
            if not has_table(connection, codec.table):
                return
            rows = connection.execution_options(yield_per=ROWS_AT_ONCE).execute(statement)
            for row in rows.mappings():
                yield self._decode(codec, dict(row), known)

    def _decode(self, codec: Codec[E], row: Values, known: dict[str, Mapping[str, str]]) -> E:
        """The entry of a row. `known` has the environments that were decoded before, as most rows share one."""
        try:
            check_types(codec.table, row)
            _check_joined(row)
            content = row.pop("environment_content", "{}")
            if checksum(codec.table, row) != row["checksum"]:
                raise RecordError("its checksum does not match")
            if content not in known:
                if codec.has_environment and _digest(content) != row["environment_digest"]:
                    raise RecordError("the checksum of its environment does not match")
                known[content] = texts_of(content)
            return codec.decode(row, row.get("campaign_name", ""), known[content])
        except (RecordError, ValueError, LookupError) as error:
            where = f"row {row['id']} of {codec.table.name}"
            what = one_line(f"{where}: {error}")
            raise ForeignStoreError(f"the results file is damaged ({what}): {self._path}") from error


class _References:
    """Row ids of the campaigns and environments that were referred to, so that each is looked up once."""

    def __init__(self) -> None:
        self._campaigns: dict[str, int] = {}
        self._environments: dict[str, int] = {}

    def campaign(self, connection: Connection, name: str) -> int:
        if name not in self._campaigns:
            found = connection.execute(select(campaigns.c.id).where(campaigns.c.name == name)).scalar()
            if found is None:
                raise StoreError(f"no such campaign in the store: {name}")
            self._campaigns[name] = found
        return self._campaigns[name]

    def environment(self, connection: Connection, environment: Mapping[str, str]) -> int:
        content = to_json(dict(sorted(environment.items())), "an environment")
        digest = _digest(content)
        if digest not in self._environments:
            found = connection.execute(select(environments.c.id).where(environments.c.digest == digest)).scalar()
            if found is None:
                added = insert(environments).returning(environments.c.id)
                found = connection.execute(added, {"digest": digest, "content": content}).scalar_one()
            self._environments[digest] = int(found)
        return self._environments[digest]


def _check_joined(row: Values) -> None:
    """Check what a row has from other tables, all of it texts."""
    for name in ("campaign_name", "environment_content", "environment_digest"):
        if not isinstance(row.get(name, ""), str):
            raise RecordError(f"{name} must be str: {type(row[name]).__name__}")


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def _statement(codec: Codec[Any]) -> Select[Any]:
    table = codec.table
    columns: list[Any] = list(table.c)
    source: Any = table
    order = [table.c.id]
    if codec.has_campaign:
        columns.append(campaigns.c.name.label("campaign_name"))
        source = source.join(campaigns, table.c.campaign_id == campaigns.c.id)
    if codec.has_environment:
        columns += [
            environments.c.content.label("environment_content"),
            environments.c.digest.label("environment_digest"),
        ]
        source = source.join(environments, table.c.environment_id == environments.c.id)
    if "sequence" in table.c:
        order = [table.c.campaign_id, table.c.sequence]
    return select(*columns).select_from(source).order_by(*order)


def _contradiction(entry: Entry, error: exc.IntegrityError) -> StoreError | RecordError:
    """What a violated constraint says about an entry."""
    cause = str(error.orig)
    if getattr(error.orig, "sqlite_errorcode", 0) != sqlite3.SQLITE_CONSTRAINT_UNIQUE:
        return RecordError(f"a {type(entry).__name__.lower()} that contradicts itself ({cause}): {entry!r:.200}")
    if isinstance(entry, Campaign):
        return StoreError(f"the store has a campaign of this name already: {entry.name}")
    if isinstance(entry, Trial) and "sequence" in cause:
        return StoreError(
            f"campaign `{entry.campaign}` has a trial with this sequence number already: {entry.sequence}"
        )
    if isinstance(entry, Trial):
        return StoreError(f"campaign `{entry.campaign}` has a trial of this candidate already: {entry.candidate.id}")
    return StoreError(f"the store has this entry already ({cause}): {entry!r:.200}")
