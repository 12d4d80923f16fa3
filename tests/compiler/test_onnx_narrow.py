"""Weights and values of four bits and fewer: constants are unpacked, what is computed stays within their range."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Kind
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.quantized_layers import quantized_layers
from tests.support.models.onnx_islands import IslandWriter, assert_close, feed_of, outputs_of
from tests.support.models.shared_models import more_model

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

OPSET = 21
RNG = np.random.default_rng(4)
UINT4, INT4 = 21, 22
RANGES = {UINT4: (0, 15), INT4: (-8, 7)}


def narrow(w: IslandWriter, name: str, type_: int, values: Any) -> str:
    array = np.asarray(values)
    w.constants.append(onnx.helper.make_tensor(name, type_, array.shape, array.reshape(-1).tolist()))
    return name


def drawn(type_: int, *shape: int) -> Any:
    low, high = RANGES[type_]
    values = RNG.integers(low, high + 1, shape)
    values.reshape(-1)[:2] = low, high
    return values


def weight(w: IslandWriter, name: str, type_: int, shape: tuple[int, ...], channels: bool) -> str:
    """A weight, dequantized by a scale for each output channel or by one."""
    narrow(w, name, type_, drawn(type_, *shape))
    count = shape[0] if channels else ()
    scale = RNG.uniform(0.01, 0.05, count).astype(np.float32)
    point = np.zeros(count, np.int64) + (8 if type_ == UINT4 else 0)
    inputs = [name, w.constant(f"{name}.s", scale), narrow(w, f"{name}.z", type_, point)]
    return w.node("DequantizeLinear", inputs, f"{name}.d", **({"axis": 0} if channels else {}))


def exactly(file: bytes, folder: Path, feed: Any) -> None:
    ours, theirs = outputs_of(file, folder, {"x": feed})
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected, err_msg=name)


@pytest.mark.parametrize("type_", [INT4, UINT4])
@pytest.mark.parametrize("channels", [True, False])
@pytest.mark.matrix
def test_layers_with_weights_of_four_bits_are_exact(type_: int, channels: bool, tmp_path: Path) -> None:
    w = IslandWriter()
    image = w.quantized(w.node("Conv", [w.data, weight(w, "w", type_, (5, 6, 3, 3), channels)], "c", pads=[1] * 4))
    flat = w.apply("Reshape", image, np.array([2, -1]))
    file = w.file(
        w.quantized(w.node("Gemm", [flat, weight(w, "v", type_, (7, 200), channels)], "g", transB=1)), opset=OPSET
    )
    assert len(quantized_layers(read_onnx(file, "narrow"))) == 2
    exactly(file, tmp_path, feed_of())


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("type_", [INT4, UINT4])
@pytest.mark.matrix
def test_weights_whose_blocks_have_scales_are_numbers(type_: int, axis: int, tmp_path: Path) -> None:
    w, shape = IslandWriter(), [8, 12]
    narrow(w, "w", type_, drawn(type_, *shape))
    shape[axis] //= 4
    scale = w.constant("w.s", RNG.uniform(0.01, 0.1, shape))
    point = narrow(w, "w.z", type_, RNG.integers(0, 5, shape))
    w.node("DequantizeLinear", ["w", scale, point], "w.d", axis=axis, block_size=4)
    file = w.file(w.apply("MatMul", w.data, "w.d"), opset=OPSET)
    assert not quantized_layers(read_onnx(file, "blocked"))
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of()}))


@pytest.mark.parametrize("type_", [onnx.TensorProto.INT8, UINT4, None])
def test_blocks_may_be_quantized_in_the_file(type_: int | None, tmp_path: Path) -> None:
    """Extents that are no multiple of a block, ties, and numbers beyond the type."""
    w, shape = IslandWriter(), (10, 12)
    ties = np.round(RNG.normal(size=shape) * 20) / 4
    blocks = [w.constant("w.s", RNG.choice([0.25, 0.5, 1.0], (3, 12)))]
    if type_ is not None:
        blocks.append(narrow(w, "w.z", type_, RNG.integers(0, 5, (3, 12))))
    w.node("QuantizeLinear", [w.constant("w", ties), *blocks], "w.q", axis=0, block_size=4)
    w.node("DequantizeLinear", ["w.q", *blocks], "w.d", axis=0, block_size=4)
    w.node("ReduceMax", [w.data, w.constant("axes", [1, 2, 3], np.int64)], "most")
    exactly(w.file(w.node("Add", ["w.d", "most"], "y"), opset=OPSET), tmp_path, feed_of())


@pytest.mark.thorough
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("points", ["", "packed"])
@pytest.mark.parametrize("bias", [False, True])
def test_products_of_onnx_runtime_with_few_bits(bits: int, points: str, bias: bool, tmp_path: Path) -> None:
    w, wide, depth, size = IslandWriter((2, 6, 5, 40)), 5, 40, 16
    blocks = -(-depth // size)
    inputs = [w.data, w.constant("w", RNG.integers(0, 256, (wide, blocks, size * bits // 8)), np.uint8)]
    inputs.append(w.constant("w.s", RNG.uniform(0.01, 0.1, wide * blocks)))
    row = -(-blocks * bits // 8)
    inputs.append(w.constant("w.z", RNG.integers(0, 256, wide * row), np.uint8) if points else "")
    inputs += ["", w.constant("b", RNG.normal(size=wide))] if bias else []
    w.node("MatMulNBits", inputs, "y", K=depth, N=wide, bits=bits, block_size=size)
    w.nodes[-1].domain = "com.microsoft"
    assert_close(*outputs_of(w.file("y"), tmp_path, {"x": feed_of((2, 6, 5, 40))}))


@pytest.mark.thorough
@pytest.mark.parametrize("type_", [INT4, UINT4])
def test_what_is_quantized_to_four_bits_is_saturated(type_: int, tmp_path: Path) -> None:
    """Quantizes a computed value, a layer's output, and a constant."""
    w, low = IslandWriter(), RANGES[type_][0]
    parameters = [w.constant("t", 0.11), narrow(w, "m", type_, low + 7)]
    w.constant("k", RNG.normal(0, 2, (6, 1, 1)))
    w.constant("v", RNG.normal(0, 0.5, (4, 6, 1, 1)))
    w.node("QuantizeLinear", ["v", *parameters], "v.q")
    made = w.node("Conv", [w.data, w.node("DequantizeLinear", ["v.q", *parameters], "v.d")], "c")
    for index, each in enumerate([w.apply("Mul", w.data, "k"), made, w.apply("Mul", w.data, "k")]):
        w.node("QuantizeLinear", [each, *parameters], f"{index}.q")
        w.node("DequantizeLinear", [f"{index}.q", *parameters], f"{index}.d")
    file = w.file("0.d", "1.d", "2.d", opset=OPSET)
    graph = read_onnx(file, "saturated")
    assert len(quantized_layers(graph)) == 1
    assert all(each.kind is not Kind.FLOAT for each in graph.operators)
    ours, theirs = outputs_of(file, tmp_path, {"x": feed_of()})
    for name in ("0.d", "2.d"):
        np.testing.assert_array_equal(ours[name], theirs[name])
    # ONNX Runtime multiplies numbers, so that one step differs where a sum is nearly a tie.
    steps = np.abs(ours["1.d"] - theirs["1.d"]) / 0.11
    assert np.count_nonzero(steps > 0.5) <= 2
    assert steps.max() < 1.5


def test_a_type_of_four_bits_may_be_an_attribute(tmp_path: Path) -> None:
    w = IslandWriter()
    w.node("QuantizeLinear", ["x", w.constant("t", 0.2)], "x.q", output_dtype=INT4)
    w.node("DequantizeLinear", ["x.q", "t"], "y")
    file = w.file("y", opset=OPSET)
    exactly(file, tmp_path, feed_of())


def test_blocks_that_are_quantized_wrong_are_refused() -> None:
    w = IslandWriter()
    blocks = [w.constant("w.s", np.ones((3, 12))), narrow(w, "w.z", INT4, np.zeros((3, 12), np.int64))]
    w.node("QuantizeLinear", [w.constant("w", np.ones((8, 12))), *blocks], "w.q", axis=0, block_size=4)
    w.node("DequantizeLinear", ["w.q", *blocks], "w.d", axis=0, block_size=4)
    with pytest.raises(ModelError, match=r"`w.q node` .QuantizeLinear.: blocks of 4 must have scales"):
        read_onnx(w.file(w.apply("MatMul", w.data, "w.d"), opset=OPSET), "one")


def test_few_bits_are_no_output() -> None:
    w = IslandWriter()
    w.node("QuantizeLinear", ["x", w.constant("t", 0.2), narrow(w, "m", INT4, 0)], "x.q")
    w.node("Identity", ["x.q"], "y")
    with pytest.raises(ModelError, match=r"^one: the model's output `y` has values of few bits"):
        read_onnx(w.file("y", opset=OPSET), "one")


@pytest.mark.parametrize(
    ("attributes", "sizes", "message"),
    [
        ({"block_size": 3}, (2, 12), "`w.d node` .DequantizeLinear.: blocks of 3 must have scales"),
        ({"block_size": 4, "axis": 7}, (2, 12), "its axis must be one of"),
        ({"block_size": -4}, (2, 12), "its block_size must be 1 to"),
        ({"block_size": 1 << 40}, (1, 12), "its block_size must be 1 to"),
    ],
)
def test_wrong_blocks_are_refused(attributes: Any, sizes: Any, message: str) -> None:
    w = IslandWriter()
    narrow(w, "w", INT4, drawn(INT4, 8, 12))
    w.node("DequantizeLinear", ["w", w.constant("w.s", np.ones(sizes))], "w.d", **{"axis": 0, **attributes})
    with pytest.raises(ModelError, match=message):
        read_onnx(w.file(w.apply("MatMul", w.data, "w.d"), opset=OPSET), "one")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"K": 1 << 60}, "K, N and block_size must be 1 to"),
        ({"K": 1 << 20, "N": 1 << 20}, "its weights must be at most"),
        ({"bits": 3}, "and bits one of"),
        ({"N": 6}, "its weights must be 6 x 3 blocks of 8 bytes"),
        ({"block_size": 0}, "K, N and block_size must be 1 to"),
        ({"block_size": 17}, "its blocks must be whole bytes: 17 values of 4 bits"),
    ],
)
def test_wrong_products_are_refused(attributes: Any, message: str) -> None:
    w = IslandWriter()
    inputs = [w.data, w.constant("w", np.zeros((5, 3, 8)), np.uint8), w.constant("w.s", np.ones(15))]
    w.node("MatMulNBits", inputs, "y", **{"K": 40, "N": 5, "bits": 4, "block_size": 16, **attributes})
    w.nodes[-1].domain = "com.microsoft"
    with pytest.raises(ModelError, match=message):
        read_onnx(w.file("y"), "one")


def test_a_whole_model_with_weights_of_four_bits(tmp_path: Path) -> None:
    file = more_model("mlp.w4.onnx").read_bytes()
    assert len(quantized_layers(read_onnx(file, "mlp"))) == 3
    ours, theirs = outputs_of(file, tmp_path, {"x0": feed_of((1, 64))})
    np.testing.assert_array_equal(ours["18"], theirs["18"])
