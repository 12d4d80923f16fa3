"""The sum of two quantized values of one shape, as `schedules.oracle.reference` adds a layer's residual."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.layer_operands import addition_operands
from int8tune.compiler.operators.base import Array, byte_fault, shape_fault, stored, zero_point_of
from int8tune.schedules.errors import OperandError
from int8tune.schedules.operands import MAX_SCALE, MIN_SCALE
from int8tune.schedules.oracle.reference import add_binary32, add_fixed_point


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    wrong = byte_fault(*inputs, output)
    if wrong or len(inputs) != 2:
        return wrong or f"it must add two values: {len(inputs)}"
    if any(value.constant is not None for value in inputs):
        return "its summands must not be constant"
    own, residual = inputs
    try:
        addend = addition_operands(operator, own, residual, output)
    except OperandError as error:
        return str(error)
    if any(not MIN_SCALE <= ratio <= MAX_SCALE for ratio in addend.ratio):
        return f"the ratios of its scales must be within 2^-60 and 2^20: {addend.ratio.tolist()}"
    return shape_fault(inputs[0], output.shape) or shape_fault(inputs[1], output.shape)


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    """The sum; the float rule's depends on the order of the inputs where it is nearly a tie."""
    own, residual = inputs
    addend = addition_operands(operator, own, residual, output)
    add = add_fixed_point if operator.rule == "fixed" else add_binary32
    sums = add(arrays[0].astype(np.int64), arrays[1].astype(np.int64), zero_point_of(own), addend)
    return stored(sums, operator, output)
