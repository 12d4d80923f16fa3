"""Tables of TFLite's element-wise operators on 16-bit values, as its reference kernels compute each of the 65,536.

Sources: LUTPopulate and LUTLookup in internal/common.h, and reference/integer_ops/logistic.h and tanh.h of TensorFlow
Lite. Stored values have no zero point.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from int8tune.compiler.graph import Value
from int8tune.compiler.operators.base import STORED_RANGES, Array, FloatArray, LongArray, every_stored, scale_of

LOW, HIGH = STORED_RANGES["s16"]
# Pieces of a function that are straight, and bits of the place in one.
PIECES, PIECE_BITS = 512, 7
# A sigmoid's steps are 1/24, of which numbers have 4096 * 3 in 1.
SIGMOID_STEPS, UNIT = 256, 4096.0 * 3.0
MOST_SHIFT, MOST_MULTIPLIER = 30, 32767.0
UNIT_BITS = 12


def interpolated(data: Value, output: Value, function: Callable[[FloatArray], FloatArray]) -> Array:
    """What is computed by straight pieces of a function of binary32, such as EXP."""
    single = np.float32
    ends = [scale_of(data) * single(end) for end in (LOW, HIGH)]
    step = (ends[1] - ends[0]) / single(PIECES)
    inverse = single(HIGH - LOW + 1) / (scale_of(output) * single(HIGH) - scale_of(output) * single(LOW))
    places = np.arange(PIECES, dtype=np.float32)
    begin, middle = ends[0] + places * step, ends[0] + places * step + step / single(2)
    after = ends[0] + (places + single(1)) * step
    first = _rounded(function(begin) * inverse)
    between = _rounded((function(after) * inverse + first) / single(2))
    bias = _rounded((between - _rounded(function(middle) * inverse)) / single(2))
    last = _rounded(function(np.array([ends[1]], np.float32)) * inverse)
    knots = np.clip(np.concatenate([first - bias, last]), LOW, HIGH).astype(np.int64)
    values = every_stored(data)
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


def _rounded(values: FloatArray) -> FloatArray:
    """Halves away from zero, in binary32."""
    wide = values.astype(np.float64)
    made: FloatArray = (np.sign(wide) * np.floor(np.abs(wide) + 0.5)).astype(np.float32)
    return made
