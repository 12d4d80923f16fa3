"""Sigmoid and tanh of 16-bit fixed-point numbers, as tables of 65,536: what TFLite's integer LSTM has as gates.

Source: fixedpoint/fixedpoint.h of gemmlowp, with 16 bits: exponentials by a barrel shifter and a Taylor polynomial,
reciprocals by three steps of Newton and Raphson's method. `Qn` has n bits before its binary point, and 15 - n behind.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from int8tune.compiler.operators.base import Array, LongArray
from int8tune.compiler.operators.fixed_softmax import EXP_EIGHTH, GUESS, GUESS_SLOPE, POWERS, REFINEMENTS, THIRD
from int8tune.schedules.oracle.reference import scale_fixed_point

LOW, HIGH = -(1 << 15), (1 << 15) - 1
# Of sums that a gate is made of: they have 32 bits.
MOST_SUM = (1 << 31) - 1
# 0.5 and 1/8 as Q0, 1 as Q2.
HALF, EIGHTH, ONE_OF_4 = 1 << 14, 1 << 12, 1 << 13


@cache
def sigmoid_table(bits: int) -> Array:
    """The sigmoid, as Q0, of all numbers as Q`bits`, ascending."""
    values = np.arange(LOW, HIGH + 1)
    magnitude = _wrapped(np.where(values > 0, values, -values))
    positive = _reciprocal(_exponential(_wrapped(-magnitude), bits))
    made = np.where(values > 0, positive, HIGH - positive)
    return np.where(values == 0, HALF, made).astype(np.int16)


@cache
def tanh_table(bits: int) -> Array:
    """The hyperbolic tangent, as Q0, of all numbers as Q`bits`, ascending."""
    values = np.arange(LOW, HIGH + 1)
    negative = np.where(values < 0, values, -values)
    # Twice the number, as Q(bits + 1).
    made = _ratio(_exponential(negative, bits + 1))
    return np.where(values == 0, 0, np.where(values < 0, -made, made)).astype(np.int16)


def divided(values: LongArray, bits: int) -> LongArray:
    """Divided by a power of two, halves away from zero; gemmlowp's RoundingDivideByPOT."""
    mask = (1 << bits) - 1
    made: LongArray = (values >> bits) + ((values & mask) > (mask >> 1) + (values < 0))
    return made


def rescaled(sums: LongArray, scale: tuple[int, int]) -> LongArray:
    """Times a multiplier and a shift; TFLite's MultiplyByQuantizedMultiplier."""
    multiplier, shift = (np.array(each) for each in scale)
    return scale_fixed_point(sums, multiplier, shift)


def _wrapped(values: LongArray) -> LongArray:
    made: LongArray = values.astype(np.int16).astype(np.int64)
    return made


def _constant(raw: int) -> int:
    """A constant of 31 bits in 15."""
    return int(divided(np.array(raw), 16))


def _product(one: LongArray | int, other: LongArray | int) -> LongArray:
    """The upper half of a doubled product, rounded; gemmlowp's SaturatingRoundingDoublingHighMul."""
    product = np.asarray(one, np.int64) * other
    nudged = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    # Truncated.
    made = np.where(nudged >= 0, nudged >> 15, -(-nudged >> 15))
    bounded: LongArray = np.minimum(made, HIGH)
    return bounded


def _shifted(values: LongArray, bits: int) -> LongArray:
    """Times a power of two, saturated."""
    made: LongArray = np.clip(values << bits, LOW, HIGH)
    return made


def _exponential(values: LongArray, bits: int) -> LongArray:
    """exp as Q0 of numbers of at most 0 as Q`bits`."""
    fraction_bits = 15 - bits
    quarter = np.int64(1) << (fraction_bits - 2)
    rest = (values & (quarter - 1)) - quarter
    result = _exponential_near_zero(_shifted(rest, bits))
    remainder = _wrapped(rest - values)
    for index, factor in enumerate(POWERS):
        if bits > index - 2:
            is_set = remainder & (np.int64(1) << (fraction_bits - 2 + index)) != 0
            result = np.where(is_set, _product(result, _constant(factor)), result)
    if bits > 5:
        result = np.where(values < -32 << fraction_bits, 0, result)
    return np.where(values == 0, HIGH, result)


def _exponential_near_zero(values: LongArray) -> LongArray:
    """exp as Q0 of numbers from -1/4 to below 0 as Q0, by a polynomial around -1/8."""
    x = values + EIGHTH
    square = _product(x, x)
    cube, fourth = _product(square, x), _product(square, square)
    terms = divided(_product(divided(fourth, 2) + cube, _constant(THIRD)) + square, 1)
    factor = _constant(EXP_EIGHTH)
    return np.clip(factor + _product(x + terms, factor), LOW, HIGH)


def _newton(values: LongArray) -> LongArray:
    """2 / (1 + x) as Q2 of numbers from 0 to 1 as Q0."""
    total = values + HIGH
    half = (total + 1) >> 1
    guess = _constant(GUESS) + _product(half, _constant(GUESS_SLOPE))
    for _ in range(REFINEMENTS):
        error = ONE_OF_4 - _product(half, guess)
        guess = guess + _shifted(_product(guess, error), 2)
    return guess


def _reciprocal(values: LongArray) -> LongArray:
    """1 / (1 + x) as Q0."""
    return _shifted(_newton(values), 1)


def _ratio(values: LongArray) -> LongArray:
    """(1 - x) / (1 + x) as Q0."""
    return _shifted(_newton(values) - ONE_OF_4, 2)
