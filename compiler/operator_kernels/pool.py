"""Average and maximum of windows over images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import te, tirx

from int8tune.compiler.graph import Graph, Operator, Value
from int8tune.compiler.operator_kernels.averages import averages_of
from int8tune.compiler.operator_kernels.kernel import (
    TYPES,
    OperatorKernel,
    argument,
    bounded,
    function_of,
    nearest_even,
    rounded_alone,
    stored,
    values_of,
    with_sign_of,
)
from int8tune.compiler.operator_kernels.pool_slides import AverageSlide, MaximumSlide
from int8tune.compiler.operator_kernels.sliding import write_slide
from int8tune.compiler.operator_kernels.windows import Sums, Windows, write_window_sums
from int8tune.compiler.operators.base import scale_of, zero_point_of
from int8tune.compiler.operators.pool import average_constants
from int8tune.compiler.program import Array
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.target import Target

# Larger windows are loops.
MOST_TAPS = 64


def average_pool(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """Sums of windows, divided by how many values each has."""
    (data,), output = values_of(graph, operator)
    counts = average_constants(operator, data).count[..., 0].astype(np.float32)
    windows = _windows(operator, data, output)
    by_sums = averages_of(operator, data, output)
    if by_sums is not None:
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
    if math.prod(operator.attributes["kernel"]) <= MOST_TAPS:
        slide = MaximumSlide(operator, data, output)
        return OperatorKernel(write_slide(_windows(operator, data, output), slide, target), operator.inputs)
    image = argument("image", data)
    border = tirx.const(RANGES[data.type][0], TYPES[data.type])
    largest = _over_windows(operator, data, output, lambda *at: image[at], te.max, border)
    if operator.clamp is not None:
        largest = te.compute(output.shape, lambda *at: stored(largest[at].astype("int32"), operator, output))
    return OperatorKernel(function_of([image, largest], target), operator.inputs)


def _over_windows(operator: Operator, data: Value, output: Value, value: Any, reduce: Any, border: Any) -> Any:
    """The reduction of each window's values, in the order of its rows."""
    at = operator.attributes
    (down, across), (top, left, bottom, right) = at["stride"], at["padding"]
    _, height, width, _ = data.shape
    rows, columns = (te.reduce_axis((0, extent)) for extent in at["kernel"])

    def taken(n: Any, y: Any, x: Any, c: Any) -> Any:
        row, column = y * down - top + rows, x * across - left + columns
        inside = [*(row >= 0, column >= 0) * bool(top or left), *(row < height, column < width) * bool(bottom or right)]
        found = value(n, row, column, c)
        kept = tirx.if_then_else(tirx.all(*inside), found, border) if inside else found
        return reduce(kept, axis=[rows, columns])

    return te.compute(output.shape, taken)
