"""Models in float16 whose layers are quantized have int8 layers; others stay what they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from int8tune.compiler.graph import Kind
from int8tune.compiler.onnx_reader.file import load
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import outputs_of
from tests.support.models.onnx_models import onnx
from tests.support.models.onnx_tool_forms import halves, static, with_nodes, with_numbers

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which outputs are compared with")

HALF = onnx.TensorProto.FLOAT16
# A step of the output of `static`, which is a share.
STEP = 1 / 256
DATA = np.random.default_rng(3).standard_normal((1, 3, 12, 10)).astype(np.float32)


def kinds_of(file: bytes) -> list[Kind]:
    return [each.kind for each in read_onnx(file, "one").operators]


def test_its_operators_are_those_of_float32() -> None:
    assert kinds_of(halves()) == kinds_of(static())


def test_it_is_as_near_to_onnx_runtime_as_float16_is(tmp_path: Path) -> None:
    ours, theirs = outputs_of(halves(), tmp_path, {"x": DATA})
    np.testing.assert_allclose(ours["y"], theirs["y"], rtol=0, atol=1.01 * STEP)


def with_half_ends(file: bytes) -> bytes:
    """The file without its outer Casts: float16 comes in and goes out."""
    model = onnx.ModelProto.FromString(file)
    nodes = [node for node in model.graph.node if node.op_type != "Cast"]
    for node in nodes:
        node.input[:] = ["x" if name == "x/half" else name for name in node.input]
        node.output[:] = ["y" if name == "y/half" else name for name in node.output]
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.elem_type = HALF
    return with_nodes(model, nodes)


def test_inputs_and_outputs_keep_their_types(tmp_path: Path) -> None:
    ours, theirs = outputs_of(with_half_ends(halves()), tmp_path, {"x": DATA.astype(np.float16)})
    assert ours["y"].dtype == theirs["y"].dtype == np.float16
    np.testing.assert_allclose(ours["y"].astype(float), theirs["y"].astype(float), rtol=0, atol=1.01 * STEP)


def test_types_within_nodes_are_changed() -> None:
    """Those of an attribute that names one, and of constants that are attributes."""
    model = onnx.ModelProto.FromString(halves())
    shape = onnx.numpy_helper.from_array(np.array([1], np.int64), "shape")
    one = onnx.numpy_helper.from_array(np.ones(1, np.float16))
    model.graph.initializer.append(shape)
    model.graph.node.insert(1, onnx.helper.make_node("ConstantOfShape", ["shape"], ["one"], value=one))
    model.graph.node.insert(2, onnx.helper.make_node("Mul", ["x/half", "one"], ["scaled"]))
    for node in list(model.graph.node)[3:]:
        node.input[:] = ["scaled" if name == "x/half" else name for name in node.input]
    forms = load(model.SerializeToString(), "one").forms
    assert {name: form[0] for name, form in forms.items() if form[0] == "f16"} == {}


def test_a_model_without_quantized_layers_stays_in_float16() -> None:
    assert any(form[0] == "f16" for form in load(with_numbers(halves()), "one").forms.values())
