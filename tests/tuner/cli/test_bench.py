"""`int8tune bench` as a person types it, with the libraries that are installed."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path

import pytest

from int8tune.results.record import BenchResult
from int8tune.results.store import SqliteStore
from int8tune.tuner.bench.peers.registry import PEERS, missing_distributions
from int8tune.tuner.cli.program import run
from tests.support.program.cli_program import CONV, DEPTHWISE, int8tune, write_table

pytestmark = pytest.mark.alone

INSTALLED = [peer.name for peer in PEERS if not missing_distributions(peer.requires)]
BRIEF = ("--runs", "5", "--run-ms", "1")

needs_peers = pytest.mark.skipif(not INSTALLED, reason="needs the extra `peers`: nothing to compare with is installed")


@pytest.mark.thorough
@needs_peers
def test_a_bench_prints_a_table_and_keeps_records(tmp_path: Path) -> None:
    table = write_table(tmp_path / "small.json")
    results = tmp_path / "results"
    shown = int8tune("bench", table, CONV, "--results", results, *BRIEF)
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert lines[3].split()[:4] == ["layer", "ours", "peak", "from"]
    assert [line for line in lines if line.startswith(("conv 1x1 8x8x16->32", "dw 3x3 9x9x32"))]
    assert re.search(r"^all +2 ", shown.out, re.MULTILINE)
    assert [line.split()[0] for line in shown.err.splitlines() if "/2" in line] == ["1/2", "2/2"]
    with SqliteStore(results / "records.db", readonly=True) as store:
        found = list(store.query(BenchResult))
    assert [result.workload for result in found] == [CONV, DEPTHWISE]
    assert [peer.name for peer in found[0].peers] == INSTALLED
    assert not any(entrant.error for result in found for entrant in result.entrants)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((CONV, "--against", "mkl"), 2, "unknown library `mkl`, known: onnxruntime, openvino, onednn, litert"),
        ((CONV, "--only", "conv"), 2, "unknown class `conv`, known: spatial, pointwise-small, pointwise, first, .*"),
        ((CONV, "--only", "first"), 2, "none of the layers is of this class: first conv"),
        ((CONV, "--runs", "3"), 2, "runs must be 5 to 1000: 3"),
        (("missing.onnx", "--runs", "3"), 2, "runs must be 5 to 1000: 3"),
        ((CONV, "--run-ms", "0"), 2, "seconds of a run must be 0.001 to 10: 0"),
        ((CONV, "--threads", "0"), 2, "threads must be 1 to 1024: 0"),
        ((CONV, "--threads", "999"), 1, r"threads must be 1 to \d+, the cores that this process may use: 999"),
        (("resnet19",), 2, "unknown network `resnet19`, did you mean `resnet18`.*"),
        (("conv2d-nonsense",), 1, "`conv2d-nonsense` is not a conv2d key, .*"),
    ],
)
@needs_peers
def test_errors_are_one_line(
    arguments: tuple[str, ...], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", *arguments, "--results", str(tmp_path / "results")]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    error, hint = shown.err.splitlines()
    assert re.fullmatch(f"error: {message}", error), error
    assert hint.startswith("hint: ")
    assert not (tmp_path / "results").exists()


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Have these distributions look as if they were not installed."""
    found = metadata.distribution

    def distribution(name: str) -> metadata.Distribution:
        if name in names:
            raise metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(metadata, "distribution", distribution)


def test_without_any_peer_there_is_nothing_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    without(monkeypatch, *(peer.requires[0] for peer in PEERS))
    assert run(["bench", CONV, "--results", str(tmp_path)]) == 1
    error, hint = capsys.readouterr().err.splitlines()
    names = "onnxruntime, openvino, onednn, litert"
    assert error == f"error: none of the libraries to compare with is installed: {names}"
    assert hint == "hint: install the libraries to compare with: pip install 'int8tune[peers]'"


@pytest.mark.thorough
@pytest.mark.skipif("onednn" not in INSTALLED, reason="needs the extra `peers`")
def test_a_missing_peer_is_left_out_and_the_rest_printed_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    without(monkeypatch, "openvino")
    against = ("--against", "onednn,openvino")
    also = ("--format", "json", "--benchmark-json", str(tmp_path / "b.json"), *BRIEF)
    assert run(["bench", CONV, *against, "--results", str(tmp_path), *also]) == 0
    shown = capsys.readouterr()
    benchmarks = json.loads((tmp_path / "b.json").read_text())["benchmarks"]
    assert [one["name"] for one in benchmarks] == [f"int8tune[{CONV}]", f"onednn[{CONV}]"]
    note = "note: openvino is left out, not installed: openvino; pip install 'int8tune[peers]'"
    assert shown.err.splitlines()[0] == note
    values = json.loads(shown.out)
    (layer,) = values["layers"]
    assert layer["workload"] == CONV
    assert layer["peers"][0]["name"] == layer["best_peer"] == "onednn"
    assert layer["ratio"]["low"] <= layer["ratio"]["estimate"] <= layer["raw_ratio"]["high"]
    assert [library["name"] for library in values["libraries"]] == ["int8tune", "onednn"]
