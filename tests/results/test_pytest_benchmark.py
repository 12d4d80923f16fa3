"""Times in pytest-benchmark's form: its own code reads them, and its own statistics are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from int8tune.results.errors import ExportError
from int8tune.results.pytest_benchmark import Timed, as_dict, of_layers, statistics_of, write_benchmarks
from tests.support.program.bench_entries import CONV, DENSE, failed, peer, result

stats = pytest.importorskip("pytest_benchmark.stats", reason="needs the extra `test`: pytest-benchmark")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=30))
def test_statistics_are_those_of_pytest_benchmark(times_s: list[float]) -> None:
    theirs = stats.Stats()
    for time_s in times_s:
        theirs.update(time_s)
    assert statistics_of(times_s) == {**theirs.as_dict(), "data": times_s}


def test_each_library_on_each_layer_is_a_benchmark() -> None:
    layers = [result(1e-4, peer("onednn", 2e-4), failed("litert")), result(5e-5, workload=DENSE)]
    found = of_layers(layers)
    assert [(one.name, one.group) for one in found] == [
        (f"int8tune[{CONV}]", CONV),
        (f"onednn[{CONV}]", CONV),
        (f"int8tune[{DENSE}]", DENSE),
    ]
    assert [one.about.get("workload") for one in found] == [CONV, None, DENSE]
    assert found[1].times_s == layers[0].peers[0].times_s
    assert found[0].about["device"] == "local"


def test_the_commit_and_the_machine_are_in_the_file() -> None:
    timed = [Timed("a", "g", (1.0,), calls=7)]
    written = as_dict(timed, "AMD EPYC 9B45", "4f" * 20 + "-dirty")
    assert written["machine_info"]["cpu"] == {"brand_raw": "AMD EPYC 9B45"}
    assert (written["commit_info"]["id"], written["commit_info"]["dirty"]) == ("4f" * 20, True)
    assert written["benchmarks"][0]["stats"]["iterations"] == 7
    assert as_dict(timed, commit="")["commit_info"]["id"] == "unversioned"


def test_nothing_is_written_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="there are no times to write"):
        write_benchmarks(tmp_path / "b.json", [])
    with pytest.raises(ExportError, match="No such file or directory"):
        write_benchmarks(tmp_path / "no" / "b.json", [Timed("a", "g", (1.0,))])
    assert list(tmp_path.iterdir()) == []


def pytest_benchmark(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "pytest_benchmark", *words]
    environment = {**os.environ, "COLUMNS": "200", "PY_COLORS": "0"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_its_own_command_compares_two_files(tmp_path: Path) -> None:
    before = [result(2e-4, peer("onednn", 2e-4)), result(5e-5, workload=DENSE)]
    now = [replace(result(1e-4, peer("onednn", 2e-4)), bench="b2"), result(5e-5, workload=DENSE)]
    write_benchmarks(tmp_path / "before.json", of_layers(before), "AMD EPYC 9B45")
    write_benchmarks(tmp_path / "now.json", of_layers(now), "AMD EPYC 9B45")
    shown = pytest_benchmark(tmp_path, "compare", "before.json", "now.json", "--group-by=fullname", "--csv=both.csv")
    groups = [line for line in shown.splitlines() if "benchmark" in line and ": 2 tests" in line]
    assert len(groups) == 3, shown
    rows = (tmp_path / "both.csv").read_text().splitlines()
    assert len(rows) == 7
    column = rows[0].split(",").index("median")
    medians = [float(row.split(",")[column]) for row in rows[1:] if f"int8tune[{CONV}]" in row]
    assert sorted(round(seconds * 1e4, 1) for seconds in medians) == [1.0, 2.0]


def test_what_is_written_is_strict_json(tmp_path: Path) -> None:
    write_benchmarks(tmp_path / "b.json", [Timed("a", "g", (1e-6, 2e-6))])
    assert json.loads((tmp_path / "b.json").read_text(), parse_constant=pytest.fail)["benchmarks"][0]["name"] == "a"
