"""Activations of 16 bits with weights of 8: layers bit for bit as LiteRT's reference kernels, the rest in float."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.islands.island import float_operators
from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.tflite_islands import compiled
from tests.support.models.tflite_models import Writer, values_of
from tests.support.run.thinned import one_in

pytest.importorskip("tflite", reason="needs the extra `models`")

Array = npt.NDArray[Any]
RNG = np.random.default_rng(6)
SHAPE = (1, 6, 8, 12)
SCALE = float(np.float32(0.000237))
ENDS = [-(1 << 15), (1 << 15) - 1]
OPTIONS = {"FULLY_CONNECTED": "FullyConnected", "CONV_2D": "Conv2D", "DEPTHWISE_CONV_2D": "DepthwiseConv2D"}
SHAPES = {"FULLY_CONNECTED": (9, 576), "CONV_2D": (9, 3, 3, 12), "DEPTHWISE_CONV_2D": (1, 3, 3, 12)}


def layer(w: Writer, word: str, data: int, name: str, activation: int = 0, *, largest: bool = False) -> int:
    """A layer with scales of channels, but for dense ones; `largest` has weights whose sums are as far as they go."""
    shape = SHAPES[word]
    axis = 3 if word.startswith("DEPTHWISE") else 0
    channels, is_dense = shape[axis], word == "FULLY_CONNECTED"
    values = np.full(shape, 127) if largest else RNG.integers(-127, 128, shape)
    weight = w.constant(f"{name}.w", "s8", values, 0.004)
    scales = np.full(1, 0.004) if is_dense else RNG.uniform(0.002, 0.006, channels)
    quantization = w.tensors[weight].quantization
    quantization.scale, quantization.zeroPoint = list(scales.astype(np.float32)), [0] * len(scales)
    quantization.quantizedDimension = axis
    bias = w.constant(f"{name}.b", "s64", RNG.integers(-(1 << 22), 1 << 22, channels), SCALE * 0.004)
    made = w.tensor(name, "s16", (1, 9) if is_dense else (*SHAPE[:3], channels), 3.1 * SCALE * (40 if largest else 1))
    fields: dict[str, Any] = {} if is_dense else {"strideH": 1, "strideW": 1}
    version = {"FULLY_CONNECTED": 7, "CONV_2D": 4, "DEPTHWISE_CONV_2D": 5}[word]
    w.operator(word, [data, weight, bias], [made], OPTIONS[word], version, fusedActivationFunction=activation, **fields)
    return made


def feeds() -> list[Array]:
    """Noise, values of one byte, and both ends."""
    made = [RNG.integers(*ENDS, SHAPE, endpoint=True), RNG.integers(-200, 200, SHAPE), RNG.choice(ENDS, SHAPE)]
    made += [np.full(SHAPE, end) for end in ENDS]
    return [each.astype(np.int16) for each in made]


def compared(file: bytes, folder: Path, inputs: list[Array]) -> list[tuple[str, Array, Array]]:
    """Each output by name, ours and LiteRT's."""
    model, found = compiled(file, folder), []
    for data in inputs:
        theirs = values_of(file, {"x": data})
        names = [form["name"] for form in model.about.outputs]
        found += [(name, one, theirs[name]) for name, one in zip(names, model.run([data]), strict=True)]
    return found


@pytest.mark.parametrize("word", one_in(3, ["FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D"]))
def test_layers_are_exact(word: str, tmp_path: Path) -> None:
    w = Writer()
    data = w.input("x", "s16", SHAPE, SCALE)
    made = [layer(w, word, data, f"{activation}", activation) for activation in (0, 1, 3)]
    file = w.model(*made, layer(w, word, data, "largest", largest=True))
    assert float_operators(read_tflite(file, "wide")) == {word: 4}
    for name, ours, theirs in compared(file, tmp_path, feeds()):
        np.testing.assert_array_equal(ours, theirs, name, strict=True)


@pytest.mark.parametrize("padding", [0, 1])
def test_transposed_convolutions_are_exact(padding: int, tmp_path: Path) -> None:
    w, made = Writer(), (1, 12, 24, 9) if padding == 0 else (1, 13, 25, 9)
    weight = w.constant("w", "s8", RNG.integers(-127, 128, (9, 3, 4, 12)), 0.004)
    quantization = w.tensors[weight].quantization
    quantization.scale, quantization.zeroPoint = list(RNG.uniform(0.002, 0.006, 9)), [0] * 9
    inputs = [w.constant("shape", "s32", made), weight, w.input("x", "s16", SHAPE, SCALE)]
    if padding:
        inputs.append(w.constant("b", "s64", RNG.integers(-(1 << 22), 1 << 22, 9), SCALE * 0.004))
    output = w.tensor("y", "s16", made, 2.3 * SCALE)
    fields = {"strideH": 2, "strideW": 3, "padding": padding, "fusedActivationFunction": padding}
    w.operator("TRANSPOSE_CONV", inputs, [output], "TransposeConv", 4, **fields)
    for name, ours, theirs in compared(w.model(output), tmp_path, feeds()):
        np.testing.assert_array_equal(ours, theirs, name, strict=True)


@pytest.mark.parametrize(
    "scales", [(2.0**-12, 2.0**-8, 2.0**-13), (0.000237, 0.0071, 0.00031), (0.00091, 0.0013, 0.00017)]
)
def test_dense_layers_round_as_a_product_in_binary64(scales: tuple[float, float, float], tmp_path: Path) -> None:
    """Ties, which the first scales have, are rounded away from zero."""
    w, (data_scale, weight_scale, made_scale) = Writer(), scales
    weight = w.constant("w", "s8", RNG.integers(-127, 128, (30, 40)), weight_scale)
    bias = w.constant("b", "s64", RNG.integers(-(1 << 20), 1 << 20, 30), data_scale * weight_scale)
    inputs, made = [w.input("x", "s16", (64, 40), data_scale), weight, bias], w.tensor("y", "s16", (64, 30), made_scale)
    w.operator("FULLY_CONNECTED", inputs, [made], "FullyConnected", 7)
    data = [RNG.integers(-most, most, (64, 40)).astype(np.int16) for most in (3000, 32767)]
    for name, ours, theirs in compared(w.model(made), tmp_path, data):
        np.testing.assert_array_equal(ours, theirs, name, strict=True)


def test_the_rest_is_near(tmp_path: Path) -> None:
    """Beside a layer: what LiteRT computes with integers of its own, one step off at most."""
    w = Writer()
    data = w.input("x", "s16", SHAPE, SCALE)

    def stored(word: str, inputs: list[int], scale: float, *options: Any, shape: Any = SHAPE, **fields: Any) -> int:
        made = w.tensor(word, "s16", shape, scale)
        w.operator(word, inputs, [made], *options, **fields)
        return made

    conv = layer(w, "DEPTHWISE_CONV_2D", data, "conv")
    window = {"filterHeight": 2, "filterWidth": 2, "strideH": 1, "strideW": 1}
    steps = {
        stored("ADD", [conv, data], 5 * SCALE, "Add", potScaleInt16=False): 1,
        stored("MUL", [conv, data], 90 * SCALE, "Mul"): 1,
        stored("AVERAGE_POOL_2D", [data], SCALE, "Pool2D", 3, **window): 1,
        stored("MAX_POOL_2D", [data], SCALE, "Pool2D", 3, **window): 0,
        stored("CONCATENATION", [data, data], SCALE, "Concatenation", 3, shape=(1, 6, 8, 24), axis=3): 0,
        stored("LOGISTIC", [data], 2.0**-15, "", 3): 0,
        stored("TANH", [data], 2.0**-15, "", 3): 0,
    }
    number = w.tensor("number", "f32", SHAPE)
    w.operator("DEQUANTIZE", [conv], [number], "", 3)
    again = w.tensor("again", "s16", SHAPE, 0.75 * SCALE)
    w.operator("QUANTIZE", [number], [again], "", 2)
    limits = {w.tensors[made].name: most for made, most in steps.items()} | {"number": 0, "again": 0}
    file = w.model(*steps, number, again)
    for name, ours, theirs in compared(file, tmp_path, feeds()):
        assert ours.dtype == theirs.dtype
        distance = np.abs(ours.astype(np.float64) - theirs).max()
        assert distance <= limits[name], (name, distance)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: setattr(w.tensors[0].quantization, "zeroPoint", [3]), "0 as zero point"),
        (lambda w: setattr(w.tensors[2], "type", 2), "its bias must have 64 bits: s32"),
        (lambda w: setattr(w.tensors[3].quantization, "scale", [1e-12]), "too far apart"),
    ],
)
def test_what_is_refused_says_why(change: Any, message: str) -> None:
    w = Writer()
    made = layer(w, "CONV_2D", w.input("x", "s16", SHAPE, SCALE), "conv")
    if "64" in message:
        w.buffers[w.tensors[2].buffer].data = w.buffers[w.tensors[2].buffer].data[:36]
    change(w)
    (found,) = obstacles(read_tflite(w.model(made), "wide"))
    assert message in found.reason
