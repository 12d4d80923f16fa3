"""The product of two quantized values, of which one may be spread over axes of extent 1.

Sources: TFLite, reference/integer_ops/mul.h and kernels/mul.cc; ONNX Runtime, qlmul.cpp with SSE2, which is all that
x86-64 has. Without optimizations ONNX Runtime multiplies numbers: one step of difference, more often where products
are ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import (
    STORED_RANGES,
    Array,
    broadcast_fault,
    byte_fault,
    scale_of,
    stored,
    zero_point_of,
)
from int8tune.compiler.operators.quantize import half_even
from int8tune.compiler.rounding.fused_rounding import FusedRounding, fused_rounding
from int8tune.compiler.rounding.staircases import FixedStaircase
from int8tune.schedules.errors import OperandError
from int8tune.schedules.operands import quantize_multiplier
from int8tune.schedules.oracle.reference import scale_fixed_point


@dataclass(frozen=True, slots=True, eq=False)
class MultiplyConstants:
    """What a product knows before it runs, besides zero points: the factor of the product of centred values.

    Attributes:
        multiplier, shift: the fixed rule's, multiplier * 2^(shift - 31), for `scale_fixed_point`.
        ratio: the float rule's. The product becomes a binary32 number, times the ratio, plus the output's zero point,
            each rounded, and is rounded half to even.
    """

    multiplier: int = 0
    shift: int = 0
    ratio: np.float32 | None = None


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    wrong = byte_fault(*inputs, output)
    if wrong or len(inputs) != 2:
        return wrong or f"it must multiply two values: {len(inputs)}"
    types = [value.type for value in (*inputs, output)]
    if len(set(types)) > 1:
        return f"its inputs and output must have one type: {', '.join(types)}"
    try:
        constants = multiply_constants(operator, inputs, output)
    except OperandError as error:
        return str(error)
    if constants.ratio is not None and not np.isfinite(constants.ratio):
        return f"the ratio of its scales must be finite: {constants.ratio}"
    return broadcast_fault(inputs, output)


def multiply_constants(operator: Operator, inputs: Sequence[Value], output: Value) -> MultiplyConstants:
    """The constants of a product.

    Raises:
        OperandError: the scales are too far from each other.
    """
    # All in binary32 in both runtimes.
    ratio = scale_of(inputs[0]) * scale_of(inputs[1]) / scale_of(output)
    if operator.rule == "float":
        return MultiplyConstants(ratio=ratio)
    return MultiplyConstants(*quantize_multiplier(float(ratio)))


def fused_product(
    operator: Operator, inputs: Sequence[Value], output: Value, constants: MultiplyConstants
) -> FusedRounding | None:
    """What gives the outputs of the fixed rule for all products of stored values, without exceptions.

    None for the float rule, and where there is no such scale and offset: a power of two has none, nor has a factor of
    more than 1.
    """
    if constants.ratio is not None:
        return None
    one, other = (np.array(STORED_RANGES[value.type], np.int64) - zero_point_of(value) for value in inputs)
    products = np.outer(one, other)
    low, high = (bound - zero_point_of(output) for bound in operator.clamp or STORED_RANGES[output.type])
    least, most, multiplier, shift = (
        np.array([each], np.int64) for each in (products.min(), products.max(), constants.multiplier, constants.shift)
    )
    found = fused_rounding(FixedStaircase(low, high, least, most, multiplier, shift))
    return None if found is None or found.has_exceptions else found


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    constants = multiply_constants(operator, inputs, output)
    one, other = (array.astype(np.int64) - zero_point_of(value) for value, array in zip(inputs, arrays, strict=True))
    product, zero_point = one * other, zero_point_of(output)
    if constants.ratio is None:
        scaled = scale_fixed_point(product, np.array(constants.multiplier), np.array(constants.shift)) + zero_point
    else:
        scaled = half_even(product.astype(np.float32) * constants.ratio + np.float32(zero_point))
    return stored(scaled, operator, output)
