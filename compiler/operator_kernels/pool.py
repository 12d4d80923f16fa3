"""Average and maximum of windows over images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import tirx

from int8tune.compiler.graph import Graph, Operator, Value
from int8tune.compiler.operator_kernels.averages import MOST_TAPS, averages_of
from int8tune.compiler.operator_kernels.kernel import (
    TYPES,
    OperatorKernel,
    bounded,
    nearest_even,
    rounded_alone,
    stored,
    values_of,
    with_sign_of,
)
from int8tune.compiler.operator_kernels.pool_slides import AverageSlide, MaximumSlide
from int8tune.compiler.operator_kernels.sliding import can_slide, write_slide
from int8tune.compiler.operator_kernels.windows import Sums, Windows, write_window_sums
from int8tune.compiler.operators.base import scale_of, zero_point_of
from int8tune.compiler.operators.pool import average_constants
from int8tune.compiler.program import Array
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.target import Target


def average_pool(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """Sums of windows, divided by how many values each has."""
    (data,), output = values_of(graph, operator)
    counts = average_constants(operator, data).count[..., 0].astype(np.float32)
    windows = _windows(operator, data, output)
    by_sums = averages_of(operator, data, output)
    if by_sums is not None and can_slide(windows):
        slide = AverageSlide(operator, output, by_sums, windows, _average_sums(operator, data, output, counts))
        return OperatorKernel(write_slide(windows, slide, target), operator.inputs, slide.constants)
    kind = _average_sums if operator.rule == "float" else _integer_sums
    function = write_window_sums(windows, kind(operator, data, output, counts), target)
    return OperatorKernel(function, operator.inputs, (counts.reshape(-1),))


def _integer_sums(operator: Operator, data: Value, output: Value, counts: Array) -> Sums:
    """Sums of stored values, divided as the fixed rule says."""

    def average(total: Any, window: Any, count: Any) -> Any:
        divisor = count[window]
        if data.type == "s16":
            return stored(_integer_quotient(total, divisor), operator, output)
        half = tirx.trunc(divisor * 0.5)
        # Integers of binary32, whose quotient is below the next integer wherever the true one is.
        magnitude = tirx.trunc((tirx.abs(total).astype("float32") + half) / divisor).astype("int32")
        return stored(with_sign_of(total, magnitude), operator, output)

    return Sums(
        (TYPES[data.type], "int32", TYPES[output.type]), lambda value: value.astype("int32"), average, (counts,)
    )


def _integer_quotient(total: Any, divisor: Any) -> Any:
    """Halves away from zero, of sums that binary32 has not whole."""
    count = divisor.astype("int32")
    magnitude = tirx.truncdiv(tirx.abs(total) + tirx.truncdiv(count, tirx.const(2)), count)
    return with_sign_of(total, magnitude)


def _windows(operator: Operator, data: Value, output: Value) -> Windows:
    at = operator.attributes
    batch, height, width, channels = data.shape
    _, rows, columns, _ = output.shape
    return Windows((batch, height, width, channels), (rows, columns), at["kernel"], at["stride"], at["padding"][:2])


def _average_sums(operator: Operator, data: Value, output: Value, counts: Array) -> Sums:
    """Sums of numbers in binary32."""
    real, scale = (tirx.const(float(scale_of(each)), "float32") for each in (data, output))
    zero_point, offset = zero_point_of(data), tirx.const(zero_point_of(output), "float32")

    def number(value: Any) -> Any:
        return rounded_alone((value.astype("int32") - zero_point).astype("float32") * real)

    def average(total: Any, window: Any, count: Any) -> Any:
        return stored(nearest_even(bounded(total / count[window] / scale + offset)), operator, output)

    return Sums((TYPES[data.type], "float32", TYPES[output.type]), number, average, (counts,))


def max_pool(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """The largest value of each window."""
    (data,), output = values_of(graph, operator)
    windows, slide = _windows(operator, data, output), MaximumSlide(operator, data, output)
    if math.prod(windows.kernel) <= MOST_TAPS and can_slide(windows):
        return OperatorKernel(write_slide(windows, slide, target), operator.inputs)
    joined = Sums(
        slide.types,
        lambda value: value,
        lambda largest, window: slide.finish(largest, window, ()),
        join=slide.join,
        start=RANGES[data.type][0],
    )
    return OperatorKernel(write_window_sums(windows, joined, target), operator.inputs)
