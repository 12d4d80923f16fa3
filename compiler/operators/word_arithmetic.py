"""Sums, differences and products of two values of 16 bits, of which either may be spread over axes of extent 1.

Sources: TFLite, kernels/add.cc, sub.cc and mul.cc, reference/add.h and sub.h, reference/integer_ops/mul.h. Scales that
are powers of two have sums and differences of their own, where the operator says so by `pot_scale_int16`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import Array, LongArray, broadcast_fault, scale_of, stored, symmetric_fault
from int8tune.compiler.operators.fixed_gates import divided
from int8tune.schedules.errors import OperandError
from int8tune.schedules.operands import quantize_addition, quantize_multiplier
from int8tune.schedules.oracle.reference import scale_fixed_point

ADD, SUBTRACT, MULTIPLY = "add", "subtract", "multiply"
# Bits behind the point of a term.
TERM_SHIFT = 15
# How far from a whole number the logarithm of a power of two may be, which LiteRT computes in binary32.
NEARLY_WHOLE, UNSURE = 1e-3, 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class WordFactors:
    """What sums, differences and products know before they run.

    Attributes:
        multiplier, shift: of both terms and of their sum, or of a product alone, for `scale_fixed_point`.
        right: instead of these, by how many bits each value is shifted to the right; scales are powers of two.
    """

    multiplier: tuple[int, ...] = ()
    shift: tuple[int, ...] = ()
    right: tuple[int, int] | None = None


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    types = [value.type for value in (*inputs, output)]
    if len(inputs) != 2 or set(types) != {"s16"}:
        return f"its two inputs and its output must be s16: {', '.join(types)}"
    if wrong := symmetric_fault(*inputs, output):
        return wrong
    try:
        factors = word_factors(operator, inputs, output)
    except OperandError as error:
        return str(error)
    shapes = {value.shape for value in inputs}
    if factors.right is not None and operator.attributes["operation"] == ADD and len(shapes) > 1:
        return "LiteRT adds values whose scales are powers of two of one shape only"
    return broadcast_fault(inputs, output)


def word_factors(operator: Operator, inputs: Sequence[Value], output: Value) -> WordFactors:
    """The factors of an operator.

    Raises:
        OperandError: LiteRT has none for these scales.
    """
    one, other, made = (scale_of(value) for value in (*inputs, output))
    if operator.attributes["operation"] == MULTIPLY:
        multiplier, shift = quantize_multiplier(float(one * other / made))
        if shift > 0:
            raise OperandError(f"the product of its scales must be below that of its output: {one} * {other}, {made}")
        return WordFactors((multiplier,), (shift,))
    powers = [_power(float(scale)) for scale in (one, other, made)]
    if operator.attributes["powers"] and None not in powers:
        right = tuple(powers[2] - power for power in powers[:2])  # type: ignore[operator]
        if min(right) < 0 or 0 not in right or max(right) > TERM_SHIFT:
            raise OperandError(f"one of its scales must be that of its output, the other at most as large: {powers}")
        return WordFactors(right=(right[0], right[1]))
    multipliers, shifts = quantize_addition(float(one), float(other), float(made), TERM_SHIFT)
    return WordFactors(tuple(multipliers.tolist()), tuple(shifts.tolist()))


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    factors = word_factors(operator, inputs, output)
    one, other = (array.astype(np.int64) for array in arrays)
    if operator.attributes["operation"] == MULTIPLY:
        return stored(_scaled(one * other, factors, 0), operator, output)
    if factors.right is not None:
        terms = [divided(value, bits) for value, bits in zip((one, other), factors.right, strict=True)]
    else:
        terms = [_scaled(value << TERM_SHIFT, factors, at) for at, value in enumerate((one, other))]
    total = terms[0] - terms[1] if operator.attributes["operation"] == SUBTRACT else terms[0] + terms[1]
    return stored(total if factors.right is not None else _scaled(total, factors, 2), operator, output)


def _scaled(values: LongArray, factors: WordFactors, at: int) -> LongArray:
    return scale_fixed_point(values, np.array(factors.multiplier[at]), np.array(factors.shift[at]))


def _power(scale: float) -> int | None:
    """The power of two that a scale is, nearly; None if it is none.

    Raises:
        OperandError: LiteRT's binary32 decides.
    """
    exact = math.log2(scale)
    rest = abs(exact - round(exact))
    if abs(rest - NEARLY_WHOLE) < UNSURE:
        raise OperandError(f"its scale is hardly a power of two: {scale}")
    return round(exact) if rest < NEARLY_WHOLE else None
