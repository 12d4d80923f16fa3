"""Layers with 8-bit weights on numbers: quantized at run time as LiteRT does, row by row or image by image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.islands.island import float_operators
from int8tune.compiler.obstacles import int8_share, obstacles
from int8tune.compiler.quantized_layers import quantized_layers
from int8tune.compiler.tflite_reader.model import read_tflite
from int8tune.schedules.workload import MAX_REDUCTION
from tests.support.models.onnx_islands import assert_close
from tests.support.models.tflite_islands import SHAPE, IslandWriter, outputs_of, stored_feed

pytest.importorskip("tflite", reason="needs the extra `models`")

RNG = np.random.default_rng(4)
CHANNELS = 7
WEIGHTS = {"FULLY_CONNECTED": (CHANNELS, 6), "CONV_2D": (CHANNELS, 3, 3, 6), "DEPTHWISE_CONV_2D": (1, 3, 3, 6)}
OPTIONS = {"FULLY_CONNECTED": "FullyConnected", "CONV_2D": "Conv2D", "DEPTHWISE_CONV_2D": "DepthwiseConv2D"}
# Those in which LiteRT has scales of channels.
VERSIONS = {"FULLY_CONNECTED": 9, "CONV_2D": 5, "DEPTHWISE_CONV_2D": 6}


def layer(
    w: IslandWriter, word: str, data: int, is_asymmetric: bool = False, is_one: bool = False, kind: str = "s8"
) -> int:
    """A layer; weights of u8 have the bits of those of s8."""
    channels, axis = (6, 3) if word.startswith("DEPTHWISE") else (CHANNELS, 0)
    bits = RNG.integers(-127, 128, WEIGHTS[word]).astype(np.int8).view(np.uint8 if kind == "u8" else np.int8)
    weight = w.constant(f"w{len(w.operators)}", kind, bits, 0.01)
    if not is_one:
        quantization = w.tensors[weight].quantization
        quantization.scale, quantization.zeroPoint = list(RNG.uniform(0.001, 0.02, channels)), [0] * channels
        quantization.quantizedDimension = axis
    fields: dict[str, Any] = {"strideH": 1, "strideW": 1, "fusedActivationFunction": 3}
    if word == "FULLY_CONNECTED":
        fields = {"asymmetricQuantizeInputs": is_asymmetric, "keepNumDims": True}
    inputs = [data, weight, RNG.normal(size=channels)]
    return w.apply(word, inputs, (*SHAPE[:3], channels), OPTIONS[word], version=VERSIONS[word], **fields)


def numbers(w: IslandWriter) -> int:
    """Values that are no multiples of anything: of ties, LiteRT's quantization goes either way. Some rows are 0."""
    sums = w.apply("ADD", [w.data, RNG.normal(size=SHAPE)], SHAPE, "Add")
    return w.apply("MUL", [sums, (np.arange(SHAPE[1]) > 0).astype(float)[:, None, None]], SHAPE, "Mul")


def test_hybrid_layers_are_litert_s(tmp_path: Path) -> None:
    w = IslandWriter()
    data = numbers(w)
    made = [layer(w, "FULLY_CONNECTED", data, how, is_one) for how in (False, True) for is_one in (False, True)]
    made += [layer(w, "CONV_2D", data), layer(w, "CONV_2D", data, is_one=True), layer(w, "DEPTHWISE_CONV_2D", data)]
    file = w.model(*made)
    graph = read_tflite(file, "hybrid")
    assert int8_share(graph) == 1
    assert len(quantized_layers(graph)) == 7
    floats = float_operators(graph)
    assert (floats["QUANTIZE"], floats["DEQUANTIZE"]) == (7, 7)
    assert_close(*outputs_of(file, tmp_path, {"x": stored_feed()}))


@pytest.mark.thorough
def test_sums_that_no_layer_has_are_litert_s(tmp_path: Path) -> None:
    """A row has more products than sums of 32 bits have room for."""
    features = MAX_REDUCTION + 7
    w = IslandWriter((2, features))
    data = w.apply("ADD", [w.data, RNG.normal(size=features)], (2, features), "Add")
    weight = w.constant("w", "s8", RNG.integers(-127, 128, (3, features)), 0.01)
    fields = {"version": 9, "asymmetricQuantizeInputs": True}
    made = w.apply("FULLY_CONNECTED", [data, weight, RNG.normal(size=3)], (2, 3), "FullyConnected", **fields)
    file = w.model(made)
    assert float_operators(read_tflite(file, "hybrid"))["FULLY_CONNECTED"] == 1
    assert_close(*outputs_of(file, tmp_path, {"x": stored_feed((2, features))}))


@pytest.mark.thorough
def test_weights_in_u8_are_read_as_s8(tmp_path: Path) -> None:
    w = IslandWriter()
    data = numbers(w)
    made = [layer(w, "FULLY_CONNECTED", data, how, is_one=True, kind="u8") for how in (False, True)]
    file = w.model(*made, layer(w, "CONV_2D", data, is_one=True, kind="u8"))
    assert_close(*outputs_of(file, tmp_path, {"x": stored_feed()}))


@pytest.mark.parametrize(
    ("word", "is_one"), [("FULLY_CONNECTED", False), ("CONV_2D", False), ("DEPTHWISE_CONV_2D", False)]
)
def test_weights_in_u8_with_scales_of_channels_are_refused(word: str, is_one: bool) -> None:
    w = IslandWriter()
    (found,) = obstacles(read_tflite(w.model(layer(w, word, w.data, is_one=is_one, kind="u8")), "hybrid"))
    assert found.reason == "LiteRT reads its weights of u8 as s8, and has one scale for them"


# Shapes of data and weights; which of them are turned; whether rows have zero points, and columns scales of their own.
PRODUCTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[bool, bool], bool, bool]] = {
    "one matrix of weights": ((3, 5, 16), (16, 9), (False, False), False, False),
    "one of several, turned": ((3, 5, 16), (9, 16), (False, True), True, True),
    "pairs of matrices": ((3, 5, 16), (3, 16, 9), (False, False), True, False),
    "pairs, all turned": ((3, 16, 5), (3, 9, 16), (True, True), False, True),
    "turned, of one matrix": ((3, 16, 5), (1, 16, 9), (True, False), True, False),
    "rows of several matrices": ((2, 3, 5, 8), (1, 1, 9, 8), (False, True), True, False),
    "weights along two axes": ((1, 1, 15, 16), (2, 3, 16, 9), (False, False), False, True),
    "weights along one of two axes": ((15, 16), (1, 3, 16, 9), (False, False), True, True),
    "data of two axes": ((16, 15), (16, 9), (True, False), True, False),
}


def product(w: IslandWriter, name: str, data: int) -> int:
    """A BATCH_MATMUL of numbers."""
    shape, weights, turns, is_asymmetric, has_scales = PRODUCTS[name]
    rows = w.apply("RESHAPE", [data, np.array(shape, np.int32)], shape, "Reshape")
    columns = weights[-2 if turns[1] else -1]
    weight = w.constant(f"{name}.w", "s8", RNG.integers(-127, 128, weights), 0.01)
    if has_scales:
        quantization = w.tensors[weight].quantization
        quantization.scale, quantization.zeroPoint = list(RNG.uniform(0.001, 0.02, columns)), [0] * columns
        quantization.quantizedDimension = len(weights) - (2 if turns[1] else 1)
    batches = np.broadcast_shapes(shape[:-2], weights[:-2])
    made = (*batches, shape[-1 if turns[0] else -2], columns)
    fields = {"adjX": turns[0], "adjY": turns[1], "asymmetricQuantizeInputs": is_asymmetric}
    return w.apply("BATCH_MATMUL", [rows, weight], made, "BatchMatMul", version=4, **fields)


@pytest.mark.thorough
@pytest.mark.parametrize("names", [[*PRODUCTS][at::3] for at in range(3)], ids=len)
def test_hybrid_products_of_matrices_are_litert_s(names: list[str], tmp_path: Path) -> None:
    w = IslandWriter((240,))
    data = w.apply("ADD", [w.data, RNG.normal(size=240)], (240,), "Add")
    zeros = w.apply("MUL", [data, (np.arange(240) > 33).astype(float)], (240,), "Mul")
    file = w.model(*(product(w, name, zeros) for name in names))
    assert float_operators(read_tflite(file, "hybrid"))["BATCH_MATMUL"] == len(names)
    assert_close(*outputs_of(file, tmp_path, {"x": stored_feed((240,))}))


@pytest.mark.parametrize(
    ("shape", "weights", "is_asymmetric", "message"),
    [
        ((2, 3, 5, 8), (8, 9), False, "its data must have matrices along one axis, as LiteRT counts them: [2, 3]"),
        ((5, 8), (2, 3, 8, 9), True, "its weights must have matrices along one axis, as LiteRT counts them: [2, 3]"),
        ((5, 8), (2, 1, 1, 8, 9), True, "its weights must have at most 4 axes: [2, 1, 1, 8, 9]"),
    ],
)
def test_products_whose_scales_litert_takes_from_other_rows_are_refused(
    shape: tuple[int, ...], weights: tuple[int, ...], is_asymmetric: bool, message: str
) -> None:
    w = IslandWriter(shape)
    weight = w.constant("w", "s8", RNG.integers(-127, 128, weights), 0.01)
    made = (*np.broadcast_shapes(shape[:-2], weights[:-2]), shape[-2], weights[-1])
    fields = {"asymmetricQuantizeInputs": is_asymmetric}
    name = w.apply("BATCH_MATMUL", [w.data, weight], made, "BatchMatMul", version=4, **fields)
    (found,) = obstacles(read_tflite(w.model(name), "hybrid"))
    assert found.reason == message


# Padding, scales for each channel, and whether there is a bias.
TRANSPOSED = {"same": (0, True, True), "valid": (1, False, True), "without a bias": (0, False, False)}


def transposed(w: IslandWriter, name: str, data: int) -> int:
    """A TRANSPOSE_CONV of numbers, with stride 2 in rows and 3 in columns."""
    padding, has_scales, has_bias = TRANSPOSED[name]
    weight = w.constant(f"{name}.w", "s8", RNG.integers(-127, 128, (CHANNELS, 3, 4, 6)), 0.01)
    if has_scales:
        quantization = w.tensors[weight].quantization
        quantization.scale, quantization.zeroPoint = list(RNG.uniform(0.001, 0.02, CHANNELS)), [0] * CHANNELS
    made = (SHAPE[0], 10, 24, CHANNELS) if padding == 0 else (SHAPE[0], 11, 25, CHANNELS)
    inputs = [np.array(made, np.int32), weight, data, *([RNG.normal(size=CHANNELS)] * has_bias)]
    fields = {"strideH": 2, "strideW": 3, "padding": padding, "fusedActivationFunction": 1}
    return w.apply("TRANSPOSE_CONV", inputs, made, "TransposeConv", version=4, **fields)


@pytest.mark.thorough
def test_hybrid_transposed_convolutions_are_litert_s(tmp_path: Path) -> None:
    w = IslandWriter()
    data = numbers(w)
    file = w.model(*(transposed(w, name, data) for name in TRANSPOSED))
    assert float_operators(read_tflite(file, "hybrid"))["TRANSPOSE_CONV"] == len(TRANSPOSED)
    assert_close(*outputs_of(file, tmp_path, {"x": stored_feed()}))


@pytest.mark.thorough
def test_a_single_scale_of_a_single_depthwise_channel_is_litert_s(tmp_path: Path) -> None:
    w = IslandWriter((*SHAPE[:3], 1))
    data = w.apply("ADD", [w.data, RNG.normal(size=w.tensors[w.data].shape)], (*SHAPE[:3], 1), "Add")
    weight = w.constant("w", "s8", RNG.integers(-127, 128, (1, 3, 3, 1)), 0.01)
    fields = {"strideH": 1, "strideW": 1}
    # Without a bias LiteRT reads one from anywhere.
    inputs, made = [data, weight, RNG.normal(size=1)], (*SHAPE[:3], 1)
    file = w.model(w.apply("DEPTHWISE_CONV_2D", inputs, made, "DepthwiseConv2D", version=6, **fields))
    assert len(quantized_layers(read_tflite(file, "hybrid"))) == 1
    assert_close(*outputs_of(file, tmp_path, {"x": stored_feed((*SHAPE[:3], 1))}))


@pytest.mark.thorough
def test_a_model_whose_weights_alone_are_quantized_is_compiled(tmp_path: Path) -> None:
    w = IslandWriter()
    data = w.input("numbers", "f32", SHAPE)
    hidden = layer(w, "CONV_2D", data)
    pooled = w.apply("MEAN", [hidden, np.array([1, 2], np.int32)], (2, CHANNELS), "Reducer")
    file = w.model(w.apply("SOFTMAX", [pooled], (2, CHANNELS), "Softmax", beta=1.0))
    feed = RNG.normal(size=SHAPE).astype(np.float32)
    assert_close(*outputs_of(file, tmp_path, {"numbers": feed, "x": stored_feed()}))


@pytest.mark.parametrize(
    ("word", "zero_point", "message"),
    [("DEPTHWISE_CONV_2D", 0, "a scale for each channel"), ("CONV_2D", 3, "constant and symmetric")],
)
def test_what_is_not_litert_s_is_refused(word: str, zero_point: int, message: str) -> None:
    w = IslandWriter()
    made = layer(w, word, w.data, is_one=True)
    w.tensors[w.operators[-1].inputs[1]].quantization.zeroPoint = [zero_point]
    (found,) = obstacles(read_tflite(w.model(made), "hybrid"))
    assert message in found.reason
