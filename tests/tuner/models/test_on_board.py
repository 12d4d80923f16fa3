"""Ways to quantize a model, compiled for a board: each is right there, bit for bit, or says why it is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `quantize`")

import int8tune as it
from int8tune.quantize.float_model import read_float_model
from int8tune.quantize.forms import Form
from int8tune.quantize.options import Options
from int8tune.quantize.samples.given import samples_of
from int8tune.results.schemes import BoardTable
from int8tune.rpc.inventory.boards import Board, TimingKind, TransportKind
from int8tune.rpc.provision import provision
from int8tune.rpc.request import Timing
from int8tune.tuner.api.bench_boards import BoardBenches
from int8tune.tuner.models.on_board import board_place
from int8tune.tuner.schemes.comparison import Question, compare
from int8tune.tuner.schemes.place import open_place
from int8tune.tuner.schemes.scheme import schemes_of
from tests.sshd import Sshd, running_sshd
from tests.support.farm.boards import CACHE, a53_behind, why_no_a53
from tests.support.models.float_models import pictures, saved, small
from tests.support.program.cli_program import in_process

pytestmark = pytest.mark.promise(10, 17)

QUICK: dict[str, Any] = {"runs": 5, "run_s": 0.001}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(small(), tmp_path_factory.mktemp("model"))


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    inventory = tmp_path / "farm.toml"
    inventory.write_text('[[boards]]\nname = "near"\ntransport = "local"\ntarget = "generic"\n')
    return inventory


@pytest.mark.thorough
def test_schemes_are_timed_on_a_board(path: Path, farm: Path, tmp_path: Path) -> None:
    found = it.compare_schemes(
        path,
        pictures(20),
        schemes="max,mse",
        devices="near,near",
        inventory=farm,
        results=tmp_path / "results",
        **QUICK,
    )
    (board,) = found.summary.boards
    assert (board.board, board.threads, board.is_measured) == ("near", 1, True)
    assert board.target.startswith("generic")
    first, second, *_ = board.rows
    assert (first.label, second.label) == ("max", "mse")
    assert first.time is not None
    assert first.time.estimate_s > 0
    assert first.speedup is not None
    assert (first.speedup.low, first.speedup.high) == (1.0, 1.0)
    assert second.speedup is not None
    table = found.to_pandas()
    assert table["near.time_s"][0] == first.time.estimate_s
    assert "on near: " in str(found)
    assert "compared bit for bit there; speedups are over max" in str(found)


@pytest.fixture
def quantized(path: Path, tmp_path: Path) -> Path:
    it.quantize(path, pictures(20), tmp_path / "small.int8.onnx")
    return tmp_path / "small.int8.onnx"


@pytest.mark.thorough
def test_a_model_is_timed_with_recorded_schedules_and_defaults(quantized: Path, farm: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    there: dict[str, Any] = {"inventory": farm, "results": results}
    found = it.bench(quantized, device="near", **there, **QUICK)
    assert isinstance(found, BoardBenches)
    (bench,) = found.models
    assert [row.label for row in bench.table.rows] == ["defaults"]
    it.tune(quantized, devices=["near"], strategy="random", trials=1, **there)
    found = it.bench(quantized, device="near", **there, **QUICK)
    table = found.to_pandas()
    assert list(table["schedules"]) == ["defaults", "recorded bests"]
    assert (table["time_s"] > 0).all()
    assert table["speedup_low"][0] == table["speedup_high"][0] == 1.0


def test_the_program_shows_a_model_on_a_board(quantized: Path, farm: Path, tmp_path: Path) -> None:
    where = ("--device", "near", "--inventory", farm, "--results", tmp_path / "results", "--runs", 5, "--run-ms", 1)
    shown = in_process("bench", quantized, *where)
    assert (shown.code, shown.errors) == (0, [])
    name, title, _, head, row = shown.out.splitlines()
    assert name == "small.int8"
    assert title.startswith("on near: ")
    assert head.split() == ["ms", "[95", "%]", "speedup", "[95", "%]", "schedules"]
    assert row.endswith("  defaults")
    refused = {("--against", "onnxruntime"): "alone", ("--benchmark-json", tmp_path / "b.json"): "is for this machine"}
    for options, words in refused.items():
        (error,) = in_process("bench", quantized, *where, *options).errors
        assert words in error


def test_what_can_not_be_compared_there_says_so(path: Path, farm: Path, tmp_path: Path) -> None:
    found = it.compare_schemes(
        path,
        pictures(20),
        schemes="max",
        skip=["stem"],
        devices=["near"],
        inventory=farm,
        results=tmp_path,
        **QUICK,
    )
    (board,) = found.summary.boards
    (row,) = board.rows
    assert row.time is row.speedup is None
    assert "last bits of what is computed in float differ from CPU to CPU" in row.failure
    assert f"max: {row.failure}" in str(found)


def test_a_board_that_nobody_has_is_told_before_anything_is_made(path: Path, farm: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    where = ("--devices", "far", "--inventory", farm, "--results", results)
    ended = in_process("compare-schemes", path, "--data", saved_samples(tmp_path), *where)
    assert ended.code == 2
    (error,) = ended.errors
    assert "far" in error
    assert not results.exists()


def saved_samples(folder: Path) -> Path:
    import numpy as np

    np.save(folder / "samples.npy", pictures(10))
    return folder / "samples.npy"


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with running_sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


def on_board(board: Board, path: Path, folder: Path) -> BoardTable:
    samples = samples_of(pictures(20))
    schemes = schemes_of(["max", "mse"], ["per-channel"], ["u8"])
    question = Question(read_float_model(path), samples, samples, None, schemes, Options(), timing=Timing(5, 0.001))
    with open_place(folder / "results") as place:
        (table,) = compare(question, place, boards=[board_place(board, folder, None, place.folder)]).boards
    return table


@pytest.mark.thorough
@pytest.mark.skipif(why_no_a53() != "", reason=f"no Cortex-A53: {why_no_a53()}")
def test_a_cortex_a53_computes_the_same(path: Path, sshd: Sshd, tmp_path: Path) -> None:
    board = a53_behind(sshd, tmp_path / "board")
    provision(board, CACHE, upgrade=False, say=print)
    table = on_board(board, path, tmp_path)
    assert table.target.startswith("arm-neon")
    assert not table.is_measured
    assert [(row.label, row.time, row.failure) for row in table.rows] == [("max", None, ""), ("mse", None, "")]


@pytest.mark.thorough
def test_forms_of_layers_are_chosen_by_the_times_of_a_board(path: Path, farm: Path, tmp_path: Path) -> None:
    """In float a layer's last bits are the CPU's own, so that no such network is timed there."""
    found = it.choose(
        path,
        pictures(20),
        tmp_path / "chosen.onnx",
        max_drop=100,
        device="near",
        inventory=farm,
        time_s=20,
        results=tmp_path,
        **QUICK,
    )
    assert found.choice.timed > 0
    assert all(point.time.estimate_s > 0 for point in found.choice.points)
    assert not any(Form.FLOAT in point.forms.values() for point in found.choice.points)
    assert it.accuracy(tmp_path / "chosen.onnx", results=tmp_path).is_exact


def test_a_board_without_times_chooses_nothing(path: Path, tmp_path: Path) -> None:
    farm = tmp_path / "farm.toml"
    farm.write_text('[[boards]]\nname = "slow"\ntransport = "local"\ntiming = "none"\n')
    where = ("--device", "slow", "--inventory", farm, "-o", tmp_path / "chosen.onnx")
    ended = in_process("quantize", path, "--choose", "--data", saved_samples(tmp_path), *where)
    assert ended.errors == ['error: board `slow` has timing = "none": its times decide nothing']
    assert not (tmp_path / "chosen.onnx").exists()


@pytest.mark.thorough
def test_times_that_mean_nothing_are_not_taken(path: Path, tmp_path: Path) -> None:
    table = on_board(Board("near", TransportKind.LOCAL, timing=TimingKind.NONE), path, tmp_path)
    assert not table.is_measured
    assert [(row.time, row.failure) for row in table.rows] == [(None, "")] * 2
