"""Softmax of 8-bit values in integers, as TFLite's reference kernel computes it.

Sources: reference/softmax.h and internal/quantization_util.cc of TensorFlow Lite; fixedpoint/fixedpoint.h of gemmlowp
for exponentials (barrel shifter and Taylor polynomial) and reciprocals (Newton and Raphson's method, three steps).
Numbers are 32-bit integers with a binary point: `Qn` has n bits before it, and 31 - n behind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from int8tune.compiler.operators.base import LongArray
from int8tune.schedules.operands import IntArray

# Bits before the point: of the distance from the largest value, and of the sum of exponentials.
DISTANCE_BITS, SUM_BITS = 5, 12
# Sums of more exponentials leave 32 bits.
MOST_VALUES = (1 << SUM_BITS) - 1
INT32 = np.iinfo(np.int32)

# exp(-2^n) as Q0 for n from -2, and exp(-1/8) and 1/3.
POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
EXP_EIGHTH, THIRD = 1895147668, 715827883
# 48/17 and -32/17 as Q2, the first guess of a reciprocal.
GUESS, GUESS_SLOPE = 1515870810, -1010580540
REFINEMENTS = 3


@dataclass(frozen=True, slots=True, eq=False)
class FixedExponentials:
    """Exponentials by the largest stored value of a row minus a value of it, 0 where that is too far.

    Attributes:
        shares: int32 [256], as Q0.
        terms: int32 [256], as Q12: what is added.
    """

    shares: IntArray
    terms: IntArray


def is_in_range(scale: float, beta: float) -> bool:
    """Whether a step of the input is large enough for the fixed-point numbers."""
    return beta * scale * (1 << (31 - DISTANCE_BITS)) > 1


def fixed_exponentials(scale: float, beta: float) -> FixedExponentials:
    """The tables of a softmax whose input has this scale."""
    fraction, shift = math.frexp(min(beta * scale * (1 << (31 - DISTANCE_BITS)), (1 << 31) - 1.0))
    multiplier = math.floor(math.ldexp(fraction, 31) + 0.5)
    if multiplier == 1 << 31:
        multiplier, shift = 1 << 30, shift + 1
    farthest = math.floor(((1 << DISTANCE_BITS) - 1) * (1 << (31 - DISTANCE_BITS)) / (1 << shift))
    distance = np.arange(256, dtype=np.int64)
    near = distance <= farthest
    scaled = high_product(np.where(near, -distance << shift, 0), np.int64(multiplier))
    shares = np.where(near, _exponential(scaled), 0)
    terms = _shifted_right(shares, SUM_BITS)
    return FixedExponentials(shares.astype(np.int32), terms.astype(np.int32))


def reciprocals(sums: LongArray) -> tuple[LongArray, LongArray]:
    """For sums as Q12, their reciprocals as Q0 of another binary point: how many bits they are to be shifted right."""
    headroom = 32 - np.ceil(np.log2(sums + 1)).astype(np.int64)
    fraction = (sums << headroom) - (1 << 31)
    half = (fraction + INT32.max + 1) // 2
    guess = GUESS + high_product(half, np.int64(GUESS_SLOPE))
    for _ in range(REFINEMENTS):
        error = (1 << 29) - high_product(half, guess)
        guess = guess + np.clip(high_product(guess, error) << 2, INT32.min, INT32.max)
    return np.clip(guess << 1, INT32.min, INT32.max), SUM_BITS - headroom


def high_product(one: LongArray, other: LongArray | np.int64) -> LongArray:
    """The upper half of a doubled product, rounded, halves up.

    That is gemmlowp's SaturatingRoundingDoublingHighMul, which saturates for two of the least numbers only: none here.
    """
    product: LongArray = one * other + (1 << 30)
    return product >> 31


def fixed_shares(reciprocal: LongArray, bits: LongArray, exponentials: LongArray, width: int) -> LongArray:
    """What a sum's reciprocal and exponentials give, in steps of an output of so many bits, which go up to 1."""
    right = bits + (31 - width)
    return (high_product(reciprocal, exponentials) + (np.int64(1) << (right - 1))) >> right


def _shifted_right(values: LongArray, bits: int) -> LongArray:
    """Divided by a power of two, halves away from zero; gemmlowp's RoundingDivideByPOT."""
    mask = (1 << bits) - 1
    return (values >> bits) + ((values & mask) > (mask >> 1) + (values < 0))


def _exponential(values: LongArray) -> LongArray:
    """exp as Q0 of numbers of at most 0 as Q5."""
    fraction_bits = 31 - DISTANCE_BITS
    quarter = np.int64(1) << (fraction_bits - 2)
    rest = (values & (quarter - 1)) - quarter
    result = _exponential_near_zero(rest << DISTANCE_BITS)
    remainder = rest - values
    for index, factor in enumerate(POWERS):
        is_set = remainder & (np.int64(1) << (fraction_bits - 2 + index)) != 0
        result = np.where(is_set, high_product(result, np.int64(factor)), result)
    return np.where(values == 0, INT32.max, result)


def _exponential_near_zero(values: LongArray) -> LongArray:
    """exp as Q0 of numbers from -1/4 to below 0 as Q0, by a polynomial around -1/8."""
    x = values + (1 << 28)
    square = high_product(x, x)
    fourth = _shifted_right(high_product(square, square), 2)
    terms = _shifted_right(high_product(fourth + high_product(square, x), np.int64(THIRD)) + square, 1)
    return EXP_EIGHTH + high_product(x + terms, np.int64(EXP_EIGHTH))
