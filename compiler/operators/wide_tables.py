"""Tables of TFLite's element-wise operators on 16-bit values, as its reference kernels compute each of the 65,536.

Sources: LUTPopulate and LUTLookup in internal/common.h, and reference/integer_ops/logistic.h and tanh.h of TensorFlow
Lite. Stored values have no zero point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from int8tune.compiler.graph import Value
from int8tune.compiler.operators.base import STORED_RANGES, Array, FloatArray, LongArray, every_stored, scale_of
from int8tune.compiler.operators.fixed_gates import rescaled
from int8tune.schedules.operands import quantize_multiplier

LOW, HIGH = STORED_RANGES["s16"]
# Pieces of a function that are straight, and bits of the place in one.
PIECES, PIECE_BITS = 512, 7
# A sigmoid's steps are 1/24, of which numbers have 4096 * 3 in 1.
SIGMOID_STEPS, UNIT = 256, 4096.0 * 3.0
MOST_SHIFT, MOST_MULTIPLIER = 30, 32767.0
UNIT_BITS = 12
# Of numbers from -1 to 1.
SIGNED_WIDTH = np.float64(2 / 65535) * HIGH - np.float64(2 / 65535) * LOW


def interpolated(data: Value, output: Value, function: Callable[[FloatArray], FloatArray]) -> Array:
    """What is computed by straight pieces of a function of binary32, such as EXP."""
    ends = [scale_of(data) * np.float32(end) for end in (LOW, HIGH)]
    width = scale_of(output) * np.float32(HIGH) - scale_of(output) * np.float32(LOW)
    return _looked_up(every_stored(data), _knots(ends, width, function))


@cache
def softmax_reciprocals() -> Array:
    """1 / (1 + x) as Q0 for numbers x of 16 bits from 0 to 1, ascending."""
    ends = [np.float64(1 / 65535) * end for end in (0, HIGH - LOW)]
    return _looked_up(np.arange(LOW, HIGH + 1), _knots(ends, SIGNED_WIDTH, lambda values: 1 / (1 + values)))


def softmax_exponentials(scale: np.float32, beta: np.float32) -> Array:
    """exp as Q0 of a stored value less the largest one of its row, from -65535 to 0.

    Raises:
        OperandError: the scale or the factor `beta` is out of range.
    """
    ends = [np.float64(10 / 65535) * end for end in (LOW - HIGH, 0)]
    rescale = quantize_multiplier(float(scale * beta) / (10.0 / 65535.0))
    places = np.clip(rescaled(np.arange(LOW - HIGH, 1), rescale) + HIGH, LOW, HIGH)
    return _looked_up(places, _knots(ends, SIGNED_WIDTH, np.exp))


def _knots(ends: Sequence[Any], width: Any, function: Callable[[Any], Any]) -> LongArray:
    """The ends of straight pieces, in steps of an output whose range is `width`; in the precision of `ends`."""
    dtype = ends[0].dtype.type
    step, inverse = (ends[1] - ends[0]) / dtype(PIECES), dtype(HIGH - LOW + 1) / width
    places = np.arange(PIECES).astype(dtype)
    begin, after = ends[0] + places * step, ends[0] + (places + dtype(1)) * step
    first = _rounded(function(begin) * inverse)
    between = _rounded((function(after) * inverse + first) / dtype(2))
    # Half of how far the middle of a piece is off.
    bias = _rounded((between - _rounded(function(begin + step / dtype(2)) * inverse)) / dtype(2))
    last = _rounded(function(np.array([ends[1]], dtype)) * inverse)
    made: LongArray = np.clip(np.concatenate([first - bias, last]), LOW, HIGH).astype(np.int64)
    return made


def _looked_up(values: LongArray, knots: LongArray) -> Array:
    """What straight pieces have at numbers of 16 bits."""
    index = (values >> PIECE_BITS) + PIECES // 2
    slope = (knots[index + 1] - knots[index]).astype(np.int16).astype(np.int64)
    rise = (slope * (values & ((1 << PIECE_BITS) - 1)) + (1 << (PIECE_BITS - 1))) >> PIECE_BITS
    made: Array = (knots[index] + rise).astype(np.int16)
    return made


def sigmoid(data: Value) -> Array:
    """LOGISTIC, whose output has 15 bits behind its point."""
    values = _in_units(data, (0,))
    places, rest = np.abs(values) >> 9, np.abs(values) & 0x1FF
    result = np.where(places >= SIGMOID_STEPS - 1, HIGH << 10, _between(places, rest, 9))
    made = np.where(values >= 0, result + (1 << 9), (1 << 25) - result + (1 << 9) - 1) >> 10
    return made.astype(np.int16)


def tanh(data: Value) -> Array:
    """TANH, whose output has 15 bits behind its point: a sigmoid of twice the number."""
    values = _in_units(data, (0, 1))
    places, rest = np.abs(values) >> 8, np.abs(values) & 0xFF
    result = np.where(places >= SIGMOID_STEPS - 1, 0xFFFF << 8, _between(places, rest, 8))
    made = np.where(values >= 0, result - (1 << 23) + (1 << 7), -result + (1 << 23) + (1 << 7) - 1) >> 8
    return made.astype(np.int16)


def _in_units(data: Value, shifts: tuple[int, ...]) -> LongArray:
    """Every stored value in the units of sigmoids; `shifts` are those of scales that are powers of two."""
    values, scale = every_stored(data), float(scale_of(data))
    power = round(math.log2(scale))
    multiplier, shift = scale * UNIT, 0
    if abs(math.log2(scale) - power) < 1e-3 and UNIT_BITS + power in shifts:
        multiplier = float(3 << (UNIT_BITS + power))
    else:
        while multiplier <= MOST_MULTIPLIER / 2 and shift <= MOST_SHIFT:
            multiplier, shift = multiplier * 2, shift + 1
    made: LongArray = (values * int(multiplier) + ((1 << shift) >> 1)) >> shift
    return made


def _between(places: LongArray, rest: LongArray, bits: int) -> LongArray:
    """Sigmoids of 16 bits, with as many more as the place between two of them has."""
    table = _sigmoids()
    low = table[np.minimum(places, SIGMOID_STEPS - 2)]
    high = table[np.minimum(places, SIGMOID_STEPS - 2) + 1]
    made: LongArray = (low << bits) + rest * (high - low)
    return made


def _sigmoids() -> LongArray:
    """Knots of straight pieces of a sigmoid, each moved by half of how far the middle of its piece is off."""
    halves = 65536 / (1 + np.exp(-np.arange(2 * SIGMOID_STEPS + 1, dtype=np.float64) / 48))
    knots = halves[:-2:2] + (halves[1::2] - (halves[:-2:2] + halves[2::2]) / 2) / 2
    made = np.rint(knots).astype(np.int64)
    made[-1] = 65535
    return made


def _rounded(values: Any) -> Any:
    """Halves away from zero, in the precision of the values."""
    wide = values.astype(np.float64)
    return (np.sign(wide) * np.floor(np.abs(wide) + 0.5)).astype(values.dtype)
