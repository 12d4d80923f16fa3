"""The largest or smallest of values over axes, where it is, and sums.

ONNX Runtime adds what stored values stand for in binary32, in an order that depends on shapes: where a sum is nearly a
tie, it may be a step from the sum here, which is that of all values rounded once. TFLite's sums are
QuantizedMeanOrSum of reference/reduce.h.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from int8tune.compiler.graph import DTYPES, Kind, Operator, Value
from int8tune.compiler.operators.base import (
    BYTES,
    Array,
    byte_fault,
    is_same_quantization,
    scale_of,
    shape_fault,
    stored,
    zero_point_of,
)
from int8tune.compiler.operators.quantize import quantized_float
from int8tune.schedules.errors import OperandError
from int8tune.schedules.operands import quantize_multiplier
from int8tune.schedules.oracle.reference import scale_fixed_point

# The sum of so many 8-bit values fits 32 bits, and so does a place among them beside a value.
MOST_VALUES = 1 << 22
PLACES = ("s32", "s64")
ARGUMENTS = (Kind.ARG_MAX, Kind.ARG_MIN)


@dataclass(frozen=True, slots=True, eq=False)
class SumConstants:
    """What a sum knows before it runs.

    Attributes:
        zero_points: what is subtracted from the sum of stored values.
        multiplier, shift: the fixed rule's factor; the float rule multiplies by a scale and divides by one.
    """

    zero_points: int
    multiplier: int = 0
    shift: int = 0


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    (data,), axes = inputs, operator.attributes["axes"]
    if operator.kind in ARGUMENTS:
        if data.type not in BYTES or output.type not in PLACES or len(axes) != 1:
            return f"it must find places of 8-bit integers on one axis: {data.type}, {output.type}, {axes}"
    elif wrong := byte_fault(data, output):
        return wrong
    elif operator.kind is not Kind.SUM and not is_same_quantization(data, output):
        return "its input and output must have one scale"
    if not axes or list(axes) != sorted({axis for axis in axes if 0 <= axis < len(data.shape)}):
        return f"its axes must ascend within those of {data.shape}: {axes}"
    if count_of(operator, data) > MOST_VALUES:
        return f"at most {MOST_VALUES} values are reduced to one: {count_of(operator, data)}"
    if operator.kind is Kind.SUM and (wrong := _sum_fault(operator, data, output)):
        return wrong
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(data.shape))
    dropped = tuple(extent for axis, extent in enumerate(data.shape) if axis not in axes)
    return None if output.shape == kept else shape_fault(output, dropped)


def _sum_fault(operator: Operator, data: Value, output: Value) -> str | None:
    if operator.rule == "fixed" and ({data.type, output.type} != {"u8"} or is_same_quantization(data, output)):
        return "sums of the fixed rule are of u8 values, with another scale: LiteRT adds others without their scales"
    try:
        sum_constants(operator, data, output)
    except OperandError as error:
        return str(error)
    return None


def count_of(operator: Operator, data: Value) -> int:
    """How many values are reduced to one."""
    return math.prod(data.shape[axis] for axis in operator.attributes["axes"])


def sum_constants(operator: Operator, data: Value, output: Value) -> SumConstants:
    """The constants of a sum.

    Raises:
        OperandError: the scales are too far from each other.
    """
    zero_points = zero_point_of(data) * count_of(operator, data)
    if operator.rule == "float":
        return SumConstants(zero_points)
    return SumConstants(zero_points, *quantize_multiplier(float(scale_of(data)) / float(scale_of(output))))


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    ((data,), (array,)), axes = (inputs, arrays), operator.attributes["axes"]
    if operator.kind in ARGUMENTS:
        return _places(operator, array).astype(DTYPES[output.type]).reshape(output.shape)
    if operator.kind is not Kind.SUM:
        choose: Any = np.max if operator.kind is Kind.REDUCE_MAX else np.min
        return stored(choose(array.astype(np.int64), axis=axes), operator, output).reshape(output.shape)
    constants = sum_constants(operator, data, output)
    sums = array.astype(np.int64).sum(axis=axes) - constants.zero_points
    if operator.rule == "fixed":
        steps = scale_fixed_point(sums, np.array(constants.multiplier), np.array(constants.shift))
    else:
        steps = quantized_float(np.asarray(sums, np.float32) * scale_of(data), scale_of(output))
    return stored(steps + zero_point_of(output), operator, output).reshape(output.shape)


def _places(operator: Operator, array: Array) -> Array:
    (axis,), wide = operator.attributes["axes"], array.astype(np.int64)
    wide = -wide if operator.kind is Kind.ARG_MIN else wide
    is_last = operator.attributes["last"]
    first: Array = np.asarray((np.flip(wide, axis) if is_last else wide).argmax(axis=axis))
    return array.shape[axis] - 1 - first if is_last else first
