"""DynamicQuantizeLSTM, as ONNX Runtime's `quantize_dynamic` writes it, beside ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Kind
from int8tune.compiler.obstacles import int8_share, obstacle_lines
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_forms import quantized_lstm
from tests.support.models.onnx_islands import feed_of, outputs_of
from tests.support.run.thinned import one_in

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")

FORMS = [(direction, each) for direction in ("reverse", "forward", "bidirectional") for each in (True, False)]


@pytest.mark.parametrize(("direction", "is_per_channel"), one_in(6, FORMS))
def test_outputs_are_those_of_onnx_runtime(direction: str, is_per_channel: bool, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")
    file = quantized_lstm(5, is_per_channel, direction)
    ours, theirs = outputs_of(file, tmp_path, {"x": feed_of((5, 2, 4))})
    assert theirs.keys() == {"every", "last", "last cell"}
    for name, expected in theirs.items():
        np.testing.assert_allclose(ours[name], expected, rtol=1e-5, atol=2e-6, err_msg=name)


@pytest.mark.thorough
def test_data_of_zeros_has_a_scale(tmp_path: Path) -> None:
    """Nothing is divided by zero where the least and the most are 0."""
    file = quantized_lstm(2, direction="forward")
    model = onnx.ModelProto.FromString(file)
    for tensor in model.graph.initializer:
        if tensor.name in ("hidden", "cell", "bias"):
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.zeros(tuple(tensor.dims), np.float32), tensor.name))
    ours, theirs = outputs_of(model.SerializeToString(), tmp_path, {"x": np.zeros((2, 2, 4), np.float32)})
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected)


def test_products_of_data_are_int8_layers() -> None:
    """Each of six vectors meets 4 rows as data, and 3 as a state, of 24 columns."""
    graph = read_onnx(quantized_lstm(3), "lstm")
    assert sum(operator.kind is Kind.DENSE for operator in graph.operators) == 2
    assert int8_share(graph) == pytest.approx(4 / 7)


def said_of(file: bytes) -> str:
    try:
        return " ".join(obstacle_lines(read_onnx(file, "lstm")))
    except ModelError as fault:
        return str(fault)


def _lstm(model: Any) -> Any:
    return next(node for node in model.graph.node if node.op_type == "DynamicQuantizeLSTM")


def _without(name: str) -> Any:
    def change(model: Any) -> None:
        taken = _lstm(model).input
        taken[list(taken).index(name)] = ""

    return change


def _computed(model: Any) -> None:
    _lstm(model).input[1] = "x"


def _with_lengths(model: Any) -> None:
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([2, 3], np.int32), "lengths"))
    _lstm(model).input[4] = "lengths"


def _scales(name: str, count: int) -> Any:
    def change(model: Any) -> None:
        (found,) = (each for each in model.graph.initializer if each.name == name)
        found.CopyFrom(onnx.numpy_helper.from_array(np.ones(count, np.float32), name))

    return change


def _scalar(name: str) -> Any:
    def change(model: Any) -> None:
        (found,) = (each for each in model.graph.initializer if each.name == name)
        found.CopyFrom(onnx.numpy_helper.from_array(np.uint8(1).reshape(()), name))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_with_lengths, "lengths of sequences decide what its data is quantized to"),
        (_computed, "its weights must be constants of each direction with their scales"),
        (_without("of data.scale"), "its weights must be constants of each direction with their scales"),
        (_scales("of data.scale", 3), "its weights must be constants of each direction with their scales"),
        (_scalar("of states"), "its weights must have three axes: []"),
        (_scales("of states.scale", 3), "its weights must have one scale, or one for each row of gates"),
    ],
)
def test_what_is_refused_says_why(change: Any, message: str) -> None:
    model = onnx.ModelProto.FromString(quantized_lstm())
    change(model)
    assert message in said_of(model.SerializeToString())
