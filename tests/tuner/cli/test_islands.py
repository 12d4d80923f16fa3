"""What the program says of models that are partly computed in float."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from int8tune.compiler.about import read_about
from int8tune.compiler.compiled_model import CompiledModel
from tests.support.models.onnx_islands import IslandWriter
from tests.support.program.cli_program import in_process, int8tune

pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dense layer of 8 x 8 between a softplus and a product in float of 8 x 3: eight of eleven multiply-adds."""
    w = IslandWriter()
    data = w.quantized(w.apply("Softplus", w.apply("Exp", w.data)))
    weight = w.constant("w", w.rng.integers(-127, 128, (8, 8)), np.int8)
    w.node("DequantizeLinear", [weight, w.constant("ws", 0.01), w.constant("wz", 0, np.int8)], "wd")
    dense = w.quantized(w.node("MatMul", [data, "wd"], "dense", "dense"))
    path = tmp_path_factory.mktemp("islands") / "mixed.onnx"
    path.write_bytes(w.file(w.apply("MatMul", w.apply("Exp", dense), w.rng.normal(size=(8, 3))), dense))
    return path


SUMMARY = "mixed: 6 operators are exact integers, 4 are computed in float; int8 layers are 72.7% of the multiply-adds"


@pytest.mark.thorough
def test_compile_says_what_is_exact(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = int8tune("compile", model, "-o", tmp_path / "mixed.so", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert f"{SUMMARY}: 2 Exp, 1 Softplus, 1 MatMul\n" in ended.err
    about = CompiledModel(tmp_path / "mixed.so").about
    assert (about.exact, about.floats) == (6, {"Exp": 2, "Softplus": 1, "MatMul": 1})
    assert about.int8_share == pytest.approx(8 / 11)
    monkeypatch.chdir(tmp_path)
    told = json.loads(in_process("compile", model, "-o", tmp_path / "two.so", "--format", "json").out)
    assert (told["exact"], told["floats"]) == (about.exact, about.floats)


def test_layers_say_why_it_is_not(model: Path, tmp_path: Path) -> None:
    ended = int8tune("layers", model, cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert f"{SUMMARY}\n" in ended.err
    assert "2 Exp: its values must be 8-bit integers: f32; the first is `Exp." in ended.err
    assert "1 MatMul: its data is not quantized; `MatMul." in ended.err


@pytest.mark.thorough
def test_accuracy_says_how_far_outputs_are(model: Path, tmp_path: Path) -> None:
    ended = int8tune("accuracy", model, "--count", "12", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert "SQNR, dB" in ended.out.splitlines()[0]
    assert f"{SUMMARY.removeprefix('mixed: ')}; outputs may differ by rounding\n" in ended.err
    told = json.loads(int8tune("accuracy", model, "--count", "12", "--format", "json", cwd=tmp_path).out)
    product, dense = told["outputs"]
    assert product["sqnr_db"] > 100
    assert 40 < product["itself_db"] < product["sqnr_db"]
    assert dense["sqnr_db"] is None or dense["largest"] <= 1
    assert told["floats"] == {"Exp": 2, "Softplus": 1, "MatMul": 1}


@pytest.mark.thorough
def test_layer_by_layer_integers_are_equal(model: Path, tmp_path: Path) -> None:
    ended = int8tune("accuracy", model, "--layers", "--count", "6", "--format", "json", cwd=tmp_path)
    assert ended.code == 0, ended.err
    outputs = json.loads(ended.out)["outputs"]
    assert len(outputs) == 10
    for each in outputs:
        assert each["differing"] == 0 or not each["steps"], each


def test_libraries_of_before_are_read() -> None:
    about = read_about(
        '{"int8tune_model": 1, "model": "m", "target": "generic", "threads": 1, "needs": [], "inputs": [],'
        ' "outputs": [], "calls": [{"kernel": "conv2d_1"}]}'
    )
    assert (about.exact, about.floats, about.int8_share) == (1, {}, None)
