"""A results file as SQLite sees it: opening, checking, creating, and what SQLite's errors mean."""

from __future__ import annotations

import functools
import itertools
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, Table, create_engine, event, exc
from sqlalchemy.dialects import sqlite
from sqlalchemy.pool import NullPool, StaticPool
from sqlalchemy.schema import CreateIndex, CreateTable, DDLElement

from int8tune.results.atomic import sync_folder
from int8tune.results.errors import ForeignStoreError, NewerSchemaError, NotOwnFileError, StoreError, StoreWriteError
from int8tune.results.own_files import require_own
from int8tune.results.schema import APPLICATION_ID, SCHEMA_VERSION, SINCE, create_missing, metadata
from int8tune.results.text import one_line

# How long a statement waits for another process, such as a reader that repairs the log after a crash.
BUSY_LIMIT_S = 10.0

MAGIC = b"SQLite format 3\x00"
# What SQLite keeps beside a file; it follows links of these names, and empties and removes what it finds.
_BESIDE = ("-journal", "-wal", "-shm")

# What SQLite itself adds to a file.
_INTERNAL = "sqlite_"
# The longest row, or value. An environment and a campaign's name are read with each of their trials.
LONGEST_BYTES = 16 << 20
_LONGEST_JOINED = {"environments.content": 1 << 16, "campaigns.name": 1 << 10}
# Steps of SQLite's machine that a query may take; by far the most of an honest file take less than one a byte.
_STEPS, _STEPS_PER_BYTE, _STEPS_AT_ONCE = 20_000_000, 20, 100_000

# Primary result codes, https://www.sqlite.org/rescode.html; the low byte of every extended code.
_FOREIGN = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_NOMEM,
}
_CAUSES = {
    sqlite3.SQLITE_INTERRUPT: "it takes more steps to read than its size explains",
    sqlite3.SQLITE_TOOBIG: f"a value has over {LONGEST_BYTES} bytes",
}
_UNWRITABLE = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
}


def require_file(path: Path, *, readonly: bool) -> bool:
    """Refuse, before SQLite sees it, what can't be a results file. Return whether there is any content to check.

    Raises:
        StoreError: a folder, a device, an unreadable file; a missing one, or nowhere to make it.
        ForeignStoreError: a file of another format; a link where SQLite has a file of its own beside it.
    """
    _require_own_beside(path)
    if not path.exists():
        if readonly:
            raise StoreError(f"no such results file: {path}")
        if not path.parent.is_dir():
            raise StoreError(f"no such folder: {path.parent}")
        return False
    if path.is_dir():
        raise StoreError(f"the results file is a folder: {path}")
    if not path.is_file():
        raise StoreError(f"the results file is not a regular file: {path}")
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
    except OSError as error:
        raise StoreError(f"the results file can't be read ({error.strerror}): {path}") from error
    if head and head != MAGIC:
        raise ForeignStoreError(f"not a results file (it starts with {head!r}): {path}")
    if not head and readonly:
        raise ForeignStoreError(f"not a results file (it is empty): {path}")
    return bool(head)


def resolved(path: Path, *, readonly: bool) -> Path:
    """The file that a path leads to: a results file may have several names, and has one lock.

    Raises:
        ForeignStoreError: the path is a link to a file that is empty or not there, and one would be made.
    """
    target = path.resolve()
    if path.is_symlink() and not readonly and not (target.exists() and target.stat().st_size):
        raise ForeignStoreError(f"a symbolic link that leads to no results file: {path}")
    return target


def writer_engine(path: Path) -> Engine:
    """An engine with one connection, which commits durably: WAL, and a sync of the log in every commit."""
    engine = create_engine("sqlite://", creator=lambda: _connect(path, "rwc"), poolclass=StaticPool)

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: object) -> None:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def reader_engine(path: Path) -> Engine:
    """An engine whose connections can't write. Each is a snapshot of its own and works beside a writer."""
    # Without a log there is nothing to replay, and a folder that can't be written has no place for the log's index.
    still = not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists()
    mode = "ro&immutable=1" if still else "ro"

    def connect() -> sqlite3.Connection:
        connection = _connect(path, mode)
        _limit_steps(connection, path)
        return connection

    return create_engine("sqlite://", creator=connect, poolclass=NullPool)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_LIMIT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.execute("PRAGMA trusted_schema=OFF")
    return connection


def _limit_steps(connection: sqlite3.Connection, path: Path) -> None:
    """Interrupt what takes more steps from now on than the file's size explains."""
    files = (path, path.with_name(f"{path.name}-wal"))
    size_bytes = sum(file.stat().st_size for file in files if file.exists())
    left = itertools.count((_STEPS + _STEPS_PER_BYTE * size_bytes) // _STEPS_AT_ONCE, -1)
    connection.set_progress_handler(lambda: next(left) <= 0, _STEPS_AT_ONCE)


def check(path: Path) -> None:
    """Check whose file it is, its version and that it is whole, without changing a byte of it.

    Raises:
        ForeignStoreError: it belongs to another program, or is damaged.
        NewerSchemaError: it was written by a newer version of this program.
        StoreError: it can't be read.
    """
    with translated(path), reader_engine(path).connect() as connection:
        _require_ours(connection, path)
        _require_schema(connection, path)
        found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
        if found != "ok":
            raise ForeignStoreError(f"the results file is damaged ({one_line(found)}): {path}")
        _require_short(connection, path)


def create(path: Path) -> None:
    """Make a new file with empty tables; there is a whole one or none, whenever this is killed. Needs the writer lock.

    Raises:
        StoreWriteError: it could not be written.
    """
    draft = path.with_name(f"{path.name}.new")
    try:
        _remove(draft)
        with translated(path):
            _create_tables(draft)
        draft.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise StoreWriteError(f"the results file can't be written ({error.strerror}): {path}") from error
    finally:
        _remove(draft)


def upgrade(connection: Connection) -> None:
    """Give a file of an older schema version the tables and indices that it does not have, within a transaction."""
    if _pragma(connection, "user_version") < SCHEMA_VERSION:
        create_missing(connection)
        connection.exec_driver_sql(f"PRAGMA user_version={SCHEMA_VERSION}")


def has_table(connection: Connection, table: Table) -> bool:
    """Whether a file of this schema version has the table."""
    return _pragma(connection, "user_version") >= int(table.info.get(SINCE, 1))


def _create_tables(path: Path) -> None:
    engine = writer_engine(path)
    try:
        with engine.begin() as connection:
            metadata.create_all(connection)
            connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
            connection.exec_driver_sql(f"PRAGMA user_version={SCHEMA_VERSION}")
    finally:
        # Closing the last connection moves the log into the file and removes it.
        engine.dispose()


def _require_own_beside(path: Path) -> None:
    for suffix in _BESIDE:
        beside = path.with_name(f"{path.name}{suffix}")
        try:
            require_own(beside)
        except NotOwnFileError as error:
            raise ForeignStoreError(f"{error.strerror}: {beside}") from error


def _remove(path: Path) -> None:
    for suffix in ("", *_BESIDE):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


def _require_ours(connection: Connection, path: Path) -> None:
    application = _pragma(connection, "application_id")
    if application != APPLICATION_ID:
        raise ForeignStoreError(f"the SQLite file of another program (application id {application:#x}): {path}")
    version = _pragma(connection, "user_version")
    if version > SCHEMA_VERSION:
        known = f"schema {version}, this one knows up to {SCHEMA_VERSION}"
        raise NewerSchemaError(f"written by a newer version of this program ({known}): {path}")
    if version < 1:
        raise ForeignStoreError(f"the results file is damaged (schema {version}): {path}")


def _require_schema(connection: Connection, path: Path) -> None:
    """Nothing is asked of a file that has anything else than this program's tables: a view may be endless."""
    known = _definitions()
    version = _pragma(connection, "user_version")
    missing = {table.name for table in metadata.tables.values() if int(table.info.get(SINCE, 1)) <= version}
    for kind, name, sql in connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_schema"):
        if str(name).startswith(_INTERNAL) and kind in ("table", "index"):
            continue
        if _bare(str(sql)) != known.get(name):
            raise ForeignStoreError(f"the results file has a {kind} that is not this program's ({name!a:.80}): {path}")
        missing.discard(name)
    if missing:
        raise ForeignStoreError(f"the results file is damaged (it lacks the table {min(missing)}): {path}")


@functools.cache
def _definitions() -> Mapping[str, str]:
    """How each table and index is made, by name."""
    made: list[tuple[str, DDLElement]] = [(table.name, CreateTable(table)) for table in metadata.tables.values()]
    indexes = [index for table in metadata.tables.values() for index in table.indexes]
    made += [(str(index.name), CreateIndex(index)) for index in indexes]
    return {name: _bare(str(element.compile(dialect=sqlite.dialect()))) for name, element in made}


def _bare(sql: str) -> str:
    """A definition without what SQLAlchemy's versions may write otherwise."""
    return "".join(sql.replace('"', "").split())


def _require_short(connection: Connection, path: Path) -> None:
    for column, most in _LONGEST_JOINED.items():
        table, name = column.split(".")
        length = f"SELECT max(length(CAST({name} AS BLOB))) FROM {table}"
        longest = connection.exec_driver_sql(length).scalar() or 0
        if longest > most:
            raise ForeignStoreError(f"the results file is damaged ({column} has over {most} bytes: {longest}): {path}")


def _pragma(connection: Connection, name: str) -> int:
    return int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise what SQLite reports as this package's errors.

    Raises:
        ForeignStoreError: the file is damaged.
        StoreWriteError: no space, no permission, or a failing disk.
        StoreError: anything else, such as a file that another process keeps busy.
    """
    try:
        yield
    except exc.DBAPIError as error:
        raise _meaning(error.orig, path) from error
    except sqlite3.Error as error:
        raise _meaning(error, path) from error
    except UnicodeError as error:
        raise ForeignStoreError(f"the results file is damaged ({one_line(str(error))}): {path}") from error


def _meaning(error: BaseException | None, path: Path) -> StoreError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    cause = _CAUSES.get(code) or one_line(str(error))
    if code in _UNWRITABLE:
        return StoreWriteError(f"the results file can't be written ({cause}): {path}")
    if code in _FOREIGN:
        return ForeignStoreError(f"the results file is damaged ({cause}): {path}")
    return StoreError(f"the results file can't be used ({cause}): {path}")
