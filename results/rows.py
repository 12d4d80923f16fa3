"""Entries as rows of a database: how they are added, asked for and checked when they are read, alike in all stores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import ColumnElement, Connection, Insert, Select, insert, select
from sqlalchemy.exc import IntegrityError

from int8tune.results.base import E
from int8tune.results.codec import Codec, Values, checksum, codec_of, encode, to_json
from int8tune.results.columns import check_types, texts_of
from int8tune.results.errors import DamagedRowError, RecordError, StoreError
from int8tune.results.record import Campaign, Entry, Trial
from int8tune.results.schema import campaigns, environments
from int8tune.results.text import one_line

ROWS_AT_ONCE = 500


class References:
    """Row ids of the campaigns and environments that were referred to, so that each is looked up once."""

    def __init__(self) -> None:
        self._campaigns: dict[str, int] = {}
        self._environments: dict[str, int] = {}

    def campaign(self, connection: Connection, name: str) -> int:
        """Raises: StoreError: there is none of this name."""
        if name not in self._campaigns:
            found = connection.execute(select(campaigns.c.id).where(campaigns.c.name == name)).scalar()
            if found is None:
                raise StoreError(f"no such campaign in the store: {name}")
            self._campaigns[name] = found
        return self._campaigns[name]

    def environment(self, connection: Connection, environment: Mapping[str, str]) -> int:
        """The row of an environment, which is added where it is new."""
        content = to_json(dict(sorted(environment.items())), "an environment")
        digest = _digest(content)
        if digest not in self._environments:
            found = connection.execute(select(environments.c.id).where(environments.c.digest == digest)).scalar()
            if found is None:
                found = self.add_environment(connection, {"digest": digest, "content": content})
            self._environments[digest] = int(found)
        return self._environments[digest]

    def add_environment(self, connection: Connection, values: Values) -> int:
        """The row of an environment that is not there."""
        added = insert(environments).returning(environments.c.id)
        return int(connection.execute(added, values).scalar_one())


def row_of(connection: Connection, entry: Entry, references: References) -> Values:
    """The values of an entry's row.

    Raises:
        RecordError: a value that can't be kept.
        StoreError: its campaign is not there.
    """
    codec = codec_of(type(entry))
    values = encode(entry)
    if codec.has_campaign:
        values["campaign_id"] = references.campaign(connection, getattr(entry, "campaign"))  # noqa: B009
    if codec.has_environment:
        values["environment_id"] = references.environment(connection, getattr(entry, "environment"))  # noqa: B009
    values["checksum"] = checksum(codec.table, values)
    return values


def insert_all(
    connection: Connection, entries: Sequence[Entry], references: References, is_taken: Callable[[IntegrityError], bool]
) -> None:
    """Add entries, those of one kind together; where one is refused, one after the other, to say which.

    Args:
        is_taken: whether a violated constraint says that something is there already.

    Raises: as `Store.append`.
    """
    for kind, group in groupby(entries, type):
        alike = list(group)
        rows = [row_of(connection, entry, references) for entry in alike]
        adding = insert(codec_of(kind).table)
        try:
            with connection.begin_nested():
                connection.execute(adding, rows)
        except IntegrityError:
            for entry, row in zip(alike, rows, strict=True):
                _insert_one(connection, adding, entry, row, is_taken)


def _insert_one(
    connection: Connection, adding: Insert, entry: Entry, row: Values, is_taken: Callable[[IntegrityError], bool]
) -> None:
    try:
        connection.execute(adding, row)
    except IntegrityError as error:
        raise contradiction(entry, one_line(str(error.orig)), is_taken=is_taken(error)) from error


def order_of(codec: Codec[Any]) -> list[Any]:
    """The columns by which a query's entries come."""
    table = codec.table
    return [table.c.campaign_id, table.c.sequence] if "sequence" in table.c else [table.c.id]


def statement_of(codec: Codec[Any], filters: Mapping[str, str], *conditions: ColumnElement[bool]) -> Select[Any]:
    """What a query asks a database for."""
    table = codec.table
    columns: list[Any] = list(table.c)
    source: Any = table
    if codec.has_campaign:
        columns.append(campaigns.c.name.label("campaign_name"))
        source = source.join(campaigns, table.c.campaign_id == campaigns.c.id)
    if codec.has_environment:
        columns += [
            environments.c.content.label("environment_content"),
            environments.c.digest.label("environment_digest"),
        ]
        source = source.join(environments, table.c.environment_id == environments.c.id)
    wanted = [*(codec.columns[name] == value for name, value in filters.items()), *conditions]
    return select(*columns).select_from(source).where(*wanted).order_by(*order_of(codec))


def entry_of(codec: Codec[E], row: Values, known: dict[str, Mapping[str, str]], store: str) -> E:
    """The entry of a row. `known` has the environments that were decoded before, as most rows share one.

    Raises:
        DamagedRowError: the message names it and the store.
    """
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
        raise DamagedRowError(f"the results file is damaged ({what}): {store}") from error


def contradiction(entry: Entry, cause: str, *, is_taken: bool) -> StoreError | RecordError:
    """What a violated constraint says about an entry.

    Args:
        is_taken: whether something is there already; else the entry's own values don't fit each other.
    """
    if not is_taken:
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


def _check_joined(row: Values) -> None:
    """Check what a row has from other tables, all of it texts."""
    for name in ("campaign_name", "environment_content", "environment_digest"):
        if not isinstance(row.get(name, ""), str):
            raise RecordError(f"{name} must be str: {type(row[name]).__name__}")


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()
