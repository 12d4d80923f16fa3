"""A PostgreSQL database as a place of records: connecting, its tables, limits of time, and what its errors mean."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid4

from sqlalchemy import Connection, Engine, create_engine, exc, insert, inspect, select, text, update
from sqlalchemy.pool import QueuePool

from int8tune.results.errors import (
    ForeignStoreError,
    NewerSchemaError,
    StoreAwayError,
    StoreError,
    StoreWriteError,
)
from int8tune.results.postgresql.tables import SCHEMA, about, own
from int8tune.results.postgresql.url import connection_options, shown
from int8tune.results.redaction import without_password
from int8tune.results.schema import APPLICATION_ID, SCHEMA_VERSION, create_missing
from int8tune.results.text import one_line

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

CONNECT_LIMIT_S = 5
WRITE_LIMIT_S = 5.0
READ_LIMIT_S = 60.0
"""The limit of one transaction that adds, and of one answer to a query; what takes longer is given up."""

# Classes and codes of https://www.postgresql.org/docs/current/errcodes-appendix.html
_AWAY = ("08", "57P", "53300", "40001", "40P01", "57014", "55P03", "25P03", "25P04")
_UNWRITABLE = ("53", "25006", "42501", "58")
# What is known of a connection that was kept for the next reading: it may be lost by then.
_IS_KEPT = "is_kept"


class Server:
    """A database.

    Attributes:
        name: of it in messages, without a password.
    """

    def __init__(self, url: str) -> None:
        """Nothing is connected yet.

        Raises:
            StoreError: it is no URL of PostgreSQL, or nothing is installed that speaks to it.
        """
        try:
            import psycopg
        except ImportError as error:
            raise StoreError(f"PostgreSQL needs psycopg: {error}; pip install 'int8tune[team]'") from error
        options = connection_options(url)
        self.name = shown(options)
        given = {"connect_timeout": CONNECT_LIMIT_S, "application_name": "int8tune", **_SENDS_SIGNS_OF_LIFE, **options}

        def connect() -> psycopg.Connection[Any]:
            return psycopg.connect(**given)

        dialect = "postgresql+psycopg://"
        self.writer = _in_schema(
            create_engine(dialect, creator=connect, poolclass=QueuePool, pool_size=1, max_overflow=1)
        )
        # To connect takes as long as most queries. One connection is kept; those of readings within others are not.
        self.reader = _in_schema(
            create_engine(dialect, creator=connect, poolclass=QueuePool, pool_size=1, max_overflow=-1)
        )

    def prepare(self) -> UUID:
        """Have all tables, and of this version; the database's own name.

        Raises:
            StoreError: it can't be reached, or can't be used.
        """
        with self.transaction(READ_LIMIT_S) as connection:
            # Two may begin at the same moment.
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": APPLICATION_ID})
            if connection.execute(text("SHOW server_encoding")).scalar_one() != "UTF8":
                raise StoreError(f"the database's encoding must be UTF8, see createdb --encoding: {self.name}")
            if not self._is_there(connection):
                connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
                own.create_all(connection)
                connection.execute(insert(about), {"database": uuid4(), "schema_version": SCHEMA_VERSION})
            found, version = self._version(connection)
            create_missing(connection)
            if version < SCHEMA_VERSION:
                connection.execute(update(about).values(schema_version=SCHEMA_VERSION))
            return found

    def require_tables(self) -> int:
        """The version of its tables.

        Raises:
            StoreError: there are none, or it can't be reached.
            NewerSchemaError: they are a newer program's.
        """
        with self.translated():
            return self.answer(self._version_of_tables)

    def _version_of_tables(self, connection: Connection) -> int:
        if not self._is_there(connection):
            raise StoreError(f"no records are in this database: {self.name}")
        return self._version(connection)[1]

    @contextlib.contextmanager
    def transaction(self, limit_s: float = WRITE_LIMIT_S) -> Iterator[Connection]:
        """What is done within it is durable when it ends, or not done at all.

        Raises:
            StoreAwayError: the server is not reached, or not any more; it may be done, or not.
            StoreWriteError: the server can't write, or may not.
            StoreError: anything else that the server refuses.
        """
        with self.translated(), self.writer.connect() as connection, within(connection, limit_s):
            try:
                with connection.begin():
                    connection.execute(_SETTINGS, {"limit": f"{limit_s * 1000:.0f}"})
                    yield connection
            except exc.DBAPIError as error:
                if _is_away(error):
                    connection.invalidate()
                raise

    def answer(self, ask: Callable[[Connection], T]) -> T:
        """What a connection answers that can't write, and sees records as they were when it first reads."""
        connection, answer = self.begin_reading(ask)
        end_reading(connection)
        return answer

    def begin_reading(self, ask: Callable[[Connection], T]) -> tuple[Connection, T]:
        """The same with the connection, for more; the caller ends it by `end_reading`, or by `give_up`.

        One that was kept from another reading may have been lost since: then a new one is asked.
        """
        connection = self._connect_reader()
        was_kept = bool(connection.info.get(_IS_KEPT))
        try:
            with within(connection, READ_LIMIT_S):
                return connection, ask(connection)
        except BaseException as error:
            give_up(connection)
            if not (was_kept and isinstance(error, exc.DBAPIError) and _is_away(error)):
                raise
        return self.begin_reading(ask)

    def _connect_reader(self) -> Connection:
        return self.reader.connect().execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Raise what the server reports as this package's errors."""
        try:
            yield
        except exc.DBAPIError as error:
            raise self._meaning(error) from error
        except exc.TimeoutError as error:
            raise StoreAwayError(f"the database does not answer: {self.name}") from error

    def close(self) -> None:
        """End all connections."""
        self.writer.dispose()
        self.reader.dispose()

    def _is_there(self, connection: Connection) -> bool:
        return inspect(connection).has_table(about.name, schema=SCHEMA)

    def _version(self, connection: Connection) -> tuple[UUID, int]:
        row = connection.execute(select(about)).first()
        if row is None or row.schema_version < 1:
            raise ForeignStoreError(f"the tables of this database are damaged (no version): {self.name}")
        if row.schema_version > SCHEMA_VERSION:
            known = f"schema {row.schema_version}, this one knows up to {SCHEMA_VERSION}"
            raise NewerSchemaError(f"written by a newer version of this program ({known}): {self.name}")
        return row.database, row.schema_version

    def _meaning(self, error: exc.DBAPIError) -> StoreError:
        cause = without_password(one_line(str(error.orig)))
        code = _code(error)
        if _is_away(error):
            return StoreAwayError(f"the database can't be reached ({cause}): {self.name}")
        if code.startswith(_UNWRITABLE):
            return StoreWriteError(f"the database can't be written ({cause}): {self.name}")
        return StoreError(f"the database can't be used ({cause}): {self.name}")


# Of one transaction. A server may be set up to answer before what it was given is on its disk; and what a process holds
# that was frozen or cut off in the middle would keep others waiting.
_SETTINGS = text(
    "SELECT set_config('synchronous_commit', 'on', true),"
    " set_config('statement_timeout', :limit, true),"
    " set_config('idle_in_transaction_session_timeout', :limit, true)"
)
# A peer that is gone without a word is noticed: https://www.postgresql.org/docs/current/libpq-connect.html
_SENDS_SIGNS_OF_LIFE = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


def end_reading(connection: Connection, cursor: Any = None) -> None:
    """Keep a connection, from which all was read, for the next reading; one that is lost by now is given up."""
    try:
        with within(connection, READ_LIMIT_S):
            if cursor is not None:
                cursor.close()
            connection.rollback()
            connection.info[_IS_KEPT] = True
            connection.close()
    except Exception:  # of the database's library, too, whose cursor it is
        give_up(connection, cursor)


def give_up(connection: Connection, cursor: Any = None) -> None:
    """End a connection, which may be lost, without waiting for long."""
    with contextlib.suppress(exc.SQLAlchemyError, OSError):
        if not connection.invalidated:
            connection.invalidate()
        connection.close()
    if cursor is not None:
        cursor.close()


@contextlib.contextmanager
def within(connection: Connection, limit_s: float) -> Iterator[None]:
    """End the connection when this takes longer: a network that swallows all tells nobody."""
    raw: Any = connection.connection.driver_connection
    watch = threading.Timer(limit_s, _shut_down, (raw.fileno(),))
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()
        watch.join(1)


def _shut_down(descriptor: int) -> None:
    with contextlib.suppress(OSError), socket.socket(fileno=descriptor) as sock:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        finally:
            sock.detach()


def _in_schema(engine: Engine) -> Engine:
    return engine.execution_options(schema_translate_map={None: SCHEMA})


def _code(error: exc.DBAPIError) -> str:
    return getattr(error.orig, "sqlstate", None) or ""


def _is_away(error: exc.DBAPIError) -> bool:
    """Whether it is the way to the server, or the server's state, and trying again helps."""
    code = _code(error)
    return (
        error.connection_invalidated or (not code and isinstance(error, exc.OperationalError)) or code.startswith(_AWAY)
    )
