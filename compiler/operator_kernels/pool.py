"""Average and maximum of windows over images."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from operator import add as operator_add
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
    constant,
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
    if operator.rule == "float" and (windows.are_disjoint or math.prod(windows.kernel) > MOST_TAPS):
        function = write_window_sums(windows, _average_sums(operator, data, output, counts), target)
        return OperatorKernel(function, operator.inputs, (counts.reshape(-1),))
    image, count = argument("image", data), constant("count", counts)
    average = _average_of_floats if operator.rule == "float" else _average_of_integers
    made = te.compute(output.shape, average(operator, data, output, image, count))
    return OperatorKernel(function_of([image, count, made], target), operator.inputs, (counts,))


def _average_of_integers(operator: Operator, data: Value, output: Value, image: Any, count: Any) -> Callable[..., Any]:
    sums = _sums(operator, output, _with_border(operator, data, lambda *at: image[at].astype("int32"), tirx.const(0)))

    def average(n: Any, y: Any, x: Any, c: Any) -> Any:
        total, divisor = sums(n, y, x, c), count[y, x]
        if data.type == "s16":
            return stored(_integer_quotient(total, divisor), operator, output)
        half = tirx.trunc(divisor * 0.5)
        # Integers of binary32, whose quotient is below the next integer wherever the true one is.
        magnitude = tirx.trunc((tirx.abs(total).astype("float32") + half) / divisor).astype("int32")
        return stored(with_sign_of(total, magnitude), operator, output)

    return average


def _average_of_floats(operator: Operator, data: Value, output: Value, image: Any, count: Any) -> Callable[..., Any]:
    sums = _average_sums(operator, data, output)
    border = tirx.const(0.0, "float32")
    total = _sums(operator, output, _with_border(operator, data, lambda *at: sums.number(image[at]), border))
    return lambda n, y, x, c: sums.finish(total(n, y, x, c), (y, x), count)


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


def _average_sums(operator: Operator, data: Value, output: Value, counts: Array | None = None) -> Sums:
    """Sums of numbers in binary32."""
    real, scale = (tirx.const(float(scale_of(each)), "float32") for each in (data, output))
    zero_point, offset = zero_point_of(data), tirx.const(zero_point_of(output), "float32")

    def number(value: Any) -> Any:
        return rounded_alone((value.astype("int32") - zero_point).astype("float32") * real)

    def average(total: Any, window: Any, count: Any) -> Any:
        return stored(nearest_even(bounded(total / count[window] / scale + offset)), operator, output)

    known = () if counts is None else (counts,)
    return Sums((TYPES[data.type], "float32", TYPES[output.type]), number, average, known)


def _with_border(operator: Operator, data: Value, value: Any, border: Any) -> Any:
    """The values that are added, with a border of zeros: in memory, so that no sum asks where it is."""
    top, left, bottom, right = operator.attributes["padding"]
    batch, height, width, channels = data.shape

    def taken(n: Any, y: Any, x: Any, c: Any) -> Any:
        before, behind = (y >= top, x >= left), (y < top + height, x < left + width)
        inside = [*before * bool(top or left), *behind * bool(bottom or right)]
        found = value(n, y - top, x - left, c)
        return tirx.if_then_else(tirx.all(*inside), found, border) if inside else found

    return te.compute((batch, top + height + bottom, left + width + right, channels), taken)


def _sums(operator: Operator, output: Value, values: Any) -> Any:
    """What gives the sum of a window's values, in the order of its rows."""
    (down, across), (rows, columns) = operator.attributes["stride"], operator.attributes["kernel"]

    def tap(n: Any, y: Any, x: Any, c: Any, row: Any, column: Any) -> Any:
        return values[n, y * down + row, x * across + column, c]

    if rows * columns <= MOST_TAPS:
        taps = list(itertools.product(range(rows), range(columns)))
        return lambda n, y, x, c: functools.reduce(operator_add, (tap(n, y, x, c, *place) for place in taps))
    reduced = [te.reduce_axis((0, extent)) for extent in (rows, columns)]
    sums = te.compute(output.shape, lambda n, y, x, c: te.sum(tap(n, y, x, c, reduced[0], reduced[1]), axis=reduced))
    return lambda *at: sums[at]


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
