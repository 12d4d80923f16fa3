"""Activations of 16 bits with weights of 8: layers bit for bit as LiteRT's reference kernels, the rest in float."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import int8tune as it
from int8tune.compiler.islands.island import exact_operators, float_operators
from int8tune.compiler.obstacles import obstacle_lines, obstacles
from int8tune.compiler.quantized_layers import quantized_layers
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.tflite_islands import compiled
from tests.support.models.tflite_models import Writer, values_of
from tests.support.models.tflite_words import (
    BITS,
    CONV,
    DENSE,
    DEPTHWISE,
    OPTIONS,
    SCALE,
    SHAPE,
    TRANSPOSED,
    VERSIONS,
    layer,
    network,
)
from tests.support.run.thinned import one_in, representatives

pytest.importorskip("tflite", reason="needs the extra `models`")

Array = npt.NDArray[Any]
RNG = np.random.default_rng(6)
ENDS = [-(1 << 15), (1 << 15) - 1]
# Scales of the data, the weights and the output; sums of the first ones are ties.
SCALES = [(2.0**-12, 2.0**-8, 2.0**-13), (0.000237, 0.0071, 0.00031), (0.00091, 0.0013, 0.00017)]


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


@pytest.mark.parametrize(
    ("word", "bits", "bias"),
    representatives(
        [
            *((word, 64, "s64") for word in OPTIONS),
            *((word, 64, "") for word in OPTIONS if word != CONV),
            *((word, 32, bias) for word in (DENSE, TRANSPOSED) for bias in ("s32", "")),
            (CONV, 32, "s32"),
        ]
    ),
)
@pytest.mark.matrix(at_most=2)
def test_layers_are_exact(word: str, bits: int, bias: str, tmp_path: Path) -> None:
    w = Writer()
    data = w.input("x", "s16", SHAPE, SCALE)
    made = [layer(w, word, data, f"{activation}", activation, bias=bias, bits=bits) for activation in (0, 1, 3)]
    file = w.model(*made, layer(w, word, data, "largest", bias=bias, bits=bits, largest=True))
    graph = read_tflite(file, "wide")
    assert float_operators(graph) == {}
    assert exact_operators(graph) == 4
    for name, ours, theirs in compared(file, tmp_path, feeds()):
        np.testing.assert_array_equal(ours, theirs, name, strict=True)


@pytest.mark.thorough
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (4, 2), (1, 2)])
def test_transposed_layers_of_all_plans_are_exact(kernel: int, stride: int, tmp_path: Path) -> None:
    """One convolution for all phases, or one for each."""
    w = Writer()
    data = w.input("x", "s16", SHAPE, SCALE)
    shape = (5, kernel, kernel, 12)
    made = [
        layer(w, TRANSPOSED, data, name, bias=f"s{bits}", bits=bits, shape=shape, stride=stride)
        for name, bits in (("long", 64), ("short", 32))
    ]
    for name, ours, theirs in compared(w.model(*made), tmp_path, feeds()):
        np.testing.assert_array_equal(ours, theirs, name, strict=True)


@pytest.mark.parametrize("word", one_in(2, [DENSE, CONV]))
def test_sums_of_32_bits_wrap_around(word: str, tmp_path: Path) -> None:
    """576 products of 127 with the largest data are more than 2^31."""
    w = Writer()
    data = w.input("x", "s16", (1, 1, 1, 576), SCALE)
    weight = w.constant("w", "s8", np.full((16, *([] if word == DENSE else [1, 1]), 576), 127), 0.004)
    bias = w.constant("b", "s32", RNG.integers(-(1 << 31), 1 << 31, 16), SCALE * 0.004)
    made = w.tensor("y", "s16", (1, 16) if word == DENSE else (1, 1, 1, 16), 400 * SCALE)
    fields = {} if word == DENSE else {"strideH": 1, "strideW": 1}
    w.operator(word, [data, weight, bias], [made], OPTIONS[word], VERSIONS[word], quantizedBiasType=2, **fields)
    inputs = [np.full((1, 1, 1, 576), end, np.int16) for end in (*ENDS, 29000, -31000)]
    for name, ours, theirs in compared(w.model(made), tmp_path, inputs):
        np.testing.assert_array_equal(ours, theirs, name, strict=True)


@pytest.mark.parametrize("padding", one_in(2, [0, 1]))
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
    ("scales", "bits"), representatives([(scales, bits) for scales in SCALES for bits in (32, 64)])
)
def test_dense_layers_round_as_a_product_in_binary64(
    scales: tuple[float, float, float], bits: int, tmp_path: Path
) -> None:
    """Ties are rounded away from zero."""
    w, (data_scale, weight_scale, made_scale) = Writer(), scales
    weight = w.constant("w", "s8", RNG.integers(-127, 128, (30, 40)), weight_scale)
    bias = w.constant("b", f"s{bits}", RNG.integers(-(1 << 20), 1 << 20, 30), data_scale * weight_scale)
    inputs, made = [w.input("x", "s16", (64, 40), data_scale), weight, bias], w.tensor("y", "s16", (64, 30), made_scale)
    w.operator(DENSE, inputs, [made], "FullyConnected", VERSIONS[DENSE], quantizedBiasType=BITS[bits])
    data = [RNG.integers(-most, most, (64, 40)).astype(np.int16) for most in (3000, 32767)]
    for name, ours, theirs in compared(w.model(made), tmp_path, data):
        np.testing.assert_array_equal(ours, theirs, name, strict=True)


@pytest.mark.thorough
def test_layers_one_after_the_other_are_exact(tmp_path: Path) -> None:
    for name, ours, theirs in compared(network(), tmp_path, feeds()):
        np.testing.assert_array_equal(ours, theirs, name, strict=True)


def test_layers_of_16_bits_are_int8_layers() -> None:
    w = Writer()
    made = layer(w, CONV, w.input("x", "s16", SHAPE, SCALE), "conv")
    found = quantized_layers(read_tflite(w.model(made), "wide"))
    assert [each.names for each in found] == [("conv (high bytes)",), ("conv (low bytes)",)]
    assert {each.workload.key for each in found} == {"conv2d-u8s8-1x6x8x12-k3x3x9-s1-p1-s32"}


def test_the_multiply_adds_of_a_layer_count_once(tmp_path: Path) -> None:
    """Beside a product in float that has as many, they are half of all."""
    w, rng = Writer(), np.random.default_rng(0)
    data = w.input("x", "s16", (4, 16), SCALE)
    rows, made = w.input("rows", "f32", (4, 16)), w.tensor("made", "f32", (4, 8))
    weight = w.constant("w", "s8", rng.integers(-127, 128, (8, 16)), 0.01)
    bias = w.constant("b", "s64", np.zeros(8, np.int64), float(np.float32(SCALE) * np.float32(0.01)))
    stored = w.tensor("stored", "s16", (4, 8), SCALE)
    w.operator(DENSE, [data, weight, bias], [stored], "FullyConnected", VERSIONS[DENSE])
    w.operator(DENSE, [rows, w.constant("f", "f32", rng.normal(size=(8, 16))), -1], [made], "FullyConnected", 1)
    path = tmp_path / "half.tflite"
    path.write_bytes(w.model(stored, made))
    found = it.layers(path)
    assert (found.macs, found.runs) == (4 * 16 * 8, 2)
    assert found.model is not None
    assert found.model.int8_share == 0.5


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


def test_of_operators_those_of_the_file_count() -> None:
    w = Writer()
    data = layer(w, CONV, w.input("x", "s16", SHAPE, SCALE), "conv", shape=(12, 3, 3, 12))
    first, *_ = obstacle_lines(read_tflite(w.model(layer(w, DEPTHWISE, data, "deep", bias="s32")), "wide"))
    assert first.startswith("wide: 1 of 2 operators can't be compiled")


def _with_scale(tensor: int, scale: float, zero_point: int = 0) -> Any:
    def change(w: Writer) -> None:
        w.tensors[tensor].quantization.scale = [scale]
        w.tensors[tensor].quantization.zeroPoint = [zero_point]

    return change


def _with_shape(tensor: int, *shape: int) -> Any:
    return lambda w: setattr(w.tensors[tensor], "shape", list(shape))


@pytest.mark.parametrize(
    ("word", "bias", "bits", "change", "message"),
    [
        (CONV, "s64", 64, _with_scale(0, SCALE, 3), "0 as zero point"),
        (CONV, "s32", 64, None, "the type that LiteRT reads by its quantized_bias_type, s64: s32"),
        (DENSE, "s64", 32, None, "the type that LiteRT reads by its quantized_bias_type, s32: s64"),
        (DEPTHWISE, "s32", 64, None, "the type that LiteRT always has for such data, s64: s32"),
        (TRANSPOSED, "s32", 64, None, "the type that LiteRT reads by its quantized_bias_type, s64: s32"),
        (CONV, "s64", 64, _with_shape(3, 1, 6, 7, 9), "its output must have shape (1, 6, 8, 9): (1, 6, 7, 9)"),
        (DENSE, "s64", 64, _with_shape(3, 2, 9), "its output must have 1 rows of 9 values: (2, 9)"),
        (TRANSPOSED, "s64", 64, _with_shape(4, 1, 8, 6, 9), "the shape that it says, [1, 6, 8, 9]: [1, 8, 6, 9]"),
        (CONV, "s64", 64, _with_scale(3, 1e-12), "too far apart"),
        (DENSE, "s64", 64, _with_scale(3, 1e-12), "too far apart"),
        (CONV, "s32", 32, _with_scale(3, 1e-30), "a multiplier must be below 2^30"),
        (TRANSPOSED, "s64", 64, _with_scale(4, 1e-12), "too far apart"),
    ],
)
def test_what_is_refused_says_why(word: str, bias: str, bits: int, change: Any, message: str) -> None:
    w = Writer()
    made = layer(w, word, w.input("x", "s16", SHAPE, SCALE), "conv", bias=bias, bits=bits)
    if change:
        change(w)
    (found,) = obstacles(read_tflite(w.model(made), "wide"))
    assert message in found.reason
