"""Layers that are quantized at run time: exact sums, and what ONNX Runtime makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.graph import Kind
from int8tune.compiler.islands.island import float_operators
from int8tune.compiler.obstacles import int8_share, obstacles
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.quantized_layers import quantized_layers
from tests.support.models.onnx_islands import IslandWriter, assert_close, compiled, feed_of, outputs_of
from tests.support.models.onnx_models import MODELS, Writer, input_data, values_of
from tests.support.models.shared_models import more_model
from tests.support.run.thinned import one_in

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

RNG = np.random.default_rng(3)
UINT8, INT8 = 2, 3
ELEMENTS = {np.uint8: UINT8, np.int8: INT8}


def feeds() -> list[Any]:
    """Values of one shape: of both signs, of one, next to ties, all the same, all zero, huge and tiny ones."""
    shape = (3, 40)
    halves = (RNG.integers(-255, 256, shape) / 2).astype(np.float32)
    halves.reshape(-1)[:2] = -127.5, 127.5
    drawn = [RNG.normal(0, scale, shape) for scale in (1.0, 1e-30, 1e30, 300.0)]
    drawn += [RNG.uniform(low, high, shape) for low, high in ((0, 1), (5, 6), (-3, -2), (-1e-3, 7))]
    same = [np.full(shape, value) for value in (0.0, -0.0, 2.5, -1e-3)]
    return [each.astype(np.float32) for each in (halves, *drawn, *same)]


def test_quantizing_at_run_time_is_exact(tmp_path: Path) -> None:
    w = Writer((3, 40))
    w.node("DynamicQuantizeLinear", ["x"], "y")
    w.nodes[-1].output.extend(["scale", "point"])
    file = w.model("y", "scale", "point").SerializeToString()
    model, names = compiled(file, tmp_path), ["y", "scale", "point"]
    for feed in feeds():
        theirs = values_of(file, names, feed)
        for ours, (name, expected) in zip(model.run([feed]), theirs.items(), strict=True):
            np.testing.assert_array_equal(ours, expected, err_msg=f"{name} of {feed.reshape(-1)[:3]}")


def stored_model(operator: str, shape: tuple[int, ...], weight: Any, how: dict[str, Any], **attributes: Any) -> bytes:
    """One product of stored values; its data and, if computed, its zero point are the model's inputs."""
    w = Writer(shape)
    w.inputs = [onnx.helper.make_tensor_value_info("x", ELEMENTS[how.get("data", np.uint8)], shape)]
    inputs = ["x", w.constant("w", weight, weight.dtype), "", ""]
    if how.get("point") == "computed":
        w.inputs.append(onnx.helper.make_tensor_value_info("z", ELEMENTS[how.get("data", np.uint8)], ()))
        inputs[2] = "z"
    elif "point" in how:
        inputs[2] = w.constant("z", how["point"], how.get("data", np.uint8))
    if "weight point" in how:
        inputs[3] = w.constant("wz", how["weight point"], weight.dtype)
    while not inputs[-1]:
        inputs.pop()
    w.node(operator, inputs, "y", **attributes)
    data: bytes = w.model("y").SerializeToString()
    return data


def assert_exact_sums(file: bytes, folder: Path, shape: tuple[int, ...], dtype: Any = np.uint8) -> None:
    """Equal to ONNX Runtime's for data of all kinds, and one int8 layer."""
    graph = read_onnx(file, "sums")
    assert len(quantized_layers(graph)) == 1
    assert int8_share(graph) == 1.0
    model, limits = compiled(file, folder), np.iinfo(dtype)
    draws = [np.full(shape, limits.min), np.full(shape, limits.max), RNG.integers(limits.min, limits.max + 1, shape)]
    for each in draws:
        for point in (limits.min, limits.max, 77):
            given = {"x": each.astype(dtype), "z": np.asarray(point, dtype)}
            taken = {form["name"]: given[form["name"]] for form in model.about.inputs}
            (ours,) = model.run(list(taken.values()))
            np.testing.assert_array_equal(ours, values_of(file, ["y"], taken)["y"])


def weights(dtype: Any, *shape: int) -> Any:
    limits = np.iinfo(dtype)
    drawn = RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)
    drawn.reshape(-1)[: shape[-1]] = limits.min
    return drawn


@pytest.mark.parametrize(
    "how",
    one_in(
        3,
        [
            {"point": "computed", "weight point": 9},
            {"point": "computed"},
            {"point": 130},
            {"point": "computed", "weight point": [3] * 7},
            {},
            {"point": "computed", "data": np.int8},
        ],
    ),
)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.matrix
def test_products_of_matrices(dtype: Any, how: dict[str, Any], tmp_path: Path) -> None:
    shape = (2, 5, 33)
    file = stored_model("MatMulInteger", shape, weights(dtype, 33, 7), how)
    assert_exact_sums(file, tmp_path, shape, how.get("data", np.uint8))


@pytest.mark.thorough
@pytest.mark.parametrize("how", [{"point": "computed", "weight point": 4}, {"point": 200}])
@pytest.mark.parametrize(
    ("shape", "weight", "attributes"),
    [
        ((2, 6, 9, 8), (5, 6, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 6, 9, 8), (5, 6, 3, 2), {"pads": [2, 0, 1, 1], "strides": [2, 1], "dilations": [2, 1]}),
        ((1, 6, 9, 8), (4, 3, 3, 3), {"group": 2}),
        ((1, 6, 9, 8), (12, 1, 3, 3), {"group": 6, "pads": [1, 1, 1, 1]}),
        ((2, 6, 21), (5, 6, 4), {"pads": [1, 2], "strides": [3]}),
    ],
)
def test_convolutions(
    shape: tuple[int, ...], weight: tuple[int, ...], attributes: Any, how: dict[str, Any], tmp_path: Path
) -> None:
    """Taps outside of the image meet the zero point."""
    file = stored_model("ConvInteger", shape, weights(np.uint8, *weight), how, **attributes)
    assert_exact_sums(file, tmp_path, shape)


def dynamic(name: str, folder: Path, **options: Any) -> bytes:
    """What ONNX Runtime's `quantize_dynamic` makes of a float model."""
    from onnxruntime import quantization

    source, path = folder / "float.onnx", folder / "dynamic.onnx"
    onnx.save(MODELS[name](), source)
    quantization.quantize_dynamic(source, path, **options)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("name", "channels"),
    one_in(5, [("residual", True), ("residual", False), ("head", True), ("windows", False), ("separable", True)]),
)
def test_models_that_are_quantized_at_run_time(name: str, channels: bool, tmp_path: Path) -> None:
    file, feed = dynamic(name, tmp_path, per_channel=channels), input_data(MODELS[name](), 3)
    graph = read_onnx(file, name)
    operators = [node.op_type for node in MODELS[name]().graph.node]
    assert len(quantized_layers(graph)) == sum(each in ("Conv", "Gemm", "MatMul") for each in operators)
    assert int8_share(graph) == 1.0
    ours, theirs = outputs_of(file, tmp_path, {"x": feed})
    for output, expected in theirs.items():
        # A value next to the middle of two of 255 steps is rounded to the other one where sums were in another order.
        np.testing.assert_allclose(ours[output], expected, atol=0.01 * float(np.abs(expected).max()))


@pytest.mark.parametrize("operator", one_in(2, ["MatMulIntegerToFloat", "DynamicQuantizeMatMul"]))
def test_products_that_onnx_runtime_fused(operator: str, tmp_path: Path) -> None:
    w = IslandWriter()
    inputs = [w.constant("w", weights(np.int8, 8, 7), np.int8), w.constant("ws", RNG.uniform(0.01, 0.02, 7))]
    bias = w.constant("b", RNG.normal(size=7))
    point = w.constant("wz", np.zeros(7), np.int8)
    if operator == "DynamicQuantizeMatMul":
        w.node(operator, [w.data, *inputs, point, bias], "y")
    else:
        w.node(operator, ["q", inputs[0], "s", inputs[1], "z", point, bias], "y")
    w.nodes[-1].domain = "com.microsoft"
    file = w.file("y")
    assert len(quantized_layers(read_onnx(file, "fused"))) == 1
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of()}))


@pytest.mark.thorough
def test_a_whole_model_that_is_quantized_at_run_time(tmp_path: Path) -> None:
    file = more_model("mlp.dynamic.onnx").read_bytes()
    graph = read_onnx(file, "mlp")
    assert [each.kind for each in graph.operators].count(Kind.DENSE) == 3
    assert float_operators(graph)["DynamicQuantizeLinear"] == 3
    assert_close(*outputs_of(file, tmp_path, {"x0": feed_of((1, 64))}))


def test_what_no_layer_computes_says_why() -> None:
    file = stored_model("ConvInteger", (1, 6, 9), weights(np.uint8, 5, 6, 3), {"weight point": [1, 2, 3, 4, 5]})
    (found,) = obstacles(read_onnx(file, "one"))
    assert found.reason == "its data and weights must have one zero point each"
