"""Layers with 8-bit weights on numbers: quantized at run time as LiteRT does, row by row or image by image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.islands.island import float_operators
from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.onnx_islands import assert_close
from tests.support.models.tflite_islands import SHAPE, IslandWriter, outputs_of, stored_feed

pytest.importorskip("tflite", reason="needs the extra `models`")

RNG = np.random.default_rng(4)
CHANNELS = 7
WEIGHTS = {"FULLY_CONNECTED": (CHANNELS, 6), "CONV_2D": (CHANNELS, 3, 3, 6), "DEPTHWISE_CONV_2D": (1, 3, 3, 6)}
OPTIONS = {"FULLY_CONNECTED": "FullyConnected", "CONV_2D": "Conv2D", "DEPTHWISE_CONV_2D": "DepthwiseConv2D"}
# Those in which LiteRT has scales of channels.
VERSIONS = {"FULLY_CONNECTED": 9, "CONV_2D": 5, "DEPTHWISE_CONV_2D": 6}


def layer(w: IslandWriter, word: str, data: int, is_asymmetric: bool = False, is_one: bool = False) -> int:
    channels, axis = (6, 3) if word.startswith("DEPTHWISE") else (CHANNELS, 0)
    weight = w.constant(f"w{len(w.operators)}", "s8", RNG.integers(-127, 128, WEIGHTS[word]), 0.01)
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
    floats = float_operators(read_tflite(file, "hybrid"))
    assert (floats["FULLY_CONNECTED"], floats["CONV_2D"], floats["DEPTHWISE_CONV_2D"]) == (4, 2, 1)
    assert_close(*outputs_of(file, tmp_path, {"x": stored_feed()}))


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
