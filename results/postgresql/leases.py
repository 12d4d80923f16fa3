"""One writer per campaign: leases in the database, which end by its clock unless they are renewed, with fences."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, func, select, update
from sqlalchemy.dialects.postgresql import insert

from int8tune.results.errors import StoreLockedError
from int8tune.results.postgresql.holder import Holder
from int8tune.results.postgresql.tables import leases, writers
from int8tune.results.text import printable

LEASE_S = 90.0
"""How long a campaign stays its writer's who says nothing, such as one that was killed on another host."""


class Leases:
    """The campaigns of one writer.

    Attributes:
        held: the fence of each.
    """

    def __init__(self, writer: UUID, holder: Holder, lease_s: float, database: str) -> None:
        self._writer = writer
        self._holder = holder
        self._lease = timedelta(seconds=lease_s)
        self._database = database
        self.held: dict[str, int] = {}

    def enter(self, connection: Connection, writer: UUID) -> None:
        """Write down who a writer is: this one, or one that this process speaks for."""
        who = {"host": self._holder.host, "process": self._holder.process, "pid": self._holder.pid}
        values = {"writer": writer, **who, "since": self._holder.since, "last": 0}
        connection.execute(insert(writers).on_conflict_do_nothing(), values)

    def require(self, connection: Connection, campaigns: Iterable[str]) -> dict[str, int]:
        """Hold campaigns until the transaction ends, at least; the fences of those that were not held before.

        Raises:
            StoreLockedError: another writer holds one; the message has its host, its process and since when.
        """
        return {
            name: fence
            for name in sorted(campaigns)
            if (fence := self._renewed(connection, name) or self._taken(connection, name)) != self.held.get(name)
        }

    def renew(self, connection: Connection) -> None:
        """Hold all for longer; one that was lost is noticed when it is written to."""
        for name in sorted(self.held):
            self._renewed(connection, name)

    def release(self, connection: Connection, campaigns: Iterable[str] | None = None) -> None:
        """Let others have campaigns at once; all of them by default."""
        for name in list(self.held if campaigns is None else campaigns):
            mine = (leases.c.campaign == name, leases.c.fence == self.held[name])
            connection.execute(update(leases).where(*mine).values(ends_at=func.now()))
            del self.held[name]

    def _renewed(self, connection: Connection, name: str) -> int:
        """The fence of a campaign that this writer has; 0 if it never had it."""
        if name not in self.held:
            return 0
        mine = (leases.c.campaign == name, leases.c.writer == self._writer, leases.c.fence == self.held[name])
        renewal = update(leases).where(*mine).values(ends_at=func.clock_timestamp() + self._lease)
        if not connection.execute(renewal).rowcount:
            raise self._refusal(name, self._holder_of(connection, name), "took over")
        return self.held[name]

    def _taken(self, connection: Connection, name: str) -> int:
        ends_at = func.clock_timestamp() + self._lease
        mine = {"campaign": name, "writer": self._writer, "ends_at": ends_at}
        new = insert(leases).values(**mine, fence=1).on_conflict_do_nothing().returning(leases.c.fence)
        if (fence := connection.execute(new).scalar()) is not None:
            return int(fence)
        holder = self._holder_of(connection, name)
        if holder is not None and holder.writer == self._writer:  # by a commit whose answer was lost
            return int(holder.fence)
        if holder is not None and not holder.has_ended and not _who(holder).is_gone:
            raise self._refusal(name, holder, "is writing to")
        changed = update(leases).where(leases.c.campaign == name).values(**mine, fence=leases.c.fence + 1)
        return int(connection.execute(changed.returning(leases.c.fence)).scalar_one())

    def _holder_of(self, connection: Connection, name: str) -> Row[Any] | None:
        """The row of a campaign's lease and its writer, which nobody changes until the transaction ends."""
        found = (
            select(leases, writers, (leases.c.ends_at <= func.clock_timestamp()).label("has_ended"))
            .join(writers, leases.c.writer == writers.c.writer)
            .where(leases.c.campaign == name)
            .with_for_update(of=leases)
        )
        return connection.execute(found).first()

    def _refusal(self, name: str, holder: Row[Any] | None, does: str) -> StoreLockedError:
        who = printable(str(_who(holder))) if holder is not None else "which did not say who it is"
        return StoreLockedError(f"another process {does} campaign `{name}` ({who}): {self._database}")


def _who(row: Row[Any]) -> Holder:
    return Holder(row.host, row.pid, row.process, row.since)
