"""Operators that LiteRT computes in integers, where numbers would be one step off: bit for bit its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.graph import Kind
from int8tune.compiler.interpreter import run_reference
from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.tflite_islands import compiled
from tests.support.models.tflite_models import DTYPES, Writer, values_of

pytest.importorskip("tflite", reason="needs the extra `models`")

Array = npt.NDArray[Any]
Form = tuple[str, tuple[int, ...], float, int]
WORDS = (64, 130)
BYTE = np.arange(-128, 128).astype(np.int8)


def written(
    word: str, inputs: Sequence[Form], output: Form, options: str = "", version: int = 2, **fields: Any
) -> bytes:
    w = Writer()
    taken = [w.input(f"x{at}", *form) for at, form in enumerate(inputs)]
    made = w.tensor("y", *output)
    w.operator(word, taken, [made], options, version, **fields)
    return w.model(made)


def words(shape: Sequence[int], seed: int) -> Array:
    """Both ends of the type beside each other, numbers near 0, and noise."""
    rng = np.random.default_rng(seed)
    made = rng.integers(-32768, 32768, shape).astype(np.int16)
    flat = made.reshape(-1)
    flat[: flat.size // 8] = rng.choice([-32768, 32767], flat.size // 8)
    flat[flat.size // 8 : flat.size // 2] = rng.integers(-40, 41, flat.size // 2 - flat.size // 8)
    return made


def assert_litert_s(file: bytes, feeds: dict[str, Array], kind: Kind | None = None) -> None:
    graph = read_tflite(file, "fixed")
    assert Kind.FLOAT not in [operator.kind for operator in graph.operators]
    assert kind is None or [operator.kind for operator in graph.operators] == [kind]
    np.testing.assert_array_equal(run_reference(graph, feeds)["y"], values_of(file, feeds)["y"], strict=True)


def reason(file: bytes) -> str:
    (found,) = obstacles(read_tflite(file, "fixed"))
    return found.reason


def word(operator: str, scales: Sequence[float], other: tuple[int, ...] = WORDS, **fields: Any) -> bytes:
    """A sum, difference or product of values of 16 bits."""
    inputs: list[Form] = [("s16", WORDS, scales[0], 0), ("s16", other, scales[1], 0)]
    return written(operator, inputs, ("s16", WORDS, scales[2], 0), operator.capitalize(), **fields)


POWERS = {"potScaleInt16": True}
# With the scales of both values and of what is made.
WORD_OPERATORS: dict[str, bytes] = {
    "sum": word("ADD", (0.0003, 0.006, 0.0012), potScaleInt16=False),
    "sum with a row, above 0": word("ADD", (0.0003, 0.0001, 0.00005), (1, 130), fusedActivationFunction=1),
    "sum of powers of two that are no powers to the operator": word(
        "ADD", (2**-10, 2**-12, 2**-11), potScaleInt16=False
    ),
    "sum of powers of two": word("ADD", (2**-10, 2**-13, 2**-10), **POWERS),
    "sum of powers of two, the first shifted": word(
        "ADD", (2**-12, 2**-11, 2**-11), fusedActivationFunction=3, **POWERS
    ),
    "difference": word("SUB", (0.0003, 0.006, 0.0012), potScaleInt16=False),
    "difference with a number": word("SUB", (0.0003, 0.0001, 0.0002), (1, 1), fusedActivationFunction=2),
    "difference of powers of two": word("SUB", (2**-10, 2**-13, 2**-10), **POWERS),
    "difference with a row of powers of two": word("SUB", (2**-12, 2**-11, 2**-11), (1, 130), **POWERS),
    "product": word("MUL", (0.0003, 0.006, 0.002)),
    "product with a row, to 6": word("MUL", (0.0003, 0.0001, 0.00071), (1, 130), fusedActivationFunction=3),
}


def feeds_of(file: bytes) -> dict[str, Array]:
    graph = read_tflite(file, "fixed")
    return {name: words(graph.values[name].shape, at) for at, name in enumerate(graph.inputs)}


@pytest.mark.parametrize("name", list(WORD_OPERATORS))
def test_words_are_added_and_multiplied_in_integers(name: str) -> None:
    assert_litert_s(WORD_OPERATORS[name], feeds_of(WORD_OPERATORS[name]), Kind.WORD_ARITHMETIC)


@pytest.mark.thorough
@pytest.mark.parametrize("operator", ["ADD", "SUB", "MUL"])
def test_words_of_any_scales_are_litert_s(operator: str) -> None:
    rng = np.random.default_rng(3)
    for powers in [False, True] * 20:
        one, other = (float(np.float32(10 ** rng.uniform(-5, 0))) for _ in range(2))
        made = one * other * 20000 if operator == "MUL" else max(one, other)
        fields = {} if operator == "MUL" else {"potScaleInt16": powers}
        file = word(operator, (one, other, float(np.float32(made * 10 ** rng.uniform(-1, 1)))), **fields)
        assert_litert_s(file, feeds_of(file), Kind.WORD_ARITHMETIC)


@pytest.mark.parametrize("name", ["sum with a row, above 0", "difference of powers of two", "product"])
def test_compiled_words_are_litert_s(name: str, tmp_path: Path) -> None:
    file, feeds = WORD_OPERATORS[name], feeds_of(WORD_OPERATORS[name])
    (made,) = compiled(file, tmp_path).run(list(feeds.values()))
    np.testing.assert_array_equal(made, values_of(file, feeds)["y"], strict=True)


REFUSED = {
    "both shifted": (word("SUB", (2**-12, 2**-11, 2**-10), **POWERS), "one of its scales must be that of its output"),
    "a row of powers of two": (word("ADD", (2**-11, 2**-12, 2**-11), (1, 130), **POWERS), "of one shape only"),
    "hardly a power of two": (word("ADD", (2**-12.001, 2**-11, 2**-10), **POWERS), "hardly a power of two"),
    "far apart": (word("ADD", (0.1, 0.1, 1e-6), potScaleInt16=False), "the sum's scale must be above 2^-14"),
    "too large a product": (word("MUL", (0.1, 0.1, 0.001)), "the product of its scales must be below"),
    "another type": (
        written("MUL", [("s16", (4,), 0.1, 0)] * 2, ("s8", (4,), 0.1, 0), "Mul", 4),
        "its values must be 8-bit integers: s16",
    ),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_words_that_litert_has_no_integers_for_are_refused(name: str) -> None:
    file, message = REFUSED[name]
    assert message in reason(file)


def pool(shape: tuple[int, ...], kernel: tuple[int, int], made: tuple[int, ...], **fields: Any) -> bytes:
    window = {"filterHeight": kernel[0], "filterWidth": kernel[1], **fields}
    return written("AVERAGE_POOL_2D", [("s16", shape, 0.001, 0)], ("s16", made, 0.001, 0), "Pool2D", 3, **window)


POOLS = {
    "with a border": pool((2, 9, 11, 5), (3, 4), (2, 5, 6, 5), strideH=2, strideW=2, padding=0),
    "above 0": pool((1, 7, 7, 3), (7, 7), (1, 1, 1, 3), strideH=1, strideW=1, padding=1, fusedActivationFunction=1),
    "of more than binary32 has whole": pool((1, 40, 40, 2), (40, 40), (1, 1, 1, 2), strideH=1, strideW=1, padding=1),
}


def barely_below_a_half() -> dict[str, Array]:
    """Sums of 1600 k + 799, and the same below 0: binary32 rounds them to 1600 k + 800, which is the next average."""
    data = np.full((1600, 2), 32000, np.int16)
    data[:799] += 1
    return {"x0": (data * np.array([1, -1], np.int16)).reshape(1, 40, 40, 2)}


@pytest.mark.parametrize("name", list(POOLS))
def test_averages_of_words_are_litert_s(name: str, tmp_path: Path) -> None:
    file, feeds = POOLS[name], feeds_of(POOLS[name])
    feeds["x0"][0] = 32767
    assert_litert_s(file, feeds, Kind.AVERAGE_POOL)
    (made,) = compiled(file, tmp_path).run(list(feeds.values()))
    np.testing.assert_array_equal(made, values_of(file, feeds)["y"], strict=True)


def test_averages_of_sums_that_binary32_has_not_are_litert_s(tmp_path: Path) -> None:
    file, feeds = POOLS["of more than binary32 has whole"], barely_below_a_half()
    (made,) = compiled(file, tmp_path).run(list(feeds.values()))
    assert made.ravel().tolist() == [32000, -32000]
    np.testing.assert_array_equal(made, values_of(file, feeds)["y"], strict=True)


def assert_roots(operator: str, scales: tuple[float, float], points: tuple[int, int]) -> None:
    data: Form = ("s8", (256,), scales[0], points[0])
    file = written(operator, [data], ("s8", (256,), scales[1], points[1]))
    assert_litert_s(file, {"x0": np.maximum(BYTE, points[0])}, Kind.LOOKUP)


@pytest.mark.parametrize("operator", ["SQRT", "RSQRT"])
def test_roots_are_litert_s(operator: str) -> None:
    for scales, points in (((0.03, 0.02), (3, -5)), ((2**-8, 2**-8), (-128, -128)), ((2**-8, 0.5), (-128, -100))):
        assert_roots(operator, scales, points)


@pytest.mark.thorough
@pytest.mark.parametrize("operator", ["SQRT", "RSQRT"])
def test_roots_of_any_scales_are_litert_s(operator: str) -> None:
    rng = np.random.default_rng(4)
    for _ in range(60):
        scale = 10 ** rng.uniform(-5, 0.3)
        made = np.sqrt(scale) ** (1 if operator == "SQRT" else -1) * 10 ** rng.uniform(-2, 1)
        points = int(rng.integers(-128, 128)), int(rng.integers(-128, 128))
        assert_roots(operator, (float(np.float32(scale)), float(np.float32(made))), points)


def assert_pairs(operator: str, kind: str, scales: Sequence[float], points: Sequence[int]) -> None:
    """Every pair of stored values; LiteRT divides by none that stands for 0."""
    low = np.iinfo(DTYPES[kind]).min
    every = np.arange(low, low + 256).astype(DTYPES[kind])
    divisors = np.where(every == points[1], points[1] + 1, every).astype(every.dtype)
    inputs: list[Form] = [(kind, (256, 1), scales[0], points[0]), (kind, (1, 256), scales[1], points[1])]
    options = "Div" if operator == "DIV" else ""
    file = written(operator, inputs, (kind, (256, 256), scales[2], points[2]), options)
    other = divisors if operator == "DIV" else every
    assert_litert_s(file, {"x0": every.reshape(256, 1), "x1": other.reshape(1, 256)})


PAIRS: list[tuple[str, str, tuple[float, float, float], tuple[int, int, int]]] = [
    ("SQUARED_DIFFERENCE", "s8", (0.03, 0.02, 0.05), (3, -2, -128)),
    ("SQUARED_DIFFERENCE", "s8", (0.01, 0.2, 0.4), (-128, 127, 5)),
    ("DIV", "s8", (0.03, 0.02, 0.01), (3, -2, 5)),
    ("DIV", "u8", (0.03, 0.02, 0.002), (100, 0, 128)),
]


@pytest.mark.parametrize(("operator", "kind", "scales", "points"), PAIRS)
def test_every_pair_is_litert_s(
    operator: str, kind: str, scales: tuple[float, float, float], points: tuple[int, int, int]
) -> None:
    assert_pairs(operator, kind, scales, points)


@pytest.mark.thorough
@pytest.mark.parametrize("operator", ["SQUARED_DIFFERENCE", "DIV"])
def test_pairs_of_any_scales_are_litert_s(operator: str) -> None:
    rng = np.random.default_rng(5)
    for _ in range(30):
        one, other = (float(np.float32(10 ** rng.uniform(-3, 0))) for _ in range(2))
        made = max(one, other) ** 2 * 100 if operator != "DIV" else one / other / 200
        points = [int(point) for point in rng.integers(-128, 127, 3)]
        assert_pairs(operator, "s8", (one, other, float(np.float32(made))), points)


def test_too_small_a_scale_of_squares_is_refused() -> None:
    forms: list[Form] = [("s8", (4,), 1.0, 0)] * 2
    assert "its output's scale must be above" in reason(written("SQUARED_DIFFERENCE", forms, ("s8", (4,), 1e-5, 0)))


def reduction(operator: str, kind: str, scales: tuple[float, float], keep: bool) -> bytes:
    w = Writer()
    w.input("unused", "s8", (1,), 0.1, 0)
    forms = [(scale, 0) if kind in ("s8", "u8", "s16") else () for scale in scales]
    data, axes = w.input("x0", kind, (2, 3, 4), *forms[0]), w.constant("axes", "s32", np.zeros(0, np.int32))
    made = w.tensor("y", kind, (2, 3, 4), *forms[1])
    w.operator(operator, [data, axes], [made], "Reducer", 1 if kind in ("f32", "bool") else 2, keepDims=keep)
    return w.model(made)


@pytest.mark.parametrize(
    "operator", ["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL"]
)
def test_reductions_over_no_axis_are_copies(operator: str) -> None:
    stored = {"MEAN": ["s8", "u8", "s16"], "SUM": ["s8", "u8"], "REDUCE_MAX": ["s8", "s16"], "REDUCE_MIN": ["u8"]}
    kinds = ["bool"] if operator in ("REDUCE_ANY", "REDUCE_ALL") else ["f32", "s32"]
    for kind in (*kinds, *stored.get(operator, [])):
        feed = np.random.default_rng(0).integers(0, 100, (2, 3, 4)).astype(DTYPES[kind])
        feeds = {"unused": np.zeros(1, np.int8), "x0": feed}
        assert_litert_s(reduction(operator, kind, (0.1, 0.1), kind == "s8"), feeds, Kind.RESHAPE)


def test_a_reduction_over_no_axis_that_changes_the_scale_is_refused() -> None:
    for kind in ("s8", "s16"):
        assert reason(reduction("MEAN", kind, (0.1, 0.2), False))


@pytest.mark.parametrize("kind", ["f32", "s8", "s16"])
def test_shapes_without_values_are_refused_in_a_line(kind: str) -> None:
    from int8tune.compiler.errors import ModelError

    w, form = Writer(), (0.1, 0) if kind != "f32" else ()
    data, made = w.input("x", kind, (0, 3), *form), w.tensor("y", kind, (0, 3), *form)
    w.operator("ADD", [data, data], [made], "Add", 2)
    with pytest.raises(ModelError, match="its shape must be positive") as caught:
        read_tflite(w.model(made), "empty")
    assert "\n" not in str(caught.value)


def requantized(data: Form, made: Form) -> bytes:
    return written("QUANTIZE", [data], made, "Quantize")


ALL_WORDS = np.arange(-(1 << 15), 1 << 15).astype(np.int16).reshape(256, 256)
SQUARE = ALL_WORDS.shape
REQUANTIZED = {
    "words to bytes": requantized(("s16", SQUARE, 0.0002, 0), ("s8", SQUARE, 0.05, -128)),
    "words with a point to bytes": requantized(("s16", SQUARE, 2**-16, -32768), ("s8", SQUARE, 2**-8, -128)),
    "words": requantized(("s16", SQUARE, 0.0002, 0), ("s16", SQUARE, 0.00013, 0)),
    "words to long ones": requantized(("s16", SQUARE, 2**-16, -32768), ("s32", SQUARE, 2**-15, 0)),
    "words to finer long ones": requantized(("s16", SQUARE, 0.3, 5), ("s32", SQUARE, 0.0001, 0)),
    "long ones to words": requantized(("s32", SQUARE, 1e-9, 0), ("s16", SQUARE, 1e-4, 77)),
    "long ones to bytes": requantized(("s32", SQUARE, 1e-9, 0), ("s8", SQUARE, 0.02, 3)),
    "coarse long ones to words": requantized(("s32", SQUARE, 3e-3, 0), ("s16", SQUARE, 1e-3, 0)),
}


def stored_of(file: bytes) -> dict[str, Array]:
    if read_tflite(file, "fixed").values["x0"].type == "s16":
        return {"x0": ALL_WORDS}
    rng = np.random.default_rng(9)
    ends = np.iinfo(np.int32)
    sizes = 2.0 ** rng.integers(1, 31, SQUARE)
    made = (rng.uniform(-1, 1, SQUARE) * sizes).astype(np.int32)
    made[0, :4] = ends.min, ends.max, ends.min + 1, 0
    return {"x0": made}


@pytest.mark.parametrize("name", list(REQUANTIZED))
def test_wide_values_are_requantized_as_by_litert(name: str) -> None:
    assert_litert_s(REQUANTIZED[name], stored_of(REQUANTIZED[name]), Kind.REQUANTIZE)


@pytest.mark.parametrize("name", ["words to long ones", "long ones to words"])
def test_compiled_wide_values_are_requantized_as_by_litert(name: str, tmp_path: Path) -> None:
    file, feeds = REQUANTIZED[name], stored_of(REQUANTIZED[name])
    (made,) = compiled(file, tmp_path).run(list(feeds.values()))
    np.testing.assert_array_equal(made, values_of(file, feeds)["y"], strict=True)


@pytest.mark.parametrize(
    ("data", "made", "message"),
    [
        (("s32", WORDS, 0.1, 0), ("s32", WORDS, 0.2, 0), "from s32 to s8 or s16"),
        (("s16", WORDS, 0.1, 3), ("s16", WORDS, 0.2, 0), "0 as zero point"),
        (("s32", WORDS, 0.1, 3), ("s16", WORDS, 0.2, 0), "32 bits must have 0 as zero point: 3"),
        (("s16", WORDS, 1.0, 0), ("s32", WORDS, 1e-30, 0), "a multiplier must be below 2^30"),
    ],
)
def test_other_requantizations_are_refused(data: Form, made: Form, message: str) -> None:
    assert message in reason(requantized(data, made))


def shares(kind: str, depth: int, beta: float) -> bytes:
    shape = (5, depth)
    data: Form = (kind, shape, 0.07, 2)
    return written("SOFTMAX", [data], ("s16", shape, 2**-16, -32768), "Softmax", 2, beta=beta)


@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("depth", [1, 2, 3, 64, 1001])
@pytest.mark.parametrize("kind", ["u8", "s8"])
def test_shares_of_16_bits_are_litert_s(kind: str, depth: int, beta: float) -> None:
    """A softmax of bytes whose output has 16 bits, as detectors of key words have it."""
    file = shares(kind, depth, beta)
    assert_litert_s(file, {"x0": bytes_of(kind, depth)}, Kind.SOFTMAX)


def bytes_of(kind: str, depth: int) -> Array:
    rng, ends = np.random.default_rng(depth), np.iinfo(DTYPES[kind])
    made = rng.integers(ends.min, ends.max, (5, depth), endpoint=True).astype(DTYPES[kind])
    made[0], made[1], made[1, 0] = ends.min, ends.min, ends.max
    made[2] = rng.integers(0, 9, depth)
    return made


def test_compiled_shares_of_16_bits_are_litert_s(tmp_path: Path) -> None:
    file, feed = shares("s8", 64, 1.0), bytes_of("s8", 64)
    (made,) = compiled(file, tmp_path).run([feed])
    np.testing.assert_array_equal(made, values_of(file, {"x0": feed})["y"], strict=True)


def test_shares_of_16_bits_have_one_scale() -> None:
    file = written("SOFTMAX", [("s8", WORDS, 0.1, 0)], ("s16", WORDS, 2**-15, -32768), "Softmax", 2, beta=1.0)
    assert "its output's scale must be 1/65536" in reason(file)


@pytest.mark.parametrize("operator", ["FLOOR_DIV", "FLOOR_MOD", "DIV"])
def test_integers_are_divided_as_by_litert(operator: str, tmp_path: Path) -> None:
    w, ends = Writer(), np.iinfo(np.int32)
    divisors = np.array([1, 2, 3, 48, 7919, ends.max, -2, -48, ends.min])
    data = w.input("x", "s32", (400, 9))
    made = w.tensor("y", "s32", (400, 9))
    w.input("unused", "s8", (1,), 0.1, 0)
    w.operator(operator, [data, w.constant("by", "s32", divisors)], [made], "Div" * (operator == "DIV"))
    rng = np.random.default_rng(4)
    feed = np.concatenate([rng.integers(ends.min, ends.max, (200, 9)), rng.integers(-200, 200, (200, 9))])
    feed[0], feed[1] = ends.min, ends.max
    feeds = {"x": feed.astype(np.int32), "unused": np.zeros(1, np.int8)}
    file = w.model(made)
    (ours,) = compiled(file, tmp_path).run(list(feeds.values()))
    np.testing.assert_array_equal(ours, values_of(file, feeds)["y"], strict=True)


@pytest.mark.parametrize("divisor", [0, -1])
def test_divisors_without_a_quotient_are_refused(divisor: int) -> None:
    w = Writer()
    data, made = w.input("x", "s32", (3,)), w.tensor("y", "s32", (3,))
    w.input("unused", "s8", (1,), 0.1, 0)
    w.operator("FLOOR_DIV", [data, w.constant("by", "s32", [2, divisor, 3])], [made])
    assert reason(w.model(made)) == "its divisors must be constants other than 0 and -1"
