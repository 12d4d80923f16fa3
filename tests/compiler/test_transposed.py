"""Transposed convolutions, and those of one dimension: layers, as the runtimes compute them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.fused_graph import with_fused_rules
from int8tune.compiler.graph import Graph, Kind
from int8tune.compiler.interpreter import run_reference
from int8tune.compiler.model import read_model
from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.quantized_layers import quantized_layers
from int8tune.compiler.tflite_reader.model import read_tflite
from int8tune.schedules.target import Target
from tests.support.models.compiled import assert_exact
from tests.support.models.onnx_models import Writer as OnnxWriter
from tests.support.models.onnx_models import values_of as onnx_values
from tests.support.models.onnx_operators import as_graph, compared, feeds_of
from tests.support.models.tflite_models import Writer as TfliteWriter
from tests.support.models.tflite_models import values_of as tflite_values
from tests.support.run.thinned import one_in

Array = npt.NDArray[Any]
LOWEST, DTYPES = {"u8": 0, "s8": -128}, {"u8": np.uint8, "s8": np.int8}
KERNELS = [(2, 2), (3, 3), (4, 4), (1, 1), (5, 3), (3, 2), (1, 3)]
STRIDES = [(1, 1), (2, 2), (3, 2), (1, 2), (4, 4)]
IMAGE = 2, 4, 5, 3


def tflite_file(
    kind: str, kernel: Sequence[int], stride: Sequence[int], size: Sequence[int], is_same: bool, activation: int = 0
) -> tuple[bytes, dict[str, Array]]:
    rng, low, writer = np.random.default_rng(0), LOWEST[kind], TfliteWriter()
    zero = 0 if kind == "s8" else 120
    weights = rng.integers(-127 if kind == "s8" else 0, 128 if kind == "s8" else 256, (6, *kernel, IMAGE[3]))
    inputs = [
        writer.constant("sizes", "s32", [IMAGE[0], *size, 6]),
        writer.constant("w", kind, weights, 0.01, zero),
        writer.input("x", kind, IMAGE, 0.03, low + 100),
    ]
    if activation:
        inputs.append(
            writer.constant("b", "s32", rng.integers(-3000, 3000, 6), float(np.float32(0.03) * np.float32(0.01)))
        )
    made = writer.tensor("y", kind, (IMAGE[0], *size, 6), 0.05, low + 110)
    fields = {"strideH": stride[0], "strideW": stride[1], "padding": 0 if is_same else 1}
    writer.operator("TRANSPOSE_CONV", inputs, [made], "TransposeConv", 3, fusedActivationFunction=activation, **fields)
    feed = rng.integers(low, low + 256, IMAGE).astype(DTYPES[kind])
    return writer.model(made), {"x": feed}


def sizes_of(kernel: Sequence[int], stride: Sequence[int], is_same: bool) -> list[tuple[int, int]]:
    """Rows and columns of the output; SAME has one less, too, of the outputs that a stride has."""
    if not is_same:
        rows, columns = (
            max((extent - 1) * step + taps, extent * step)
            for extent, step, taps in zip(IMAGE[1:3], stride, kernel, strict=True)
        )
        return [(rows, columns)]
    rows, columns = (extent * step for extent, step in zip(IMAGE[1:3], stride, strict=True))
    return [(rows, columns), *([(rows - 1, columns - 1)] if min(stride) > 1 else [])]


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["u8", "s8"])
@pytest.mark.parametrize("is_same", [True, False])
def test_transposed_convolutions_are_litert_s(kind: str, is_same: bool) -> None:
    for kernel, stride in itertools.product(KERNELS, STRIDES):
        for size, activation in itertools.product(sizes_of(kernel, stride, is_same), (0, 1)):
            data, feeds = tflite_file(kind, kernel, stride, size, is_same, activation)
            graph = with_fused_rules(read_tflite(data, "one"))
            assert Kind.OTHER not in {each.kind for each in graph.operators}
            ours, theirs = run_reference(graph, feeds)["y"], tflite_values(data, feeds)["y"]
            np.testing.assert_array_equal(ours, theirs, f"{kernel} {stride} {size}", strict=True)


@pytest.mark.parametrize("kernel", [(2, 2), (4, 4), (3, 3), (5, 3)])
def test_nothing_is_multiplied_by_the_zeros_between_pixels(kernel: tuple[int, int]) -> None:
    """But for a border: of 64 rows there are up to 66."""
    graph = read_onnx(onnx_layer("ConvTranspose", (1, 8, 64, 64), (8, 8, *kernel), strides=[2, 2]), "one")
    macs = sum(layer.workload.macs for layer in quantized_layers(graph))
    assert macs <= 1.07 * 64 * 64 * 8 * 8 * math.prod(kernel)


def onnx_layer(
    operator: str, shape: Sequence[int], weights: tuple[int, ...], axis: int | None = None, **attributes: Any
) -> bytes:
    rng, writer = np.random.default_rng(0), OnnxWriter(shape, "x0")
    parameters = [writer.constant("xs", 0.02), writer.constant("xz", 100, np.uint8)]
    writer.node("DequantizeLinear", [writer.node("QuantizeLinear", ["x0", *parameters], "xq"), *parameters], "xd")
    count = () if axis is None else (weights[axis],)
    stored = [writer.constant("w", rng.integers(-127, 128, weights), np.int8)]
    stored += [writer.constant("ws", rng.uniform(0.005, 0.02, count)), writer.constant("wz", np.zeros(count), np.int8)]
    writer.node("DequantizeLinear", stored, "wd", **({} if axis is None else {"axis": axis}))
    channels = weights[0] if operator == "Conv" else weights[1] * attributes.get("group", 1)
    bias = writer.constant("b", rng.normal(size=channels) * 0.3)
    made = writer.node("Relu", [writer.node(operator, ["xd", "wd", bias], "c", "layer", **attributes)], "r", "relu")
    parameters = [writer.constant("ys", 0.0613), writer.constant("yz", 30, np.uint8)]
    writer.node("DequantizeLinear", [writer.node("QuantizeLinear", [made, *parameters], "yq"), *parameters], "y")
    return bytes(writer.model("y").SerializeToString())


TRANSPOSED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 5, 6), (3, 8, 2, 2), {"strides": [2, 2]}),
    ((2, 3, 5, 6), (3, 8, 3, 3), {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}),
    ((2, 3, 5, 6), (3, 8, 4, 4), {"strides": [2, 2], "pads": [1] * 4}),
    ((2, 3, 5, 6), (3, 8, 3, 3), {"pads": [1] * 4}),
    ((2, 3, 5, 6), (3, 8, 3, 2), {"strides": [3, 2]}),
    ((2, 6, 5, 6), (6, 4, 4, 4), {"strides": [2, 2], "group": 2, "pads": [1] * 4}),
    ((2, 6, 5, 6), (6, 4, 3, 3), {"strides": [2, 2], "group": 2}),
    ((2, 6, 5, 6), (6, 1, 4, 4), {"strides": [2, 2], "group": 6}),
    ((2, 6, 5, 6), (6, 2, 3, 3), {"strides": [2, 2], "group": 6, "pads": [1] * 4}),
    ((2, 3, 5, 6), (3, 8, 3, 3), {"strides": [2, 2], "dilations": [2, 2]}),
    ((2, 3, 5, 6), (3, 8, 3, 3), {"strides": [2, 2], "pads": [2, 2, 1, 0]}),
    ((2, 3, 5, 6), (3, 8, 1, 1), {"strides": [2, 2]}),
    ((2, 3, 7), (3, 8, 4), {"strides": [2], "pads": [1, 1]}),
    ((2, 3, 5, 6), (3, 8, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((2, 3, 5, 6), (3, 8, 4, 3), {"strides": [2, 2], "output_shape": [11, 12]}),
    ((2, 3, 7), (3, 8, 3), {"strides": [2], "auto_pad": "SAME_UPPER", "output_shape": [14]}),
]


@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize(("shape", "weights", "attributes"), TRANSPOSED)
def test_transposed_convolutions_are_onnxruntime_s_but_for_ties(
    shape: tuple[int, ...], weights: tuple[int, ...], attributes: dict[str, Any], axis: int | None
) -> None:
    """It multiplies numbers: one step of difference where the sum is nearly a tie."""
    file = onnx_layer("ConvTranspose", shape, weights, axis, **attributes)
    graph, differ = compared(file, feeds_of([(shape, 0.02, 100)], np.uint8), 1)
    assert differ <= 2
    assert graph.operators[-1].kind is Kind.DEQUANTIZE


ONE_ROW: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 9, 32), (8, 9, 5), {}),
    ((2, 9, 32), (8, 9, 3), {"strides": [2], "pads": [1, 1], "dilations": [2]}),
    ((2, 8, 32), (8, 1, 3), {"group": 8, "pads": [1, 1]}),
    ((2, 8, 32), (6, 4, 3), {"group": 2, "auto_pad": "SAME_UPPER"}),
]


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize(("shape", "weights", "attributes"), ONE_ROW)
def test_convolutions_of_one_dimension_are_onnxruntime_s(
    shape: tuple[int, ...], weights: tuple[int, ...], attributes: dict[str, Any], axis: int | None
) -> None:
    file = onnx_layer("Conv", shape, weights, axis, **attributes)
    graph, differ = compared(file, feeds_of([(shape, 0.02, 100)], np.uint8))
    assert differ == 0
    (layer,) = quantized_layers(graph)
    assert layer.workload.data_shape[1] == 1
    assert layer.names == ("layer", "relu")


def read(file: bytes, path: Path) -> Graph:
    path.write_bytes(file)
    return read_model(path)


@pytest.mark.parametrize("case", one_in(3, [0, 1, 2, 6, 8]))
@pytest.mark.matrix(at_most=1)
def test_compiled_transposed_convolutions(case: int, native: Target, tmp_path: Path) -> None:
    shape, weights, attributes = TRANSPOSED[case]
    graph = read(onnx_layer("ConvTranspose", shape, weights, 1, **attributes), tmp_path / "model.onnx")
    assert_exact(graph, native, feeds_of([(shape, 0.02, 100)], np.uint8), tmp_path)


@pytest.mark.parametrize(("kernel", "stride"), one_in(3, [((5, 3), (1, 2)), ((3, 3), (2, 2)), ((2, 2), (2, 2))]))
def test_compiled_ones_are_litert_s(
    kernel: tuple[int, int], stride: tuple[int, int], native: Target, tmp_path: Path
) -> None:
    (size, *_) = sizes_of(kernel, stride, True)
    data, feeds = tflite_file("s8", kernel, stride, size, True, 1)
    ours = assert_exact(read(data, tmp_path / "model.tflite"), native, feeds, tmp_path)
    np.testing.assert_array_equal(ours["y"], tflite_values(data, feeds)["y"], strict=True)


def test_strides_that_spread_weights_too_far_are_no_layer() -> None:
    """Each place within a stride would be a convolution."""
    data, _ = tflite_file("s8", (2, 2), (65, 1), (260, 6), False)
    (found,) = obstacles(read_tflite(data, "far"))
    assert found.reason == "its strides must be at most 64: [65, 1]"


def row_network() -> bytes:
    """Convolutions of one dimension with a pool in between, as a classifier of signals has them."""
    rng, writer = np.random.default_rng(0), OnnxWriter([2, 9, 64], "x0")

    def stored(value: str, name: str) -> str:
        parameters = [writer.constant(f"{name}.s", 0.03), writer.constant(f"{name}.z", 120, np.uint8)]
        quantized = writer.node("QuantizeLinear", [value, *parameters], f"{name}.q")
        return writer.node("DequantizeLinear", [quantized, *parameters], f"{name}.d")

    def conv(data: str, name: str, *shape: int, **attributes: Any) -> str:
        weight = [writer.constant(f"{name}.w", rng.integers(-127, 128, shape), np.int8)]
        weight += [writer.constant(f"{name}.ws", 0.01), writer.constant(f"{name}.wz", 0, np.int8)]
        inputs = [data, writer.node("DequantizeLinear", weight, f"{name}.wd")]
        return stored(writer.node("Conv", inputs, f"{name}.c", name, **attributes), name)

    data = conv(stored("x0", "x"), "first", 16, 9, 5)
    data = stored(writer.node("MaxPool", [data], "pool", kernel_shape=[2], strides=[2]), "pooled")
    data = conv(data, "second", 8, 16, 3, dilations=[2])
    made = stored(writer.node("GlobalAveragePool", [data], "mean"), "y")
    return bytes(writer.model(made).SerializeToString())


@pytest.mark.thorough
def test_rows_stay_rows_between_layers(native: Target, tmp_path: Path) -> None:
    graph, feeds = read(row_network(), tmp_path / "model.onnx"), feeds_of([((2, 9, 64), 0.03, 120)], np.uint8)
    kinds = [each.kind for each in graph.operators]
    first, last = kinds.index(Kind.CONV2D), len(kinds) - kinds[::-1].index(Kind.CONV2D)
    assert kinds[first:last] == [Kind.CONV2D, Kind.MAX_POOL, Kind.CONV2D]
    ours = assert_exact(graph, native, feeds, tmp_path)
    theirs = onnx_values(row_network(), graph.outputs, feeds)
    for name in graph.outputs:
        np.testing.assert_array_equal(as_graph(theirs[name], ours[name].shape), ours[name], name, strict=True)
