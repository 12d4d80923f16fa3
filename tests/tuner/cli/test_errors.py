"""What the program says when something is wrong: one clear line, what to type next, and nothing half-written."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from int8tune.results.store import SqliteStore
from int8tune.tuner.cli.program import run
from tests.support.places import TESTS
from tests.support.program.cli_program import CONV, Ended, in_process, int8tune, write_table
from tests.support.run.thinned import one_in

pytestmark = pytest.mark.promise(15)

EVIL = "\x1b]0;owned\x07\x9b31mred\u202e"


def assert_failed(ended: Ended, code: int, message: str) -> None:
    """One `error:` line that `message` matches, one `hint:` line, no traceback, no data."""
    lines = ended.err.splitlines()
    assert len(lines) == 2, ended.err
    assert re.fullmatch(rf"error: {message}", lines[0]), lines[0]
    assert lines[1].startswith("hint: ")
    assert ended.out == ""
    assert ended.code == code


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "small.json")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--trials 0", "trials per layer must be 1 to 1000000: 0"),
        ("--trials -1", "trials per layer must be 1 to 1000000: -1"),
        ("--trials abc", "--trials: not a whole number: abc"),
        ("--trials 1e99", "--trials: not a whole number: 1e99"),
        ("--seed -1", r"a seed must be 0 to 4294967295: -1"),
        ("--seed 4294967296", r"a seed must be 0 to 4294967295: 4294967296"),
        ("--time 0s", "a time limit must be 1 s to 30 days, in seconds: 0"),
        ("--time 0", "--time: a duration needs a unit, such as 90s, 5m or 1.5h: 0"),
        ("--time 10", "--time: a duration needs a unit, such as 90s, 5m or 1.5h: 10"),
        ("--time -1", "--time: a duration is a number with a unit, such as 90s, 5m or 1.5h: -1"),
        ("--time nan", "--time: a duration is a number with a unit, such as 90s, 5m or 1.5h: nan"),
        ("--time 9999h", "a time limit must be 1 s to 30 days, in seconds: .*"),
        ("--name a/b", "a campaign's name has 1 to 64 of the characters .*: 'a/b'"),
        ("--name ..", r"a campaign's name has 1 to 64 of the characters .*: '\.\.'"),
        ("--name=", "a campaign's name has 1 to 64 of the characters .*: ''"),
        ("--strategy best", "unknown search strategy `best`, known: xgboost, evolution, descent, random, grid"),
        ("--cache luke", "--cache: unknown cache mode `luke`, known: warm, cold, network"),
        ("--min-gain 1", "the smallest gain worth a batch must be a share from 0 to below 1: 1"),
        ("--min-gain=-0.1", "the smallest gain worth a batch must be a share from 0 to below 1: -0.1"),
        ("--min-gain 1%", "--min-gain: not a share of 1, such as 0.01: 1%"),
        ("--format xml", "--format: unknown format `xml`, known: table, json"),
        ("--tirals 3", "no such option: --tirals, did you mean --trials.*"),
        ("more", r"got unexpected extra argument\(s\) \(more\)"),
    ],
)
def test_what_was_typed_is_checked_first(
    table: Path, tmp_path: Path, options: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["tune", str(table), "--results", str(tmp_path / "results"), *options.split()])
    assert_failed(Ended(code, *capsys.readouterr()), 2, message)
    assert not (tmp_path / "results").exists()


def test_a_target_must_be_known(table: Path, tmp_path: Path) -> None:
    ended = in_process("tune", table, "--results", tmp_path / "results", "--target", "x87")
    assert_failed(
        ended,
        2,
        "unknown target `x87`, known: x86-amx, x86-avx512vnni, x86-avxvnni, x86-avx2, arm-dotprod, arm-neon, generic, "
        "cuda-sm75, cuda-sm80, cuda-sm86, cuda-sm89, cuda-sm90, cuda-sm100, cuda-sm120",
    )
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    one_in(
        3,
        [
            ("layers resnet5", "unknown network `resnet5`, did you mean `resnet50`. known: .*"),
            ("layers model.tflite", "a model must be a file, this is no such file: model.tflite"),
            ("tune model.tflite", "a model must be a file, this is no such file: model.tflite"),
            ("layers", "missing argument `NETWORK`"),
            ("templates show x86.cnv", "unknown template `x86.cnv`, did you mean `x86.conv`. known: .*"),
            ("templates show", "missing argument `NAME`"),
            (f"templates show x86.depthwise --workload {CONV}", f".*takes dwconv2d, not conv2d.*: {CONV}"),
            ("templates show generic.direct --workload conv2d-u8s8", "`conv2d-u8s8` is not a conv2d key.*"),
            ("results best --results nowhere", "no such results file: .*/nowhere/records.db"),
            ("results best --log nowhere.jsonl", "no such best log: nowhere.jsonl"),
            ("results best --log x --campaign y", "--log reads a file, --campaign is about the records.*"),
            ("tun resnet50", "no such command `tun`. Did you mean `tune`."),
        ],
    ),
)
def test_names_that_are_not_there(tmp_path: Path, words: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = in_process(*words.split())
    assert ended.code in (1, 2)
    assert_failed(ended, ended.code, message)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"name": "a", "count": 1}, r".*: layers\[0\].workload: missing"),
        ({"name": "a", "count": 0, "workload": CONV}, r".*: layers\[0\].count: must be an integer of 1 to 1000000: 0"),
        (
            {"name": "a", "count": 1, "workload": CONV.replace("k1x1", "k9x9")},
            r".*: layers\[0\].workload: .*: the window spans 9 rows, the padded image has only 8",
        ),
    ],
)
def test_a_table_with_a_fault_is_refused(tmp_path: Path, layer: dict[str, object], message: str) -> None:
    table = write_table(tmp_path / "table.json", [layer])
    assert_failed(in_process("tune", table, "--results", tmp_path / "results"), 1, message)
    assert not (tmp_path / "results").exists()


def test_every_fault_of_a_table_has_its_line(tmp_path: Path) -> None:
    table = write_table(tmp_path / "table.json", [{"name": "a", "count": 0, "workload": "x"}, {"name": "b"}])
    ended = in_process("layers", table)
    assert ended.code == 1
    assert len(ended.errors) == 4
    assert all(line.startswith(f"error: {table}: layers[") for line in ended.errors)


@pytest.mark.parametrize(
    "words",
    [
        ["layers", EVIL],
        ["layers", f"{EVIL}.json"],
        ["templates", "show", EVIL],
        ["tune", "resnet18", "--trials", EVIL],
        ["results", "best", "--results", EVIL],
        [EVIL],
    ],
)
def test_control_characters_never_reach_the_terminal(words: list[str]) -> None:
    ended = in_process(*words)
    assert ended.code in (1, 2)
    assert "owned" in ended.errors[0]
    assert all(line.isprintable() for line in ended.err.splitlines())


def test_a_results_folder_that_is_a_file(table: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    message = f"the results folder can't be made .there is a file of this name.: {file}"
    assert_failed(in_process("tune", table, "--results", file), 1, message)
    assert file.read_text() == "mine"


def test_records_of_another_program(table: Path, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "records.db") as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    before = (tmp_path / "records.db").read_bytes()
    ended = in_process("tune", table, "--results", tmp_path)
    assert_failed(ended, 1, f"the SQLite file of another program .*: {tmp_path}/records.db")
    assert (tmp_path / "records.db").read_bytes() == before


def test_records_of_a_newer_version(table: Path, tmp_path: Path) -> None:
    SqliteStore(tmp_path / "records.db").close()
    with sqlite3.connect(tmp_path / "records.db") as connection:
        connection.execute("PRAGMA user_version=99")
    ended = in_process("tune", table, "--results", tmp_path)
    assert_failed(ended, 1, f"written by a newer version of this program .schema 99.*: {tmp_path}/records.db")
    assert "pip install --upgrade" in ended.err


def test_damaged_records(table: Path, tmp_path: Path) -> None:
    SqliteStore(tmp_path / "records.db").close()
    data = bytearray((tmp_path / "records.db").read_bytes())
    data[100:4000] = bytes(3900)
    (tmp_path / "records.db").write_bytes(data)
    ended = in_process("tune", table, "--results", tmp_path)
    assert_failed(ended, 1, f"the results file is damaged .*: {tmp_path}/records.db")
    assert (tmp_path / "records.db").read_bytes() == data


def test_records_that_another_process_writes(table: Path, tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "records.db"):
        ended = in_process("tune", table, "--results", tmp_path)
    assert_failed(ended, 1, rf"another process is writing to this file \(host .*, pid {os.getpid()}, since .*\): .*")


def test_a_campaign_must_be_in_the_records(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "records.db").close()
    page = tmp_path / "page.html"
    none = in_process("report", page, "--results", tmp_path)
    assert_failed(none, 1, "choose a campaign with --campaign, the records have: none")
    unknown = in_process("results", "best", "--results", tmp_path, "--campaign", "x")
    assert_failed(unknown, 1, "no such campaign, the records have none: x")
    assert not page.exists()


def test_a_report_needs_its_folder(tmp_path: Path) -> None:
    shutil.copy(TESTS / "data" / "store_v1.db", tmp_path / "records.db")
    ended = in_process("report", tmp_path / "missing" / "page.html", "--results", tmp_path)
    assert_failed(ended, 1, "the file can't be written .no such folder.: .*/missing/page.html")


def test_kernels_need_a_compiler(table: Path, tmp_path: Path) -> None:
    ended = int8tune("tune", table, "--results", tmp_path / "results", env={"PATH": str(tmp_path)})
    assert_failed(ended, 1, r"no C compiler to link kernels with, looked for its linker: ld, .*")
    assert not (tmp_path / "results").exists()


@pytest.mark.thorough
def test_no_device_has_an_exit_code_of_its_own(table: Path, tmp_path: Path) -> None:
    """A TVM that can't be loaded is the usual reason."""
    (tmp_path / "tvm").mkdir()
    for module in ("__init__", "libinfo"):
        (tmp_path / "tvm" / f"{module}.py").write_text("raise ImportError('libtvm.so: cannot open shared object file')")
    ended = int8tune("tune", table, "--results", tmp_path / "results", env={"PYTHONPATH": str(tmp_path)})
    assert_failed(ended, 4, "the local device's server did not start: .*cannot open shared object file")
    assert not (tmp_path / "results").exists()


@pytest.fixture
def mounted(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder on a file system of its own, with the mount options that are the test's parameter."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "", "-t", "tmpfs", "-o", str(request.param), "tmpfs", str(folder)]
    if not mount or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this user can't mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.thorough
@pytest.mark.parametrize("mounted", ["ro"], indirect=True)
def test_a_folder_that_can_not_be_written(table: Path, mounted: Path) -> None:
    ended = in_process("tune", table, "--results", mounted)
    assert_failed(ended, 1, r".*\(Read-only file system\): .*")
    ended = in_process("tune", table, "--results", mounted / "results")
    assert_failed(ended, 1, r"the results folder can't be made \(Read-only file system\): .*")


@pytest.mark.parametrize("mounted", ["size=64k"], indirect=True)
def test_a_full_disk(table: Path, mounted: Path) -> None:
    ended = in_process("tune", table, "--results", mounted, "--trials", 3)
    assert ended.code == 1
    assert len(ended.err.splitlines()) == 2
    assert "hint: " in ended.err
    assert "run the same command again" in ended.err


def test_a_reader_that_goes_away_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = int8tune("templates", "list", stdout=writer)
    os.close(writer)
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_data_that_can_not_be_written_is_an_error() -> None:
    with Path("/dev/full").open("w") as full:
        ended = int8tune("layers", "resnet50", stdout=full)
    assert ended.code == 1
    assert ended.errors == ["error: no space left on device"]


def test_a_traceback_is_shown_only_on_demand(tmp_path: Path) -> None:
    quiet = in_process("layers", tmp_path / "missing.json")
    loud = in_process("layers", tmp_path / "missing.json", "--debug")
    assert "Traceback" not in quiet.err
    assert loud.err.startswith("Traceback (most recent call last):")
    assert loud.err.endswith(quiet.err)
    assert loud.code == quiet.code == 1
