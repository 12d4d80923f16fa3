"""What binary32 computes otherwise than it is written: quotients by a scale, and chains of operations on a byte."""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from int8tune.compiler.graph import Kind, Operator, Quantization, Value
from int8tune.compiler.operators.base import every_stored, scale_of
from int8tune.compiler.operators.elementwise import BINARY, Operation, lines_of, reference
from int8tune.compiler.rounding.quotients import reciprocal
from int8tune.schedules.oracle.binary32 import multiply_add
from int8tune.schedules.target import Target
from tests.support.models.compiled import assert_exact
from tests.support.models.drawn_operators import Drawn, graph_of

SEEDS = st.integers(0, 2**32 - 1)
BYTES = 256
NONE = np.zeros(0, np.float32)
CHANNELS = 48
EVERY_BYTE = np.ascontiguousarray(np.broadcast_to(np.arange(256, dtype=np.uint8)[:, None], (256, CHANNELS)))
RULES = ("float", "fixed")


@settings(deadline=None, max_examples=200)
@given(exponent=st.floats(-59, 59), shift=st.integers(-40, 40), sign=st.sampled_from([1, -1]), seed=SEEDS)
def test_a_sum_is_rounded_once(exponent: float, shift: int, sign: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    factor = np.float32(2.0**exponent)
    number = np.float32(rng.uniform(1, 2))
    addend = np.float32(sign * float(number) * float(factor) * 2.0**shift * rng.uniform(0.5, 1))
    whole = Fraction(float(number)) * Fraction(float(factor)) + Fraction(float(addend))
    (made,) = multiply_add(np.array([number]), factor, np.array([addend]))
    below, above = (np.nextafter(made, np.float32(end)) for end in (-np.inf, np.inf))
    off = abs(Fraction(float(made)) - whole)
    assert off <= abs(Fraction(float(below)) - whole)
    assert off <= abs(Fraction(float(above)) - whole)


@pytest.mark.parametrize("sign", [1, -1])
def test_what_binary64_has_no_place_for_decides_a_tie(sign: int) -> None:
    number = np.float32(1 + 2.0**-12)  # its square lies between two numbers of binary32: 1 + 2^-11 + 2^-24
    (made,) = multiply_add(np.array([number]), number, np.array([sign * 2.0**-70], np.float32))
    assert made == np.float32(1 + 2.0**-11) + (2.0**-23 if sign > 0 else 0)


@settings(deadline=None, max_examples=200)
@given(exponent=st.floats(-59, 59), seed=SEEDS)
def test_a_quotient_has_the_nearest_integer_of_a_division(exponent: float, seed: int) -> None:
    divisor = np.float32(2.0**exponent)
    found = reciprocal(divisor, BYTES)
    assert found is not None
    high, low = found
    steps = np.concatenate([np.random.default_rng(seed).uniform(-257, 257, 5000), np.arange(-257, 257) + 0.5])
    bits = (steps * np.float64(divisor)).astype(np.float32).view(np.int32)
    numbers = (bits[:, None] + np.arange(-2, 3, dtype=np.int32)).view(np.float32)
    made = multiply_add(numbers, high, numbers * low)
    assert np.array_equal(np.rint(made), np.rint(numbers / divisor))


@pytest.mark.parametrize("divisor", [0.0, 2.0**-61, 2.0**61, np.inf, np.nan])
def test_of_a_divisor_that_is_too_small_or_large_nothing_is_said(divisor: float) -> None:
    assert reciprocal(np.float32(divisor), BYTES) is None


def test_kernels_round_next_to_every_half_as_a_division_does(native: Target) -> None:
    assert_quotients_rounded(native)


def assert_quotients_rounded(target: Target) -> None:
    """Numbers next to every half, of scales that have a reciprocal and of two that have none."""
    graph = graph_of([quotients(scale, rule) for scale in (1.0, 0.0235, 1.9e-9, 3e-20, 5e20) for rule in RULES])
    drawn = {
        name: halves(graph.values[operator.outputs[0]]) for operator in graph.operators for name in operator.inputs
    }
    with tempfile.TemporaryDirectory() as folder:
        assert_exact(graph, target, drawn, Path(folder))


def quotients(scale: float, rule: str) -> Drawn:
    data = Value("data", (5206,), "f32", None)
    output = Value("out", data.shape, "u8", quantization(scale, 131))
    return Drawn(Operator(Kind.QUANTIZE, ("q",), "", ("data",), ("out",), rule, None), (data,), output)


def halves(output: Value) -> np.ndarray:
    around = ((np.arange(-260, 260) + 0.5) * np.float64(scale_of(output))).astype(np.float32)
    bits = around.view(np.int32)[:, None] + np.arange(-5, 5, dtype=np.int32)
    return np.append(bits.view(np.float32).ravel(), np.float32([0, -0.0, np.inf, -np.inf, 3e38, -3e38]))


def quantization(scale: float, zero_point: int) -> Quantization:
    return Quantization(np.array([scale], np.float32), np.array([zero_point]))


def chain(seed: int, *functions: str, clamp: tuple[int, int] | None = None) -> Drawn:
    """A byte of every channel, to which functions with a number of each channel are applied in turn."""
    rng = np.random.default_rng(seed)
    data = Value("in0", (256, CHANNELS), "u8", quantization(rng.uniform(0.001, 0.1), int(rng.integers(256))))
    output = Value("out", (256, CHANNELS), "u8", quantization(rng.uniform(0.001, 0.1), int(rng.integers(256))))
    taken = [name for name in functions if name in BINARY]
    numbers = [rng.standard_normal(CHANNELS).astype(np.float32) for _ in taken]
    values = [Value(f"in{at}", (CHANNELS,), "f32", None, each) for at, each in enumerate(numbers, 1)]
    operations, last = list[Operation](), 0
    for name in functions:
        others = [1 + taken.index(name)] if name in BINARY else []
        operations.append(Operation(name, (last, *others), NONE if others else np.array([-1, 1.5], np.float32)))
        last = len(values) + len(operations)
    names = tuple(value.name for value in (data, *values))
    operator = Operator(Kind.ELEMENTWISE, ("e",), "", names, ("out",), "float", clamp, {"operations": (*operations,)})
    return Drawn(operator, (data, *values), output)


CHAINS = [
    ("multiply",),
    ("add",),
    ("subtract",),
    ("divide",),
    ("multiply", "add"),
    ("subtract", "multiply", "add"),
    ("divide", "subtract", "multiply"),
]
BENDS = [("minimum",), ("multiply", "maximum"), ("multiply", "clip"), ("prelu",)]


@pytest.mark.parametrize("functions", CHAINS, ids="-".join)
@pytest.mark.parametrize("clamp", [None, (100, 200)], ids=["whole", "clamped"])
def test_a_chain_is_a_line_that_gives_every_byte_its_output(
    functions: tuple[str, ...], clamp: tuple[int, int] | None
) -> None:
    drawn = chain(len(functions), *functions, clamp=clamp)
    found = lines_of(drawn.operator, drawn.inputs, drawn.output)
    assert found is not None
    every = np.broadcast_to(every_stored(drawn.inputs[0])[:, None], (256, CHANNELS))
    arrays = [every, *(value.constant for value in drawn.inputs[1:] if value.constant is not None)]
    expected = reference(drawn.operator, drawn.inputs, drawn.output, arrays)
    rounded = np.rint(multiply_add_each(every, found.factor, found.addend))
    assert np.array_equal(np.clip(rounded, *found.bounds), expected)


def multiply_add_each(numbers: np.ndarray, factors: np.ndarray, addends: np.ndarray) -> np.ndarray:
    """Exact: what is added has at most 8 and 24 bits, and 24."""
    return (numbers * factors.astype(np.longdouble) + addends).astype(np.float32)


@pytest.mark.parametrize("functions", BENDS, ids="-".join)
def test_what_bends_is_no_line(functions: tuple[str, ...]) -> None:
    drawn = chain(0, *functions)
    assert lines_of(drawn.operator, drawn.inputs, drawn.output) is None


@pytest.mark.parametrize("zero_point", [130, 131])
def test_ties_are_on_a_line_where_both_are_even(native: Target, tmp_path: Path, zero_point: int) -> None:
    """Halves of an even and an odd number of steps: what is rounded to even behind an odd zero point was odd."""
    data, output = (
        Value(name, (256, 1), "u8", quantization(scale, point))
        for name, scale, point in (("in0", 0.5, 0), ("out", 1, zero_point))
    )
    number = Value("in1", (1,), "f32", None, np.zeros(1, np.float32))
    operations = {"operations": (Operation("add", (0, 1), NONE),)}
    operator = Operator(Kind.ELEMENTWISE, ("e",), "", ("in0", "in1"), ("out",), "float", None, operations)
    assert (lines_of(operator, (data, number), output) is None) == (zero_point % 2 == 1)
    graph = graph_of([Drawn(operator, (data, number), output)])
    assert_exact(graph, native, {graph.inputs[0]: np.arange(256, dtype=np.uint8)[:, None]}, tmp_path)


def test_kernels_of_chains_are_exact_for_every_byte(native: Target) -> None:
    assert_chains_exact(native)


def assert_chains_exact(target: Target) -> None:
    graph = graph_of([chain(seed, *functions) for seed in range(3) for functions in (*CHAINS, *BENDS)])
    with tempfile.TemporaryDirectory() as folder:
        assert_exact(graph, target, dict.fromkeys(graph.inputs, EVERY_BYTE), Path(folder))


def test_channels_of_nothing_but_the_lowest_output_are_lines(native: Target, tmp_path: Path) -> None:
    """As a normalization has them whose weights were never trained."""
    drawn = chain(3, "multiply", "add")
    for value in drawn.inputs[1:]:
        assert value.constant is not None
        value.constant[:] = 0
    assert lines_of(drawn.operator, drawn.inputs, drawn.output) is not None
    graph = graph_of([drawn])
    assert_exact(graph, native, {graph.inputs[0]: EVERY_BYTE}, tmp_path)
