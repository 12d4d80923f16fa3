"""The quotient of two quantized values, of which either may be spread over axes of extent 1.

Source: TFLite, DivElementwise of reference/div.h, whose quotient by 0 nothing defines: LiteRT stops at one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import (
    Array,
    LongArray,
    broadcast_fault,
    byte_fault,
    every_stored,
    scale_of,
    stored,
    zero_point_of,
)
from int8tune.compiler.operators.fixed_softmax import high_product, reciprocals
from int8tune.schedules.errors import OperandError
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.operands import quantize_multiplier

# Equal bits in front of a centred 8-bit value, as a 32-bit one.
LEAST_HEADROOM = 23


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    wrong = byte_fault(*inputs, output)
    if wrong or len(inputs) != 2 or operator.rule != "fixed":
        return wrong or f"it must divide two values by the fixed rule: {len(inputs)}, {operator.rule}"
    types = [value.type for value in (*inputs, output)]
    if len(set(types)) > 1:
        return f"its inputs and output must have one type: {', '.join(types)}"
    divisor = inputs[1]
    divisors = every_stored(divisor) if divisor.constant is None else divisor.constant.astype(np.int64)
    divisors = np.abs(divisors - zero_point_of(divisor))
    if divisor.constant is not None and not divisors.all():
        return "its constant divisor must stand for 0 nowhere"
    try:
        _, shift = _factor(inputs, output)
    except OperandError as error:
        return str(error)
    bits = _bits(divisors[divisors > 0])
    if not bits.max() <= shift <= bits.min() + LEAST_HEADROOM:
        return f"quotients must be shifted by 0 to 31 bits: {shift} for divisors of {bits.min()} to {bits.max()}"
    return broadcast_fault(inputs, output)


def quotients(operator: Operator, inputs: Sequence[Value], output: Value) -> Array:
    """The stored quotients [256, 256] of every stored value by every one; those by 0 are anything."""
    data, divisor = (every_stored(value) - zero_point_of(value) for value in inputs)
    multiplier, shift = _factor(inputs, output)
    # Signs are moved to the dividend; where the divisor is 0, 1 stands for it.
    dividend = data[:, None] * np.where(divisor < 0, -1, 1)
    inverse, _ = reciprocals(np.maximum(np.abs(divisor), 1))
    headroom = _leading_sign_bits(dividend)
    quotient = high_product(dividend << headroom, inverse)
    # Those that `fault` lets through are within 0 and 31.
    right = np.clip(_bits(np.maximum(np.abs(divisor), 1)) + headroom - shift, 0, 31)
    steps = _shifted_right(high_product(quotient, np.int64(multiplier)), right)
    return stored(steps + zero_point_of(output), operator, output)


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    data, divisor = (
        array.astype(np.int64) - RANGES[value.type][0] for value, array in zip(inputs, arrays, strict=True)
    )
    made: Array = quotients(operator, inputs, output)[data, divisor]
    return made


def _factor(inputs: Sequence[Value], output: Value) -> tuple[int, int]:
    return quantize_multiplier(float(scale_of(inputs[0]) / (scale_of(inputs[1]) * scale_of(output))))


def _bits(values: LongArray) -> LongArray:
    """How many bits positive integers have behind the first one."""
    bits: LongArray = np.floor(np.log2(values)).astype(np.int64)
    return bits


def _leading_sign_bits(values: LongArray) -> LongArray:
    """Bits behind the sign of 32-bit numbers that are the same."""
    magnitude = np.where(values < 0, ~values, values)
    same: LongArray = 31 - np.ceil(np.log2(magnitude + 1)).astype(np.int64)
    return same


def _shifted_right(values: LongArray, bits: LongArray) -> LongArray:
    """Divided by a power of two, halves away from zero; gemmlowp's RoundingDivideByPOT."""
    mask = (np.int64(1) << bits) - 1
    return (values >> bits) + ((values & mask) > (mask >> 1) + (values < 0))
