"""Values below zero times a slope, which is quantized as well and may be spread over axes of extent 1.

Source: TFLite, reference/prelu.h and the Prepare of kernels/activations.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import (
    Array,
    LongArray,
    broadcast_fault,
    byte_fault,
    scale_of,
    stored,
    zero_point_of,
)
from int8tune.schedules.errors import OperandError
from int8tune.schedules.operands import quantize_multiplier
from int8tune.schedules.oracle.reference import scale_fixed_point

Factor = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class PreluConstants:
    """Multiplier and shift, for `scale_fixed_point`, of values from 0 on, and of others times their slope."""

    above: Factor
    below: Factor


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    wrong = byte_fault(*inputs, output)
    if wrong or len(inputs) != 2 or operator.rule != "fixed":
        return wrong or f"it must have values and slopes of the fixed rule: {len(inputs)}, {operator.rule}"
    types = [value.type for value in (*inputs, output)]
    if len(set(types)) > 1:
        return f"its inputs and output must have one type: {', '.join(types)}"
    try:
        prelu_constants(inputs, output)
    except OperandError as error:
        return str(error)
    return broadcast_fault(inputs, output)


def prelu_constants(inputs: Sequence[Value], output: Value) -> PreluConstants:
    """The constants of a PRELU.

    Raises:
        OperandError: the scales are too far from each other.
    """
    data, slope = inputs
    above = float(scale_of(data) / scale_of(output))
    below = float(scale_of(data) * scale_of(slope) / scale_of(output))
    return PreluConstants(quantize_multiplier(above), quantize_multiplier(below))


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    constants = prelu_constants(inputs, output)
    data, slope = (array.astype(np.int64) - zero_point_of(value) for value, array in zip(inputs, arrays, strict=True))
    above, below = _scaled(data, constants.above), _scaled(data * slope, constants.below)
    return stored(np.where(data >= 0, above, below) + zero_point_of(output), operator, output)


def _scaled(values: LongArray, factor: Factor) -> LongArray:
    multiplier, shift = factor
    return scale_fixed_point(values, np.array(multiplier), np.array(shift))
