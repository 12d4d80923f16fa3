"""A results file as it is at one moment, with the rows that can't be read set aside in place of an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, select

from int8tune.results.base import E
from int8tune.results.codec import codec_of
from int8tune.results.errors import DamagedRowError
from int8tune.results.record import BenchResult, BoardEvent, Campaign, CampaignRun, DeviceCheck, Duel, Trial
from int8tune.results.rows import ROWS_AT_ONCE, entry_of, statement_of
from int8tune.results.schema import campaigns, environments
from int8tune.results.sqlite_file import check, has_table, reader_engine, require_file, resolved, translated

OF_CAMPAIGNS: tuple[type[CampaignRun | BoardEvent | Trial | Duel], ...] = (CampaignRun, BoardEvent, Trial, Duel)
OF_ALL: tuple[type[DeviceCheck | BenchResult], ...] = (DeviceCheck, BenchResult)


@dataclass(frozen=True, slots=True)
class DamagedRow:
    """A row that is no entry.

    Attributes:
        fault: why, one line.
        values: what it holds, by column.
    """

    store: Path
    table: str
    row: int
    fault: str
    values: Mapping[str, Any]


@dataclass
class Snapshot:
    """What one file held when it was opened; a campaign may go on writing to it.

    Attributes:
        damaged: what was found so far, by table and row.
    """

    path: Path
    _connection: Connection
    damaged: dict[tuple[str, int], DamagedRow] = field(default_factory=dict)
    _known: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def entries(self, kind: type[E], campaign: str | None = None) -> Iterator[E]:
        """The entries of a kind that can be read, as a store's query gives them."""
        codec = codec_of(kind)
        if not has_table(self._connection, codec.table):
            return
        statement = statement_of(codec, dict(codec.filters(campaign=campaign)))
        rows = self._connection.execution_options(yield_per=ROWS_AT_ONCE).execute(statement)
        for row in rows.mappings():
            values = dict(row)
            try:
                yield entry_of(codec, dict(values), self._known, str(self.path))
            except DamagedRowError as error:
                self._set_aside(codec.table, values, str(error))

    def find_orphans(self, known: Sequence[str]) -> None:
        """Set the rows aside that belong to no campaign of these names, or have an environment that is not there."""
        own = select(campaigns.c.id).where(campaigns.c.name.in_(known))
        for kind in (*OF_CAMPAIGNS, *OF_ALL):
            codec = codec_of(kind)
            if not has_table(self._connection, codec.table):
                continue
            if codec.has_campaign:
                self._find(codec.table, codec.table.c.campaign_id.not_in(own), "its campaign can't be read")
            if codec.has_environment:
                lost = codec.table.c.environment_id.not_in(select(environments.c.id))
                self._find(codec.table, lost, "its environment is not there")

    def _find(self, table: Table, where: Any, fault: str) -> None:
        for row in self._connection.execute(select(table).where(where)).mappings():
            self._set_aside(table, dict(row), fault)

    def _set_aside(self, table: Table, values: Mapping[str, Any], fault: str) -> None:
        place = table.name, values["id"]
        self.damaged.setdefault(place, DamagedRow(self.path, *place, fault.removesuffix(f": {self.path}"), values))


@contextmanager
def snapshot(path: Path) -> Iterator[Snapshot]:
    """A results file as it is now; nothing of it is changed.

    Raises:
        ForeignStoreError: it belongs to another program, or is damaged as a whole.
        NewerSchemaError: a newer version of this program wrote it.
        StoreError: it is missing or unreadable.
    """
    place = resolved(path, readonly=True)
    require_file(place, readonly=True)
    check(place)
    with snapshot_of_open(place) as taken:
        yield taken


@contextmanager
def snapshot_of_open(path: Path) -> Iterator[Snapshot]:
    """The same of a file that this process has open for writing, and which was checked then.

    Nothing but SQLite opens it here: whoever closes a file lets go of all locks of fcntl(2) that his process has on it.
    """
    with translated(path), reader_engine(path).connect() as connection:
        connection.exec_driver_sql("BEGIN")
        yield Snapshot(path, connection)


def names_in(taken: Snapshot) -> list[str]:
    """Names of the campaigns that can be read."""
    return [campaign.name for campaign in taken.entries(Campaign)]
