"""The squared difference of two 8-bit values, of which either may be spread over axes of extent 1, as TFLite has it.

Source: SquaredDifference of kernels/squared_difference.cc of TensorFlow Lite.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import (
    STORED_RANGES,
    Array,
    LongArray,
    broadcast_fault,
    byte_fault,
    every_stored,
    scale_of,
    stored,
    zero_point_of,
)
from int8tune.compiler.operators.fixed_tables import scaled_by
from int8tune.schedules.errors import OperandError
from int8tune.schedules.operands import quantize_multiplier

DIFFERENCE_SHIFT = 7
# Scales tried, in units in the last place from the exact one, and offsets.
SCALE_STEPS = tuple(sorted(range(-3, 4), key=abs))
OFFSETS = (0.0, 2.0**-20, -(2.0**-20), 2.0**-18, -(2.0**-18), 2.0**-17, -(2.0**-17))

Factor = tuple[int, int]
"""A multiplier and a shift, for `scale_fixed_point`."""


@dataclass(frozen=True, slots=True)
class SquareFactors:
    """What a squared difference knows before it runs, besides zero points.

    Attributes:
        terms: of both centred values times 2^7.
        square: of the square of their difference, which is below 2^30.
    """

    terms: tuple[Factor, Factor]
    square: Factor


@dataclass(frozen=True, slots=True)
class FusedSquare:
    """A multiplication and addition in binary32 that rounds each square as its factor does."""

    scale: np.float32
    offset: np.float32


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    wrong = byte_fault(*inputs, output)
    if wrong or len(inputs) != 2 or operator.rule != "fixed":
        return wrong or f"it must have two values of the fixed rule: {len(inputs)}, {operator.rule}"
    try:
        square_factors(inputs, output)
    except OperandError as error:
        return str(error)
    return broadcast_fault(inputs, output)


def square_factors(inputs: Sequence[Value], output: Value) -> SquareFactors:
    """The factors of a squared difference.

    Raises:
        OperandError: one step of the larger scale, squared, is 2^14 steps of the output or more.
    """
    scales = [scale_of(value) for value in inputs]
    twice_larger = float(2 * max(scales))
    real = twice_larger**2 / ((1 << 2 * DIFFERENCE_SHIFT) * float(scale_of(output)))
    if not real < 1:
        raise OperandError(f"its output's scale must be above 2^-12 of its larger one, squared: {scale_of(output)}")
    one, other = (quantize_multiplier(float(scale) / twice_larger) for scale in scales)
    return SquareFactors((one, other), quantize_multiplier(real))


def fused_square(inputs: Sequence[Value], output: Value, factors: SquareFactors) -> FusedSquare | None:
    """What gives the outputs of all pairs of stored values, which are checked; None where nothing was found."""
    one, other = _terms(inputs, factors, [every_stored(value) for value in inputs])
    squares = np.unique((one[:, None] - other) ** 2)
    low, high = (bound - zero_point_of(output) for bound in STORED_RANGES[output.type])
    expected = np.clip(scaled_by(squares, factors.square), low, high)
    multiplier, shift = factors.square
    nearest = np.ldexp(np.float64(multiplier), shift - 31).astype(np.float32)
    for steps, offset in itertools.product(SCALE_STEPS, np.array(OFFSETS, np.float32)):
        scale = (nearest.view(np.int32) + np.int32(steps)).view(np.float32)
        if np.array_equal(np.clip(_fused(squares, scale, offset), low, high), expected):
            return FusedSquare(scale, offset)
    return None


def _fused(squares: LongArray, scale: np.float32, offset: np.float32) -> LongArray:
    """`schedules.oracle.reference.scale_fused` with an offset that may be negative: binary64 has all of their bits."""
    numbers = squares.astype(np.float32).astype(np.float64)
    rounded = np.rint((numbers * np.float64(scale) + np.float64(offset)).astype(np.float32))
    steps: LongArray = rounded.astype(np.int64)
    return steps


def _terms(inputs: Sequence[Value], factors: SquareFactors, arrays: Sequence[Array | LongArray]) -> list[LongArray]:
    return [
        scaled_by((array.astype(np.int64) - zero_point_of(value)) << DIFFERENCE_SHIFT, factor)
        for value, factor, array in zip(inputs, factors.terms, arrays, strict=True)
    ]


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    factors = square_factors(inputs, output)
    one, other = _terms(inputs, factors, arrays)
    return stored(scaled_by((one - other) ** 2, factors.square) + zero_point_of(output), operator, output)
