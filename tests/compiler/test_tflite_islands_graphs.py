"""TFLite models with islands: what of them stays exact, and what LiteRT computes with 8 bits and islands in float."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.graph import Kind
from int8tune.compiler.islands.island import float_operators
from int8tune.compiler.model import read_model
from int8tune.compiler.obstacles import float_lines
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.compiled import assert_close_but_exact_integers
from tests.support.models.onnx_islands import OF_LARGEST, RELATIVE
from tests.support.models.tflite_islands import FORM, SHAPE, IslandWriter, outputs_of, stored_feed
from tests.support.models.tflite_models import DTYPES, Writer, values_of
from tests.support.run.probes import host_target

pytest.importorskip("tflite", reason="needs the extra `models`")

RNG = np.random.default_rng(2)
STEP = 1
Form = tuple[str, tuple[int, ...], float, int]
Array = npt.NDArray[Any]


def stored(w: IslandWriter, word: str, inputs: list[Any], form: Form, options: str = "", **fields: Any) -> int:
    """An operator whose output is stored in 8 bits."""
    made = w.tensor(f"{word}.{len(w.operators)}", *form)
    w.operator(word, inputs, [made], options, fields.pop("version", 2), **fields)
    return made


def quantized_operators(w: IslandWriter) -> list[int]:
    """Those that LiteRT computes with integers, most of them without a kernel here; one step off at most."""
    row = w.constant("row", "s8", RNG.integers(-128, 128, SHAPE[-1]), 0.02, 5)
    same: Form = ("s8", SHAPE, *FORM)
    small: Form = ("s8", SHAPE, 1 / 128, 0)
    x = w.stored
    return [
        stored(w, "SQUARED_DIFFERENCE", [x, row], ("s8", SHAPE, 0.2, -100), "SquaredDifference"),
        stored(w, "MAXIMUM", [x, w.constant("other", "s8", RNG.integers(-128, 128, SHAPE[-1]), *FORM)], same),
        stored(w, "L2_NORMALIZATION", [x], small, "L2Norm"),
        stored(w, "LOG_SOFTMAX", [x], ("s8", SHAPE, 16 / 256, 127), "LogSoftmax"),
        stored(w, "BATCH_MATMUL", [x, x], ("s8", (2, 5, 8, 8), 0.5, 3), "BatchMatMul", adjY=True, version=4),
        stored(w, "CONCATENATION", [x, x], ("s8", (2, 5, 8, 12), *FORM), "Concatenation", axis=3),
    ]


@pytest.mark.thorough
def test_quantized_operators_are_one_step_off_at_most(tmp_path: Path) -> None:
    w = IslandWriter()
    file = w.model(*quantized_operators(w))
    floats = float_operators(read_tflite(file, "islands"))
    assert set(floats) == {"L2_NORMALIZATION", "LOG_SOFTMAX"}
    ours, theirs = outputs_of(file, tmp_path, {"x": stored_feed()})
    for name, expected in theirs.items():
        distance = np.abs(ours[name].astype(int) - expected)
        assert distance.max() <= STEP, name
        assert (distance > 0).mean() < 0.05, name


@pytest.mark.thorough
def test_stored_values_are_moved_as_they_are(tmp_path: Path) -> None:
    w = IslandWriter()
    flat = w.apply("RESHAPE", [w.data, np.array([-1], np.int32)], (480,))
    few = w.apply("SLICE", [flat, np.array([0], np.int32), np.array([4], np.int32)], (4,))
    scaled = w.apply("MUL", [w.apply("LOGISTIC", [few], (4,)), np.array(7.9)], (4,), "Mul")
    places = w.apply("CAST", [scaled], (4,), "Cast", kind="s32")
    is_large = w.apply("GREATER", [w.data, np.array(0.0)], SHAPE, kind="bool")
    made = [
        stored(w, "GATHER", [w.stored, places], ("s8", (2, 5, 4, 6), *FORM), "Gather", axis=2),
        stored(w, "SELECT_V2", [is_large, w.stored, w.stored], ("s8", SHAPE, *FORM)),
        w.apply("CAST", [w.stored], SHAPE, "Cast"),
    ]
    ours, theirs = outputs_of(w.model(*made), tmp_path, {"x": stored_feed()})
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected, name, strict=True)


LIMITS = {"u8": (0, 255), "s8": (-128, 127), "s16": (-(1 << 15), (1 << 15) - 1), "s32": (-(1 << 31), (1 << 31) - 1)}
PLACES = np.array([[0], [5], [2], [2], [2], [1]], np.int32)


def moved(w: Writer, kind: str) -> tuple[list[int], Array]:
    """Operators on a kind of integers, most of which are moved as they are, and what they are given."""
    low, high = LIMITS[kind]
    given = np.random.default_rng(3).integers(low, high, (6, 6), endpoint=True).astype(DTYPES[kind])
    given.reshape(-1)[:3] = low, high, 0
    form = () if kind == "s32" else (0.5, 0 if kind == "s16" else low + 100)
    x = w.input(kind, kind, (6, 6), *form)
    counts = w.constant(f"{kind} counts", kind, np.array([0, 1, 5, 7, 100, high // 2]), *form)

    def apply(word: str, inputs: list[int], shape: Sequence[int] = (6, 6), options: str = "", **fields: Any) -> int:
        made = w.tensor(f"{kind} {word}", kind, shape, *form)
        w.operator(word, inputs, [made], options, 1, **fields)
        return made

    places, size = w.constant(f"{kind} places", "s32", PLACES), w.constant(f"{kind} size", "s32", [7, 6])
    one, twice = w.constant(f"{kind} one", kind, 3, *form), w.constant(f"{kind} twice", "s32", [1, 2])
    made = [
        apply("MATRIX_DIAG", [x], (6, 6, 6)),
        apply("MATRIX_SET_DIAG", [x, counts]),
        apply("DILATE", [x, twice, one], (6, 11)),
        apply("BITWISE_XOR", [x, counts]),
        apply("RIGHT_SHIFT", [x, counts]),
    ]
    if kind != "s16":
        made.append(apply("SCATTER_ND", [places, x, size], (7, 6)))
    if kind != "s8":
        lengths = w.constant(f"{kind} lengths", "s32", [6, 0, 1, 3, 5, 2])
        made.append(apply("REVERSE_SEQUENCE", [x, lengths], options="ReverseSequence", seqDim=0, batchDim=1))
    return made, given


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["s8", "u8", "s16", "s32"])
def test_integers_are_moved_bit_for_bit(kind: str, tmp_path: Path) -> None:
    w = IslandWriter((4,))
    made, given = moved(w, kind)
    file = w.model(*made, w.data)
    ours, theirs = outputs_of(file, tmp_path, {"x": stored_feed((4,)), kind: given})
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected, name, strict=True)


REALS = [0, 1, -1, 127.5, -128.9, 255.9, -1.5, 32767.6, -32769, 2147483520, 2147483648, -3e9, 1e20, np.inf, -np.inf]
WHOLES = [0, 1, -1, 127, -128, 255, 256, -129, 32767, -32768, 65537]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["f32", "f16", "f64", "s32", "s64", "s16", "s8", "u8", "bool"])
def test_every_type_becomes_every_other_bit_for_bit(kind: str, tmp_path: Path) -> None:
    w = IslandWriter((4,))
    with np.errstate(all="ignore"):
        given = np.array([*REALS, np.nan] if kind.startswith("f") else WHOLES).astype(DTYPES[kind])
    x = w.input("given", kind, given.shape)
    others = [each for each in DTYPES if each != kind]
    made = [w.tensor(other, other, given.shape) for other in others]
    for each in made:
        w.operator("CAST", [x], [each], "Cast", 1)
    ours, theirs = outputs_of(w.model(*made, w.data), tmp_path, {"x": stored_feed((4,)), "given": given})
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected, name, strict=True)


def partly_quantized() -> bytes:
    """An int8 convolution, attention and a head in float, a residual in int8 behind it."""
    w = Writer()
    data = w.input("x", "s8", (1, 8, 8, 4), 0.05, -3)
    weight = w.constant("w", "s8", RNG.integers(-127, 128, (8, 3, 3, 4)), 0.01)
    bias = w.constant("b", "s32", RNG.integers(-500, 500, 8), 0.0005)
    conv = w.tensor("conv", "s8", (1, 8, 8, 8), 0.1, 4)
    once = {"strideH": 1, "strideW": 1}
    w.operator("CONV_2D", [data, weight, bias], [conv], "Conv2D", **once)
    names = {}
    for name, shape in {"real": (1, 8, 8, 8), "rows": (1, 64, 8), "scores": (1, 64, 64), "shares": (1, 64, 64)}.items():
        names[name] = w.tensor(name, "f32", shape)
    mixed, image, wide = (
        w.tensor(name, "f32", shape)
        for name, shape in (("mixed", (1, 64, 8)), ("image", (1, 8, 8, 8)), ("wide", (1, 8, 8, 8)))
    )
    w.operator("DEQUANTIZE", [conv], [names["real"]])
    w.operator("RESHAPE", [names["real"], w.constant("to rows", "s32", [1, 64, 8])], [names["rows"]], "Reshape", 1)
    w.operator("BATCH_MATMUL", [names["rows"], names["rows"]], [names["scores"]], "BatchMatMul", adjY=True)
    w.operator("SOFTMAX", [names["scores"]], [names["shares"]], "Softmax", beta=0.1)
    w.operator("BATCH_MATMUL", [names["shares"], names["rows"]], [mixed], "BatchMatMul")
    w.operator("RESHAPE", [mixed, w.constant("to image", "s32", [1, 8, 8, 8])], [image], "Reshape", 1)
    half = w.constant("half", "f16", RNG.normal(size=(8, 3, 3, 8)))
    number = w.tensor("number", "f32", (8, 3, 3, 8))
    w.operator("DEQUANTIZE", [half], [number])
    zero = w.constant("zero", "f32", np.zeros(8))
    w.operator("CONV_2D", [image, number, zero], [wide], "Conv2D", fusedActivationFunction=1, **once)
    again, made = w.tensor("again", "s8", (1, 8, 8, 8), 0.1, -5), w.tensor("y", "s8", (1, 8, 8, 8), 0.2, 0)
    w.operator("QUANTIZE", [wide], [again])
    w.operator("ADD", [again, conv], [made], "Add")
    return w.model(made, wide)


def test_integers_around_islands_are_exact(tmp_path: Path) -> None:
    path = tmp_path / "part.tflite"
    path.write_bytes(partly_quantized())
    graph, feed = read_model(path), {"x": stored_feed((1, 8, 8, 4))}
    assert float_operators(graph) == {"BATCH_MATMUL": 2, "SOFTMAX": 1, "CONV_2D": 1}
    assert [each.kind for each in graph.operators].count(Kind.CONV2D) == 1
    assert "4 are computed in float; int8 layers are" in float_lines(graph)[0]
    assert_close_but_exact_integers(graph, host_target(), feed, tmp_path, RELATIVE, OF_LARGEST)


def test_a_partly_quantized_model_is_litert_s(tmp_path: Path) -> None:
    file, feed = partly_quantized(), {"x": stored_feed((1, 8, 8, 4))}
    ours, _ = outputs_of(file, tmp_path, feed)
    theirs = values_of(file, feed)
    np.testing.assert_allclose(ours["wide"], theirs["wide"], 1e-5, 1e-5 * np.abs(theirs["wide"]).max())
    assert np.abs(ours["y"].astype(int) - theirs["y"]).max() <= STEP
