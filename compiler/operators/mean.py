"""The mean over axes.

Sources: TFLite, QuantizedMeanOrSum of reference/reduce.h; ONNX Runtime, QLinearGlobalAveragePool (qlgavgpool.cpp).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import (
    Array,
    byte_fault,
    scale_of,
    shape_fault,
    stored,
    symmetric_fault,
    zero_point_of,
)
from int8tune.schedules.errors import OperandError
from int8tune.schedules.operands import MAX_SCALE, MIN_SCALE, quantize_multiplier
from int8tune.schedules.oracle.reference import scale_binary32, scale_fixed_point

# The sums of so many values of each type fit 32 bits.
MOST_BYTES, MOST_WORDS = 1 << 23, 65535


@dataclass(frozen=True, slots=True, eq=False)
class MeanConstants:
    """What a mean knows before it runs: its output is the sum of the values, less `zero_points`, times a factor.

    Attributes:
        zero_points: the input's zero point times the number of values, which is subtracted from the sum.
        multiplier, shift: the fixed rule's factor, multiplier * 2^(shift - 31), for
            `schedules.oracle.reference.scale_fixed_point`. The multiplier may be below 2^30.
        scale: the float rule's factor, for `schedules.oracle.reference.scale_binary32`.
    """

    zero_points: int
    multiplier: int = 0
    shift: int = 0
    scale: np.float32 | None = None


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    (data,) = inputs
    is_wide = data.type == "s16" and operator.rule == "fixed"
    wrong = symmetric_fault(data, output) if is_wide else byte_fault(data, output)
    if wrong:
        return wrong
    if operator.rule == "fixed" and data.type != output.type:
        return f"its input and output must have one type: {data.type}, {output.type}"
    axes = operator.attributes["axes"]
    if not axes or list(axes) != sorted({axis for axis in axes if 0 <= axis < len(data.shape)}):
        return f"its axes must ascend within those of {data.shape}: {axes}"
    most = MOST_WORDS if is_wide else MOST_BYTES
    if not 1 <= _count(operator, data) <= most:
        return f"a mean has 1 to {most} values: {_count(operator, data)}"
    try:
        constants = mean_constants(operator, data, output)
    except OperandError as error:
        return str(error)
    if constants.scale is not None and not MIN_SCALE <= constants.scale <= MAX_SCALE:
        return f"its factor must be within 2^-60 and 2^20: {constants.scale}"
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(data.shape))
    dropped = tuple(extent for axis, extent in enumerate(data.shape) if axis not in axes)
    return None if output.shape == kept else shape_fault(output, dropped)


def mean_constants(operator: Operator, data: Value, output: Value) -> MeanConstants:
    """The constants of a mean.

    Raises:
        OperandError: the scales are too far from each other.
    """
    count = _count(operator, data)
    zero_points = zero_point_of(data) * count
    if operator.rule == "float":
        return MeanConstants(zero_points, scale=scale_of(data) / (scale_of(output) * np.float32(count)))
    multiplier, shift = quantize_multiplier(float(scale_of(data)) / float(scale_of(output)))
    # The multiplier is divided by the count after a shift that keeps it within 63 bits, and the factor's within -31.
    extra = min(count.bit_length() - 1, 32, 31 + shift)
    return MeanConstants(zero_points, (multiplier << extra) // count, shift - extra)


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    constants = mean_constants(operator, inputs[0], output)
    sums = arrays[0].astype(np.int64).sum(axis=operator.attributes["axes"]) - constants.zero_points
    if constants.scale is not None:
        scaled = scale_binary32(sums, np.array([constants.scale], np.float32))
    else:
        scaled = scale_fixed_point(sums, np.array(constants.multiplier), np.array(constants.shift))
    return stored(scaled + zero_point_of(output), operator, output).reshape(output.shape)


def _count(operator: Operator, data: Value) -> int:
    return math.prod(data.shape[axis] for axis in operator.attributes["axes"])
