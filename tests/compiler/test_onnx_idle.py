"""Nodes that make what they take are left out: what is beside them is computed as if they were not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from int8tune.compiler.onnx_reader.file import load
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import IslandWriter, assert_equal, feed_of, outputs_of
from tests.support.models.onnx_models import onnx
from tests.support.models.onnx_tool_forms import pytorch, static

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which outputs are compared with")


def test_a_file_of_pytorch_has_the_layers_and_operators_of_others() -> None:
    ours, others = (read_onnx(file, "one") for file in (pytorch(), static()))
    assert [each.kind for each in ours.operators] == [each.kind for each in others.operators]
    assert [each.attributes.keys() for each in ours.operators] == [each.attributes.keys() for each in others.operators]


def test_a_file_of_pytorch_is_onnx_runtimes(tmp_path: Path) -> None:
    data = np.random.default_rng(3).standard_normal((1, 3, 12, 10)).astype(np.float32)
    assert_equal(*outputs_of(pytorch(), tmp_path, {"x": data}))


@pytest.mark.parametrize("operator", ["Identity", "Cast"])
def test_what_is_an_output_stays(operator: str, tmp_path: Path) -> None:
    """Also where it is read, too, and a chain of such nodes is in front of it."""
    w = IslandWriter()
    attributes = {"to": onnx.TensorProto.FLOAT} if operator == "Cast" else {}
    first = w.apply(operator, w.apply("Relu", w.data), **attributes)
    second = w.apply(operator, first, **attributes)
    of_data, of_output = (w.apply(operator, each, **attributes) for each in ("x", second))
    file = w.file(w.apply("Neg", second), second, of_data, of_output)
    assert_equal(*outputs_of(file, tmp_path, {"x": feed_of()}))


def test_what_makes_an_output_has_its_name() -> None:
    w = IslandWriter()
    negative = w.apply("Neg", w.data)
    nodes = load(w.file(w.apply("Identity", w.apply("Identity", negative)), w.apply("Abs", negative)), "one").nodes
    assert [node.computes for node in nodes] == ["QuantizeLinear", "DequantizeLinear", "Neg", "Abs"]
    assert nodes[3].inputs == nodes[2].outputs


def test_a_cast_to_another_type_stays(tmp_path: Path) -> None:
    w = IslandWriter()
    whole = w.apply("Cast", w.data, to=onnx.TensorProto.INT32)
    file = w.file(w.apply("Cast", whole, to=onnx.TensorProto.FLOAT), w.quantized(w.data))
    assert_equal(*outputs_of(file, tmp_path, {"x": feed_of()}))
