"""With which outputs of ONNX Runtime a compiled model is compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import int8tune as it
from int8tune.tuner.bench.peers.onnxruntime import session_of
from int8tune.tuner.cli.accuracy import exit_code
from int8tune.tuner.models.accuracy import Difference
from int8tune.tuner.models.float_layers import more_in_float
from tests.support.models.onnx_islands import IslandWriter
from tests.support.models.onnx_models import MODELS, quantized
from tests.support.models.onnx_operators import operator_model
from tests.support.models.onnx_tool_forms import TOOL_FORMS
from tests.support.models.onnx_words import FORMS, U8, U16, Form, Layer
from tests.support.program.cli_program import in_process

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")

SAMPLES = 300


def test_layers_of_s8_data_are_compared_with_integer_ones(tmp_path: Path) -> None:
    """On x86 ONNX Runtime makes s8 data u8, where it can, and computes a layer between the two in float."""
    file = quantized(MODELS["concat"](), tmp_path, "s8", "s8", True)
    samples = np.random.default_rng(0).standard_normal((SAMPLES, 1, 3, 8, 8)).astype(np.float32)
    np.save(tmp_path / "samples.npy", samples)
    sessions = [session_of(file, 1, keeps_int8=keeps) for keeps in (False, True)]
    default, integers = ([session.run(None, {"x": x})[0] for x in samples] for session in sessions)
    if all((one == other).all() for one, other in zip(default, integers, strict=True)):
        pytest.skip("this ONNX Runtime computes layers of s8 data as integers by default")
    found = it.accuracy(tmp_path / "quantized.onnx", samples=tmp_path / "samples.npy", results=tmp_path / "none")
    assert found.is_exact


def test_layers_that_the_runtime_computes_in_float_are_named_where_outputs_differ(tmp_path: Path) -> None:
    path = tmp_path / "words.onnx"
    path.write_bytes(Layer(Form("MatMul", (4, 128), (128, 16), 1), U16, U16).file())
    shown = in_process("accuracy", path, "--count", "12", "--results", tmp_path / "none")
    assert shown.code == 0, shown.err
    assert "1 of 1 outputs differ from onnxruntime" in shown.err
    assert "onnxruntime computes in float, and rounds, sums that are integers here: 1 MatMul or Gemm" in shown.err


def test_unequal_values_of_integers_are_an_exit_code_of_their_own() -> None:
    unequal = Difference("y", ("y",), True, 10, 1, 1.0, 0.1, 1, 1, 30.0)
    found = it.Accuracy("m.onnx", "onnxruntime", None, {}, (unequal,), 4, {}, 1.0)
    assert exit_code(found) == 3
    assert exit_code(replace(found, outputs=(replace(unequal, differing=0),))) == 0
    assert exit_code(replace(found, floats={"Softmax": 1})) == 0
    assert exit_code(replace(found, theirs_in_float={"MatMul": 1})) == 0


def test_layers_in_float_are_those_of_the_optimized_model(tmp_path: Path) -> None:
    file = quantized(MODELS["concat"](), tmp_path, "u8", "s8", True)
    (tmp_path / "integers.onnx").write_bytes(file)
    assert more_in_float(tmp_path / "integers.onnx", {}, keeps_int8=True) == {}
    (tmp_path / "blocks.onnx").write_bytes(Layer(FORMS["blocks"], U8, U8).file())
    assert more_in_float(tmp_path / "blocks.onnx", {}, keeps_int8=True) == {"ConvTranspose": 1}
    assert more_in_float(tmp_path / "blocks.onnx", {"ConvTranspose": 1}, keeps_int8=True) == {}
    mean = operator_model("GlobalAveragePool", [((1, 8, 8, 8), 0.05, 3)], (0.1, 3), dtypes=[np.uint8, np.int8])
    (tmp_path / "mean.onnx").write_bytes(mean.SerializeToString())
    assert more_in_float(tmp_path / "mean.onnx", {}, keeps_int8=True) == {"GlobalAveragePool": 1}
    (tmp_path / "damaged.onnx").write_bytes(file[:-9])
    assert more_in_float(tmp_path / "damaged.onnx", {}, keeps_int8=True) == {}


@pytest.mark.thorough
def test_where_optimizations_fail_the_judge_is_what_was_not_optimized(tmp_path: Path) -> None:
    """ONNX Runtime's fusion of MatMul and Add takes names that its earlier runs have left in a file."""
    w = IslandWriter()
    shape = w.constant("gemm_input_shape", [2, 6, 5, 8], np.int64)
    product = w.apply("MatMul", w.apply("Reshape", w.apply("Exp", w.data), shape), w.rng.normal(size=(8, 4)))
    path = tmp_path / "twice.onnx"
    path.write_bytes(w.file(w.quantized(w.apply("Add", product, w.rng.normal(size=4)))))
    try:
        session_of(str(path), 1)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        found = it.accuracy(path, count=3, results=tmp_path / "none")
        assert found.against == f"onnxruntime {onnxruntime.__version__} without its optimizations, which fail"
        assert found.outputs[0].largest <= 1
    else:
        pytest.skip("this ONNX Runtime's optimizations don't fail")


@pytest.mark.thorough
def test_litert_is_compared_with_itself_where_a_model_has_numbers(tmp_path: Path) -> None:
    pytest.importorskip("tflite", reason="needs the extra `models`")
    pytest.importorskip("ai_edge_litert", reason="needs the extra `oracle`")
    from tests.support.models.tflite_islands import SHAPE, IslandWriter

    w = IslandWriter()
    numbers = w.apply("ADD", [w.data, np.random.default_rng(4).normal(size=SHAPE)], SHAPE, "Add")
    (tmp_path / "bytes.tflite").write_bytes(w.model(w.data))
    (tmp_path / "mixed.tflite").write_bytes(w.model(w.apply("SOFTMAX", [numbers], SHAPE, "Softmax", beta=1.0)))
    exact, mixed = (it.accuracy(path, count=12, results=tmp_path / "none") for path in sorted(tmp_path.iterdir()))
    assert exact.outputs[0].itself_db is None
    assert mixed.outputs[0].itself_db is not None
    assert 100 < mixed.outputs[0].itself_db < 200


@pytest.mark.thorough
def test_layers_of_a_model_that_is_quantized_at_run_time_are_compared(tmp_path: Path) -> None:
    """Its scales and zero points are values without axes."""
    (tmp_path / "dynamic.onnx").write_bytes(TOOL_FORMS["dynamic"]())
    found = it.accuracy(tmp_path / "dynamic.onnx", layers=True, count=3, results=tmp_path / "none")
    assert len(found.outputs) > 10
    assert all(each.differing == 0 or each.largest < 1e-5 for each in found.outputs)
