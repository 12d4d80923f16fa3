"""Mutations of files that are no texts: SQLite, zip archives, arrays, Parquet and ONNX."""

from __future__ import annotations

import hashlib
import io
import json
import random
import sqlite3
import tempfile
import zipfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from int8tune.results.codec import checksum
from int8tune.results.schema import metadata
from tests.fuzz.texts import changed_bytes, changed_json

_ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
_STATEMENTS = (
    "CREATE TABLE extra (x)",
    "CREATE TRIGGER t AFTER INSERT ON campaigns BEGIN DELETE FROM trials; END",
    "CREATE INDEX i ON {table} (abs(id))",
    "CREATE VIRTUAL TABLE v USING fts3(x)",
    "ALTER TABLE {table} ADD COLUMN more TEXT",
    "ALTER TABLE {table} RENAME COLUMN {column} TO other",
    "ALTER TABLE {table} DROP COLUMN {column}",
    "DROP TABLE {table}",
    "DROP TABLE {table}; CREATE VIEW {table} AS " + _ENDLESS + " SELECT {columns} FROM n",
    "DROP TABLE {table}; CREATE VIEW {table} AS SELECT {columns} FROM {table}",
    "DROP TABLE {table}; CREATE TABLE {table} ({columns_bare})",
    "PRAGMA user_version={number}",
    "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql=replace(sql, 'NOT NULL', '')",
    "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET rootpage={number} WHERE name='{table}'",
)
_ODD: Sequence[Any] = (
    None,
    0,
    -1,
    2**62,
    1.5,
    float("inf"),
    "",
    "x",
    "[]",
    "{}",
    "null",
    "[1]",
    b"\xff\x00",
    "\x1b[2J",
)


def changed_schema(data: bytes, rng: random.Random) -> bytes:
    """Tables that are others, or views, triggers and the like beside them."""
    table = rng.choice(list(metadata.tables.values()))
    columns = [column.name for column in table.columns]
    statement = rng.choice(_STATEMENTS).format(
        table=table.name,
        column=rng.choice(columns),
        columns=", ".join(f"x AS {name}" for name in columns),
        columns_bare=", ".join(columns),
        number=rng.choice([0, 1, 3, 5, 1000]),
    )
    return _edited(data, lambda connection: connection.executescript(statement))


def changed_row(data: bytes, rng: random.Random) -> bytes:
    """A value of a row, or a place in its JSON, and a checksum that is right again."""

    def edit(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA ignore_check_constraints=ON")
        connection.row_factory = sqlite3.Row
        table = rng.choice(list(metadata.tables.values()))
        rows = [dict(row) for row in connection.execute(f"SELECT * FROM {table.name}")]
        if not rows:
            return
        row = rng.choice(rows)
        name = rng.choice([column for column in row if column not in ("id", "checksum")])
        row[name] = _odd(row[name], rng)
        if "checksum" in row:
            row["checksum"] = _checksum(table, row)
        if name == "content" and isinstance(row[name], str):
            row["digest"] = hashlib.sha256(row[name].encode("utf-8", "replace")).hexdigest()
        places = ", ".join(f"{column} = :{column}" for column in row)
        connection.execute(f"UPDATE {table.name} SET {places} WHERE id = :id", row)
        connection.commit()

    return _edited(data, edit)


def changed_archive(data: bytes, rng: random.Random) -> bytes:
    """A bundle with another manifest, whose sha256 is right, or with other files."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    names = [name for name in contents if name != "manifest.json"]
    match rng.randrange(8):
        case 0:
            manifest = json.loads(contents["manifest.json"])
            manifest["files"][rng.choice(names)]["size_bytes"] = rng.choice([0, 2**20, 2**32, 2**33])
            contents["manifest.json"] = json.dumps(manifest).encode()
            contents[rng.choice(names)] = bytes(rng.choice([0, 0, 1 << 20, 1 << 27]))
        case 1:
            contents |= {f"files/{n}": b"" for n in range(rng.choice([1, 1, 30_000]))}
        case _:
            contents["manifest.json"] = changed_json(contents["manifest.json"], rng)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
        archive.comment = hashlib.sha256(contents["manifest.json"]).hexdigest().encode()
    return made.getvalue()


def changed_array(data: bytes, rng: random.Random) -> bytes:
    """An array's header, in the file itself or in an archive."""
    if data[:2] != b"PK":
        return _with_header(data, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(contents))
    contents[name] = rng.choice([_with_header(contents[name], rng), changed_bytes(contents[name], rng)])
    if rng.random() < 0.03:
        contents[name] = _header("|u1", (1 << 28, 4)) + bytes(1 << 27)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for each, content in contents.items():
            archive.writestr(each, content)
    return made.getvalue()


def changed_parquet(data: bytes, rng: random.Random) -> bytes:
    """A table with other columns, types and values, or very many rows of one."""
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(io.BytesIO(data))
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    name, rows = rng.choice(list(columns)), table.num_rows
    odd = (None, -1, 1.5, "x", "[]", "{" * 5000, '{"a": [1]}', "y" * (1 << 20), b"\xff", [1], {"a": 1}, float("nan"), 0)
    match rng.choice([0, 1, 1, 1, 1, 2, 3]):
        case 0:
            del columns[name]
        case 1:
            columns[name] = [rng.choice(odd)] * rows
        case 2:
            many = rng.choice([100_000, 3_000_000])
            columns = {each: pyarrow.repeat(pyarrow.scalar(values[0]), many) for each, values in columns.items()}
        case _:
            long = pyarrow.repeat(pyarrow.scalar("z" * (1 << 20)), 1000)
            columns = {each: pyarrow.repeat(pyarrow.scalar(values[0]), 1000) for each, values in columns.items()}
            columns["config"] = long
    made = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), made, compression="zstd")
    return made.getvalue()


def changed_onnx(data: bytes, rng: random.Random) -> bytes:
    """Fields of a model's messages: dropped, repeated, of other numbers and texts."""
    import onnx

    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        message, field = rng.choice(list(_fields(model)))
        _change_field(message, field, rng)
    changed: bytes = model.SerializeToString()
    return changed


def _fields(message: Any) -> Any:
    for field, value in message.ListFields():
        yield message, field
        if field.message_type:
            for child in value if field.is_repeated else (value,):
                yield from _fields(child)


def _change_field(message: Any, field: Any, rng: random.Random) -> None:
    integers = [-1, 0, 1, 2, 7, 1 << 20, (1 << 31) - 1]
    odd: Any = rng.choice(integers)
    if field.cpp_type == field.CPPTYPE_STRING:
        odd = rng.choice(["", "x", "Conv", "Reshape", "é" * 1000])
        odd = odd.encode() if field.type == field.TYPE_BYTES else odd
    values = getattr(message, field.name)
    if field.message_type or rng.random() < 0.2:
        if field.is_repeated and rng.random() < 0.7:
            value = rng.choice(list(values))
            values.extend([value] * rng.choice([1, 2000])) if rng.random() < 0.5 else values.remove(value)
        else:
            message.ClearField(field.name)
    elif field.is_repeated:
        values[rng.randrange(len(values))] = odd
        values.extend([odd] * rng.choice([0, 1, 10]))
    else:
        setattr(message, field.name, odd)


def _odd(value: object, rng: random.Random) -> object:
    if isinstance(value, str) and value[:1] in ("{", "[") and rng.random() < 0.7:
        return changed_json(value.encode(), rng).decode()
    if rng.random() < 0.1:
        return "x" * rng.choice([100_000, 40 << 20])
    return rng.choice(_ODD)


def _checksum(table: Any, row: dict[str, Any]) -> int:
    try:
        return checksum(table, row)
    except TypeError:  # bytes have none
        return 0


def _edited(data: bytes, edit: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.db"
        path.write_bytes(data)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
            try:
                edit(connection)
            except sqlite3.Error:
                return changed_bytes(data, random.Random(len(data)))
        return path.read_bytes()


def _with_header(data: bytes, rng: random.Random) -> bytes:
    length = int.from_bytes(data[8:10], "little")
    shape: Any = rng.choice(
        [(), (0,), (-1, 4), (10**12, 0), (1 << 40, 4), (2, 2**70), (True,), "ab", [2], ((2,),), (1.5,)]
    )
    kind = rng.choice(["|u1", "<f4", "|O", "<U4", "|V99999999", "x", ">i8", "<c16", "<M8[s]", 1, [("a", "<i4")]])
    header = _header(kind, shape, rng.random() < 0.5)
    deep = b"(" * 3000 + b")" * 3000
    return (
        rng.choice([header, _packed(deep), header[:10] + b"{", _packed(data[10 : 10 + length])]) + data[10 + length :]
    )


def _header(kind: Any, shape: Any, is_fortran: bool = False) -> bytes:
    return _packed(repr({"descr": kind, "fortran_order": is_fortran, "shape": shape}).encode())


def _packed(header: bytes) -> bytes:
    text = header.ljust(118 if len(header) < 118 else len(header)) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
