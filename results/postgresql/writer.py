"""Adds entries to a database exactly once, by leases of their campaigns; while it is away, they wait on the disk."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from uuid import UUID, uuid4

from sqlalchemy import Connection, exc, select, update
from sqlalchemy.dialects.postgresql import insert as insert_new

from int8tune.results.codec import Values
from int8tune.results.errors import RecordError, StoreAwayError, StoreError, StoreLockedError, StoreWriteError
from int8tune.results.postgresql.holder import this_process
from int8tune.results.postgresql.leases import Leases
from int8tune.results.postgresql.server import Server
from int8tune.results.postgresql.spool import SUFFIX, Batch, Spool, abandoned, spool_folder
from int8tune.results.postgresql.tables import writers
from int8tune.results.record import Entry
from int8tune.results.rows import References, insert_all
from int8tune.results.schema import environments

OUTAGE_LIMIT_S = 120.0
"""How long a writer waits for the database before it gives up what can't wait on the disk."""
RETRY_S = 1.0
UNIQUE_VIOLATION = "23505"
_SOON_S = 1.0
_STOP_LIMIT_S = 20.0

T = TypeVar("T")


class Writer:
    """What a process adds to a database.

    While nothing waits, `add` speaks to the database itself; while something does, a thread hands it over, and what is
    added waits behind it. Everything is added by number: a number that is in the database is not added again.
    """

    def __init__(self, server: Server, files: Path, lease_s: float) -> None:
        """Hand over, too, what waits from processes that are gone.

        Raises:
            StoreError: the database can't be reached or used, or what waited can't be in it any more.
            StoreWriteError: nothing can be kept in the folder.
        """
        self._server = server
        self._name = server.name
        self._folder = spool_folder(files, server.prepare())
        self._spool = Spool(self._folder / f"{uuid4()}{SUFFIX}")
        holder = this_process(datetime.now(UTC).isoformat(timespec="seconds"))
        self._leases = Leases(self._spool.writer, holder, lease_s, server.name)
        self._references = _References()
        self._numbers = 0
        self._refusal: StoreError | RecordError | None = None
        self._mutex = threading.Lock()
        self._woken, self._ends = threading.Event(), False
        self._thread = threading.Thread(target=self._keep, args=(lease_s / 4,), daemon=True, name="store")
        try:
            with server.transaction() as connection:
                self._leases.enter(connection, self._spool.writer)
            self._adopt()
            self._thread.start()
        except BaseException:
            self._spool.close()
            raise

    def claim(self, campaign: str) -> None:
        """Be the only writer of a campaign until this is closed, with all that waited for it handed over.

        Raises:
            StoreLockedError: another process writes it.
            StoreAwayError: the database is away for long.
        """

        def ask() -> None:
            with self._mutex:
                with self._server.transaction() as connection:
                    fences = self._leases.require(connection, [campaign])
                self._leases.held |= fences
            self._adopt()

        self.reached(ask)

    def add(self, entries: Sequence[Entry]) -> None:
        """Add all or, when an error is raised, none; they are in the database or on this disk when it returns.

        Raises: as `Store.append`.
        """
        with self._mutex:
            self._raise_refusal()
            self._numbers += 1
            batch = Batch(self._numbers, tuple(entries))
            if self._spool.is_empty:
                try:
                    self._commit_soon(batch)
                    return
                except StoreAwayError:
                    # Who may add to a campaign can only be asked of the database.
                    if not set(batch.campaigns) <= self._leases.held.keys():
                        raise
            self._spool.add(batch)
        self._woken.set()

    def reached(self, ask: Callable[[], T]) -> T:
        """What the database answers once all is handed over; while it is away it is asked again.

        Raises:
            StoreAwayError: it is away for longer than `OUTAGE_LIMIT_S`.
        """
        deadline_s = time.monotonic() + OUTAGE_LIMIT_S
        while True:
            while not self._spool.is_empty and time.monotonic() < deadline_s:
                time.sleep(RETRY_S / 20)
            with self._mutex:
                self._raise_refusal()
            if not self._spool.is_empty:
                raise StoreAwayError(
                    f"the database can't be reached (records wait in {self._spool.path}): {self._name}"
                )
            try:
                return ask()
            except StoreAwayError:
                if time.monotonic() > deadline_s:
                    raise
            time.sleep(RETRY_S)

    def close(self) -> None:
        """Hand over what waits, if the database is there, and let others have the campaigns."""
        self._ends = True
        self._woken.set()
        self._thread.join(_STOP_LIMIT_S)
        try:
            with contextlib.suppress(StoreAwayError, StoreWriteError):
                self._hand_over(self._spool)
                with self._server.transaction() as connection:
                    self._leases.release(connection)
            self._raise_refusal()
        finally:
            self._spool.close()

    def _keep(self, renew_every_s: float) -> None:
        """Until this is closed: renew the leases, and hand over what waits."""
        renewed_s = time.monotonic()
        while not self._ends:
            self._woken.wait(renew_every_s if self._spool.is_empty else RETRY_S)
            self._woken.clear()
            with contextlib.suppress(StoreError):
                if not self._spool.is_empty:
                    self._hand_over(self._spool)
                if time.monotonic() - renewed_s >= renew_every_s and not self._ends:
                    with self._server.transaction() as connection:
                        self._leases.renew(connection)
                    renewed_s = time.monotonic()

    def _commit_soon(self, batch: Batch) -> None:
        """Commit, with a new connection where the server ended the old one while nothing was asked of it."""
        began_s = time.monotonic()
        try:
            self._commit(batch, self._spool.writer)
        except StoreAwayError:
            if time.monotonic() - began_s > _SOON_S:
                raise
            self._commit(batch, self._spool.writer)

    def _commit(self, batch: Batch, writer: UUID) -> None:
        """Have a batch in the database, once, however often this is called."""
        try:
            with self._server.transaction() as connection:
                if not self._is_next(connection, batch, writer):
                    return
                fences = self._leases.require(connection, batch.campaigns)
                insert_all(connection, batch.entries, self._references, _is_taken)
        except BaseException:
            # Ids learned in a transaction that was rolled back are void.
            self._references = _References()
            raise
        self._leases.held |= fences

    def _is_next(self, connection: Connection, batch: Batch, writer: UUID) -> bool:
        """Take a batch's number; whether nobody has."""
        taken = update(writers).where(writers.c.writer == writer, writers.c.last < batch.number)
        if connection.execute(taken.values(last=batch.number)).rowcount:
            return True
        if connection.execute(select(writers.c.last).where(writers.c.writer == writer)).scalar() is not None:
            return False
        # A database that was set back to an earlier day does not know who this is.
        self._leases.enter(connection, writer)
        return self._is_next(connection, batch, writer)

    def _hand_over(self, spool: Spool) -> None:
        """Commit what waits, and set aside what the database refuses.

        Raises:
            StoreAwayError, StoreWriteError: the database can't take it now.
            StoreLockedError: another process writes one of the campaigns, and the spool is not this writer's own.
        """
        end = 0
        while True:
            for batch, line, end in spool.batches(end):  # noqa: B007, B020
                try:
                    if batch is None:
                        raise StoreError("a damaged line")
                    self._commit(batch, spool.writer)
                except (StoreAwayError, StoreWriteError):
                    raise
                except (StoreError, RecordError) as error:
                    if isinstance(error, StoreLockedError) and spool is not self._spool:
                        raise
                    self._refuse(spool.set_aside(line), error)
            with self._mutex:
                if spool.drop(end):
                    return

    def _refuse(self, kept: Path, error: StoreError | RecordError) -> None:
        what = f"records that waited for the database can't be added, and are kept in {kept} ({error})"
        self._refusal = type(error)(what)

    def _raise_refusal(self) -> None:
        """Say once what became of entries that were accepted."""
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise refusal

    def _adopt(self) -> None:
        """Hand over what waits from processes that are gone; not where a campaign is another's meanwhile."""
        before = set(self._leases.held)
        for spool in abandoned(self._folder):
            try:
                with contextlib.suppress(StoreLockedError):
                    self._hand_over(spool)
            finally:
                spool.close()
        if others := self._leases.held.keys() - before:
            with self._server.transaction() as connection:
                self._leases.release(connection, others)
        self._raise_refusal()


class _References(References):
    """Several writers may bring the same environment at once."""

    def add_environment(self, connection: Connection, values: Values) -> int:
        connection.execute(insert_new(environments).on_conflict_do_nothing(), values)
        found = select(environments.c.id).where(environments.c.digest == values["digest"])
        return int(connection.execute(found).scalar_one())


def _is_taken(error: exc.IntegrityError) -> bool:
    return getattr(error.orig, "sqlstate", "") == UNIQUE_VIOLATION
