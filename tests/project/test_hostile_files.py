"""Files whose author wants a reader to hang, to crash or to fill the memory: each is refused in one line, and soon."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import struct
import time
import tracemalloc
import zipfile
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import LayerTableError, ModelError
from int8tune.compiler.files import read_file
from int8tune.compiler.graph import Value
from int8tune.compiler.tflite_reader.model import read_tflite
from int8tune.results.best_log import read_best_log
from int8tune.results.bounded_json import MOST_DEPTH, parse_json, read_json
from int8tune.results.codec import checksum
from int8tune.results.errors import BestLogError, ForeignStoreError, NotOwnFileError, StoreLockedError
from int8tune.results.metaschedule import RECORDS
from int8tune.results.record import Campaign, Trial
from int8tune.results.schema import metadata
from int8tune.results.store import SqliteStore
from int8tune.results.typed_json import MOST_FAULTS as MOST_TYPED_FAULTS
from int8tune.results.typed_json import from_json
from int8tune.rpc.bundle.archive import open_bundle
from int8tune.rpc.errors import BundleError, InventoryError, JournalError
from int8tune.rpc.farm.journal import JournalFile
from int8tune.rpc.farm.simulation.scenario import Work, simulate
from int8tune.rpc.inventory.file import read_inventory
from int8tune.rpc.wire.npy import read_npy
from int8tune.tuner.bundles.merge import MOST_FAULTS, merge
from int8tune.tuner.errors import CampaignError, RecordingError, SamplesError
from int8tune.tuner.lab.metaschedule import read_database
from int8tune.tuner.models.arrays import read_samples
from tests.fuzz import samples

DEEP = "[" * 900 + "]" * 900
# Of the processor; none of these takes a tenth of it.
SOON_S = 10.0


@pytest.fixture(autouse=True)
def _soon() -> Any:
    began = time.process_time()
    yield
    assert time.process_time() - began < SOON_S


# JSON


@pytest.mark.parametrize("opened", ["[", '{"a":'])
def test_nesting_has_a_limit(opened: str) -> None:
    closed = "]" if opened == "[" else "}"
    assert parse_json(opened * MOST_DEPTH + "1" + closed * MOST_DEPTH)
    for depth in (MOST_DEPTH + 1, 900, 200_000):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_json(opened * depth + "1" + closed * depth)


def test_brackets_in_texts_do_not_count() -> None:
    assert parse_json(json.dumps({"a": "[" * 1000, '\\"{': "]" * 1000}))
    assert parse_json(json.dumps(["[,]"] * 1000), most_values=1001)


@pytest.mark.parametrize("text", ["[" * 100, '"' + '\\"' * 100_000, "]" * 100, "[}" * 100, '["\\'])
def test_what_is_no_json_is_said_so(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        parse_json(text)


def test_values_and_bytes_have_a_limit() -> None:
    with pytest.raises(ValueError, match="at most 1000 values: 1500"):
        parse_json("[" + ",".join(["[]"] * 750) + "]", most_values=1000)
    with pytest.raises(ValueError, match="at most 10 bytes: 12"):
        parse_json(b"[1,1,1,1,11]", most_bytes=10)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 309, "1" + "0" * 400 + ".0"])
def test_every_number_is_one_of_a_float(text: str) -> None:
    with pytest.raises(ValueError, match="number"):
        parse_json(f'{{"a": {text}}}')
    assert math.isfinite(float(parse_json("9" * 308)))


def test_names_that_are_there_twice_are_found_at_once() -> None:
    names = ", ".join(f'"{number}": 1' for number in range(60_000))
    with pytest.raises(ValueError, match='there twice: "7"'):
        parse_json(f'{{{names}, "7": 1}}')


def test_a_file_is_not_waited_for(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a file"):
        read_json(Path("/dev/zero"))
    (tmp_path / "a").write_bytes(b"1" * 100)
    with pytest.raises(ValueError, match="at most 10 bytes"):
        read_json(tmp_path / "a", most_bytes=10)


@pytest.mark.parametrize("value", [True, 1.5, "1", None, 2**63, [1], {}])
def test_types_are_what_they_are(value: object) -> None:
    with pytest.raises(ValueError, match=r"a\[0\]: must be an integer"):
        from_json(dict[str, tuple[int, ...]], {"a": [value]})


def test_faults_of_a_table_are_counted_and_not_all_told() -> None:
    names = ", ".join(f'"x{number}": 1' for number in range(60_000))
    from int8tune.compiler.network_file import read_table

    with pytest.raises(LayerTableError) as caught:
        read_table(f"{{{names}}}".encode(), "t.json")
    assert len(caught.value.faults) <= MOST_TYPED_FAULTS + 1
    assert any("59980 more unknown fields" in fault for fault in caught.value.faults)
    with pytest.raises(LayerTableError, match="nested too deeply"):
        read_table(DEEP.encode(), "t.json")


def test_tensors_of_one_long_name_or_one_constant() -> None:
    """A file of a megabyte that has a gigabyte of names and values."""
    tflite_models = pytest.importorskip("tests.support.models.tflite_models")
    pytest.importorskip("tflite", reason="needs the extra `models`")

    for name, text in (("name", "\x01" * (1 << 20)), ("constant", "x")):
        writer = tflite_models.Writer()
        data = writer.input("x", "u8", (1, 4), 0.5)
        shared = writer.constant(text, "u8", np.zeros((1, 1 << 20)), 0.5)
        copies = [writer.tensor(f"t{number}", "u8", (1, 1 << 20), 0.5) for number in range(1000)]
        for copy in copies:
            writer.tensors[copy].buffer = writer.tensors[shared].buffer
        made = writer.tensor("y", "u8", (1, 4), 0.5)
        writer.operator("RELU", [data, *copies], [made])
        with pytest.raises(ModelError, match="must have at most" if name == "name" else "share data"):
            read_tflite(writer.model(made), "m")


def test_a_small_model_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"x" * 1000)
    tracemalloc.start()
    try:
        assert len(read_file(path, "a model", 1 << 31, ModelError)) == 1000
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


# Best logs


@pytest.mark.parametrize("names", ["{n}", "x"], ids=["different", "same"])
def test_a_best_log_with_very_many_names(tmp_path: Path, names: str) -> None:
    members = ", ".join(f'"{names.format(n=number)}": 1' for number in range(60_000))
    path = tmp_path / "best.jsonl"
    path.write_text(f'{{"int8tune_best_log": 1}}\n{{{members}, "0": 2}}\n')
    with pytest.raises(BestLogError) as caught:
        read_best_log(path)
    assert len(caught.value.faults) < 50


def test_a_best_log_of_empty_lines(tmp_path: Path) -> None:
    path = tmp_path / "best.jsonl"
    path.write_bytes(b'{"int8tune_best_log": 1}\n' + b"\n" * (10 << 20))
    with pytest.raises(BestLogError, match="more than 100 faults"):
        read_best_log(path)


# Records


def _records(tmp_path: Path, *statements: str) -> Path:
    samples.records(tmp_path)
    path = tmp_path / "records.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def _set(path: Path, table: str, **values: object) -> None:
    """Change a row; its checksum is right again."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        row = dict(connection.execute(f"SELECT * FROM {table} LIMIT 1").fetchone()) | values
        row["checksum"] = checksum(metadata.tables[table], row)
        connection.execute("PRAGMA ignore_check_constraints=ON")
        connection.execute(f"UPDATE {table} SET {', '.join(f'{name} = :{name}' for name in row)} WHERE id = :id", row)


@pytest.mark.parametrize("table", list(metadata.tables))
def test_a_view_in_place_of_a_table(tmp_path: Path, table: str) -> None:
    columns = ", ".join(f"x AS {column.name}" for column in metadata.tables[table].columns)
    endless = f"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT {columns} FROM n"
    path = _records(tmp_path, f"DROP TABLE {table}", f"CREATE VIEW {table} AS {endless}")
    with pytest.raises(ForeignStoreError, match="has a view that is not this program's"):
        SqliteStore(path, readonly=True)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON campaigns BEGIN DELETE FROM trials; END",
        "CREATE INDEX i ON trials (abs(id))",
        "CREATE TABLE extra (x)",
        "DROP TABLE duels",
        "ALTER TABLE trials ADD COLUMN more TEXT",
    ],
)
def test_a_results_file_has_this_programs_tables(tmp_path: Path, statement: str) -> None:
    with pytest.raises(ForeignStoreError):
        SqliteStore(_records(tmp_path, statement))


@pytest.mark.parametrize(
    ("table", "values", "what"),
    [
        ("trials", {"config": f'{{"a": {DEEP}}}'}, "nested too deeply"),
        ("trials", {"config": "[1]"}, "must be an object"),
        ("trials", {"times_s": "[true]"}, "must be a finite number"),
        ("trials", {"times_s": "[" + "9" * 400 + "]"}, "too many digits"),
        ("trials", {"observed": '{"a": "b"}'}, "must be a finite number"),
        ("trials", {"sequence": "x"}, "sequence must be int"),
        ("trials", {"outcome": "x" * 100_000}, "row 1 of trials: 'xxx"),
        ("campaigns", {"layers": '{"a": [[]]}'}, "must be an integer"),
        ("campaigns", {"seed": "9" * 5000}, "at most 1000 digits"),
    ],
)
def test_a_row_that_holds_something_else(tmp_path: Path, table: str, values: dict[str, object], what: str) -> None:
    path = _records(tmp_path)
    _set(path, table, **values)
    with SqliteStore(path, readonly=True) as store, pytest.raises(ForeignStoreError, match=what) as caught:
        list(store.query(Trial if table == "trials" else Campaign))
    assert len(str(caught.value)) < 1000


@pytest.mark.thorough
def test_a_text_of_hundreds_of_megabytes(tmp_path: Path) -> None:
    path = _records(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE trials SET error = CAST(zeroblob(200000000) AS TEXT) WHERE id = 1")
    with (
        pytest.raises(ForeignStoreError, match="a value has over 16777216 bytes"),
        SqliteStore(path, readonly=True) as store,
    ):
        list(store.query(Trial))


def test_an_environment_is_short_as_every_trial_is_read_with_it(tmp_path: Path) -> None:
    path = _records(tmp_path, "UPDATE environments SET content = hex(zeroblob(100000))")
    with pytest.raises(ForeignStoreError, match=r"environments.content has over 65536 bytes: 200000"):
        SqliteStore(path, readonly=True)


def test_a_name_in_a_results_file_that_is_no_text(tmp_path: Path) -> None:
    path = _records(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"device_checks", b"device_ch\xff\xffks"))
    with pytest.raises(ForeignStoreError):
        SqliteStore(path, readonly=True)


@pytest.mark.parametrize("holder", ["[" * 4000, '{"host": "x", "pid": 1e999, "since": "y"}'])
def test_the_lock_of_a_results_file_may_say_anything(tmp_path: Path, holder: str) -> None:
    path = _records(tmp_path)
    with SqliteStore(path):
        path.with_name("records.db.lock").write_text(holder)
        with pytest.raises(StoreLockedError):
            SqliteStore(path)


# TOML

MANY = 300_000


@pytest.mark.parametrize(
    "text",
    [
        "a." * MANY + "a = 1",
        f"[{'a.' * MANY}a]",
        f"[a{' ' * MANY} . b]",
        f'x = [\n["{"a." * MANY}"]\n]',
        f"x = [\n['a{' ' * MANY}', 1]\n]",
        "\n".join(f"x{number} = 1" for number in range(60_000)),
    ],
    ids=["key", "header", "blanks", "text", "list", "names"],
)
def test_an_inventory_takes_no_square_of_its_length(tmp_path: Path, text: str) -> None:
    path = tmp_path / "farm.toml"
    path.write_text(text)
    with pytest.raises(InventoryError) as caught:
        read_inventory(path)
    assert len(str(caught.value)) < 20_000


@pytest.mark.parametrize("value", ["0x" + "f" * 9000, "[0x" + "f" * 9000 + "]", "1" + "0" * 400])
@pytest.mark.parametrize("name", ["port", "cooldown_s", "name", "cores"])
def test_an_inventory_with_huge_numbers(tmp_path: Path, name: str, value: str) -> None:
    path = tmp_path / "farm.toml"
    path.write_text(f"[[boards]]\n{name} = {value}\n")
    with pytest.raises(InventoryError, match=rf"boards\[0\].{name}: (item 0 )?must be"):
        read_inventory(path)


@pytest.mark.parametrize(
    ("simulation", "what"), [("crash_per_h = 1e6", "at most 1,000,000 faults"), ("zzz = 1", "zzz")]
)
def test_a_simulated_farm_has_so_many_faults(tmp_path: Path, simulation: str, what: str) -> None:
    path = tmp_path / "farm.toml"
    board = '[[boards]]\nname = "b{}"\ntransport = "simulated"\ntarget = "generic"\nsimulation = {{ {} }}\n'
    path.write_text("".join(board.format(number, simulation) for number in range(50)))
    with pytest.raises(InventoryError, match=what) as caught:
        simulate(read_inventory(path), Work(trials=10))
    assert len(str(caught.value).splitlines()) < 25


# Journals, bundles and their results


def _line(value: object) -> bytes:
    text = json.dumps(value).encode() if not isinstance(value, bytes) else value
    return b"%08x %s\n" % (zlib.crc32(text), text)


@pytest.mark.parametrize(
    "value",
    [
        {"entries": [{"kind": "Calibrated", "board": "a", "seconds": "x"}], "replies": []},
        {"entries": [{"kind": ["Calibrated"]}], "replies": []},
        {"entries": [{"kind": "Submitted", "trial": {"id": [], "campaign": "c", "target": "t"}}], "replies": []},
        {"entries": [], "replies": [[{}, 1, {}]]},
        {"entries": {}, "replies": []},
        {"entries": [{"kind": "a" * 70_000}], "replies": []},
        DEEP.encode(),
    ],
)
def test_a_journal_with_other_values(tmp_path: Path, value: object) -> None:
    path = tmp_path / "farm.journal"
    path.write_bytes(_line(value))
    with pytest.raises(JournalError) as caught:
        JournalFile(path)
    assert len(str(caught.value)) < 1000


@pytest.mark.thorough
def test_results_of_a_bundle_with_ten_megabytes_of_junk(tmp_path: Path) -> None:
    samples.bundle_results(tmp_path)
    path = tmp_path / "b.results"
    path.write_bytes(path.read_bytes() + b"junk\n" * (1 << 20))
    merged = merge(tmp_path, path)
    assert merged.taken + merged.known == 3
    assert len(merged.faults) == MOST_FAULTS
    assert merged.more_faults == (1 << 20) - MOST_FAULTS


@pytest.mark.parametrize("candidates", [0, 1, 3])
def test_a_results_folder_that_remembers_other_duels_than_the_bundle(tmp_path: Path, candidates: int) -> None:
    name = samples.bundle(tmp_path)
    samples.bundle_results(tmp_path)
    path = tmp_path / "c1.bundles" / f"{name}.json"
    value = json.loads(path.read_text())
    value["asked"]["duels"]["candidates"] = (value["asked"]["duels"]["candidates"] * 2)[:candidates]
    path.write_text(json.dumps(value))
    with pytest.raises(CampaignError, match="can't be read"):
        merge(tmp_path, tmp_path / "b.results")


def test_a_bundle_with_a_directory_of_millions_of_names(tmp_path: Path) -> None:
    path = tmp_path / "b.pyz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "")
    data = path.read_bytes()
    start = data.rindex(b"PK\x05\x06")
    size = 17 << 20
    end = bytearray(data[start:])
    end[12:20] = struct.pack("<II", size, 0)
    path.write_bytes(bytes(size) + bytes(end))
    with pytest.raises(BundleError, match="its directory must have at most"):
        open_bundle(path)


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    samples.database(tmp_path)
    for name in ("farm.journal", "database", RECORDS):
        (tmp_path / name).unlink(missing_ok=True)
        os.mkfifo(tmp_path / name)
    with pytest.raises(NotOwnFileError, match="no file is where"):
        JournalFile(tmp_path / "farm.journal")
    with pytest.raises(RecordingError, match="is no file"):
        read_database(tmp_path)
    with pytest.raises(SamplesError, match="not a file"):
        read_samples(tmp_path / "database", [Value("x", (4,), "u8")])


# Arrays, recordings and databases


def _npy(path: Path, shape: str, content: bytes = b"", kind: str = "|u1", fortran: bool = False) -> Path:
    header = f"{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': {shape}}}".encode() + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content)
    return path


@pytest.mark.parametrize(
    ("shape", "content"), [("()", b"1"), ("(1000000000000, 0)", b""), ("(3, 0, 4)", b"")], ids=["one", "none", "rows"]
)
def test_a_case_by_columns_of_no_rows(tmp_path: Path, shape: str, content: bytes) -> None:
    assert len(read_npy(str(_npy(tmp_path / "a.npy", shape, content, fortran=True))).content) == len(content)


@pytest.mark.parametrize("name", ["s.npy", "s.npz"])
@pytest.mark.parametrize("shape", ["(1000000000, 4)", "(1099511627776, 0)", "(-1, 4)", "(2, 170141183460469231731687)"])
def test_samples_that_say_they_are_huge(tmp_path: Path, shape: str, name: str) -> None:
    path = _npy(tmp_path / "x.npy", shape)
    if name == "s.npz":
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.write(path, "x.npy")
    else:
        path.rename(tmp_path / name)
    with pytest.raises(SamplesError):
        read_samples(tmp_path / name, [Value("x", (4,), "u8")])


def test_samples_are_read_as_numpy_wrote_them(tmp_path: Path) -> None:
    samples.samples(tmp_path)
    for name in ("s.npy", "f.npy", "s.npz"):
        (array,) = read_samples(tmp_path / name, [Value("x", (4,), "u8")])
        np.testing.assert_array_equal(array, np.zeros((5, 4), np.uint8))


def test_samples_with_a_header_that_no_parser_takes(tmp_path: Path) -> None:
    path = _npy(tmp_path / "s.npy", "(5, 4), } \xad {@", bytes(20))
    with pytest.raises(SamplesError):
        read_samples(path, [Value("x", (4,), "u8")])


@pytest.mark.parametrize("many", [2_000_000, 300], ids=["rows", "texts"])
def test_a_small_recording_of_a_huge_table(tmp_path: Path, many: int) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra `lab`")
    pytest.importorskip("pandas", reason="needs the extra `lab`")
    from pyarrow import parquet

    from int8tune.tuner.lab.recording import COLUMNS, read_recording

    values = ("t", "w", "x", 1, "{}" if many > 10**6 else "z" * (1 << 20), "ok", 1e-3)
    columns = {name: pyarrow.repeat(pyarrow.scalar(value), many) for name, value in zip(COLUMNS, values, strict=True)}
    columns["config"] = pyarrow.DictionaryArray.from_arrays(np.zeros(many, np.int32), [values[4]])
    parquet.write_table(pyarrow.table(columns), tmp_path / "lab.parquet", compression="zstd")
    assert (tmp_path / "lab.parquet").stat().st_size < 1 << 20
    with pytest.raises(RecordingError, match=r"more rows|a text has at most"):
        read_recording(tmp_path / "lab.parquet")


@pytest.mark.parametrize("line", [DEEP, "1" * 20_000, f"[0, [[[], [[0, {'9' * 400}]]], [1e-3], 1, []]]"])
def test_a_database_with_hostile_lines(tmp_path: Path, line: str) -> None:
    samples.database(tmp_path)
    (tmp_path / RECORDS).write_text(line)
    with pytest.raises(RecordingError):
        read_database(tmp_path)
