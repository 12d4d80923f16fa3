"""The sum or difference of two quantized values, of which either may be spread over axes of extent 1.

Sources: `schedules.oracle.reference`, which adds a layer's residual so; TFLite, SubElementwise of reference/sub.h.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from int8tune.compiler.graph import Kind, Operator, Value
from int8tune.compiler.layer_operands import addition_operands
from int8tune.compiler.operators.base import Array, LongArray, broadcast_fault, byte_fault, stored, zero_point_of
from int8tune.schedules.errors import OperandError
from int8tune.schedules.operands import ADDITION_SHIFT, MAX_SCALE, MIN_SCALE, Addend
from int8tune.schedules.oracle.reference import add_binary32, add_fixed_point, scale_fixed_point


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    wrong = byte_fault(*inputs, output)
    if wrong or len(inputs) != 2:
        return wrong or f"it must add two values: {len(inputs)}"
    if operator.kind is Kind.SUBTRACT and operator.rule != "fixed":
        return "differences are those of the fixed rule"
    try:
        addend = addition_operands(operator, inputs[0], inputs[1], output)
    except OperandError as error:
        return str(error)
    if any(not MIN_SCALE <= ratio <= MAX_SCALE for ratio in addend.ratio):
        return f"the ratios of its scales must be within 2^-60 and 2^20: {addend.ratio.tolist()}"
    return broadcast_fault(inputs, output)


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    """The sum; the float rule's depends on the order of the inputs where it is nearly a tie."""
    addend = addition_operands(operator, inputs[0], inputs[1], output)
    own, other = np.broadcast_arrays(*(array.astype(np.int64) for array in arrays))
    if operator.kind is Kind.SUBTRACT:
        made = _difference(own, other, zero_point_of(inputs[0]), addend)
    elif operator.rule == "fixed":
        made = add_fixed_point(own, other, zero_point_of(inputs[0]), addend)
    else:
        made = add_binary32(own, other, zero_point_of(inputs[0]), addend)
    return stored(made, operator, output)


def _difference(own: LongArray, other: LongArray, own_zero_point: int, addend: Addend) -> LongArray:
    def scaled(values: LongArray, index: int) -> LongArray:
        multiplier, shift = (array[index : index + 1].astype(np.int64) for array in (addend.multiplier, addend.shift))
        return scale_fixed_point(values, multiplier, shift)

    terms = (
        scaled((own - own_zero_point) << ADDITION_SHIFT, 0),
        scaled((other - addend.zero_point) << ADDITION_SHIFT, 1),
    )
    return scaled(terms[0] - terms[1], 2) + addend.sum_zero_point
