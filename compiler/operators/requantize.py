"""Stored values of 16 or 32 bits in another scale or type, in integers, as TFLite's QUANTIZE computes them.

Source: kernels/quantize.cc and reference/requantize.h of TensorFlow Lite. Values of 8 bits have a table instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import Array, scale_of, shape_fault, stored, symmetric_fault, zero_point_of
from int8tune.schedules.errors import OperandError
from int8tune.schedules.operands import quantize_multiplier
from int8tune.schedules.oracle.reference import scale_fixed_point

# What LiteRT has, from and to.
TYPES = {("s16", "s8"), ("s16", "s16"), ("s16", "s32"), ("s32", "s8"), ("s32", "s16")}


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:  # noqa: ARG001
    (data,) = inputs
    if (data.type, output.type) not in TYPES:
        return f"it must be from s16 to s8, s16 or s32, or from s32 to s8 or s16: {data.type}, {output.type}"
    if any(value.quantization is None or value.quantization.per_channel for value in (data, output)):
        return "its values must have one scale each"
    if (data.type, output.type) == ("s16", "s16") and (wrong := symmetric_fault(data, output)):
        return wrong
    for value in (data, output):
        if value.type == "s32" and zero_point_of(value):
            return f"its values of 32 bits must have 0 as zero point: {zero_point_of(value)}"
    try:
        factor(data, output)
    except OperandError as error:
        return str(error)
    return shape_fault(output, data.shape)


def factor(data: Value, output: Value) -> tuple[int, int]:
    """The multiplier and the shift of a value, for `scale_fixed_point`.

    Raises:
        OperandError: the scales are too far from each other.
    """
    return quantize_multiplier(float(scale_of(data)) / float(scale_of(output)))


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    ((data,), (array,)) = inputs, arrays
    multiplier, shift = factor(data, output)
    centred = array.astype(np.int64) - zero_point_of(data)
    made = scale_fixed_point(centred, np.array(multiplier), np.array(shift))
    return made.astype(np.int32) if output.type == "s32" else stored(made + zero_point_of(output), operator, output)
