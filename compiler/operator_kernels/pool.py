"""Average and maximum of windows over images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from compiler.graph import Graph, Operator, Value
from compiler.operator_kernels.kernel import (
    TYPES,
    OperatorKernel,
    argument,
    converted,
    function_of,
    is_worth_threads,
    nearest_even,
    rounded_alone,
    stored,
    values_of,
    vector_type,
)
from compiler.operators.base import scale_of, zero_point_of
from compiler.operators.pool import average_constants
from schedules.numerics import RANGES
from schedules.target import Target
from schedules.x86.accumulators import ON_STACK

# Channels whose sums are computed together, in four registers of 512 bits; the last ones overlap those before them.
LANES = 64


def average_pool(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """Sums of windows, divided by how many values each has; many channels at a time."""
    (data,), output = values_of(graph, operator)
    counts = average_constants(operator, data).count[..., 0].astype(np.float32)
    arithmetic = (_Fixed if operator.rule == "fixed" else _Float)(operator, data, output)
    images, rows, columns, channels = output.shape
    lanes = min(LANES, channels)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        image = T.arg("image", T.buffer(data.shape, TYPES[data.type]))
        count = T.arg("count", T.buffer((rows, columns), "float32"))
        out = T.arg("out", T.buffer(output.shape, TYPES[output.type]))
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        loop = T.parallel if is_worth_threads(output.shape, target) else T.serial
        with loop(0, images * rows) as at:
            n, y = at // rows, at % rows
            with T.serial(0, columns) as x, T.serial(0, -(-channels // lanes)) as piece:
                first = T.min(piece * lanes, channels - lanes)
                place = [n, y, x, T.ramp(first, 1, lanes) if lanes > 1 else first]
                total = _sum(operator, data, arithmetic, image, place)
                T.buffer_store(out, arithmetic.average(total, count[y, x]), place)
    return OperatorKernel(builder.get(), operator.inputs, (counts,))


def _sum(operator: Operator, data: Value, arithmetic: Any, image: Any, place: Sequence[Any]) -> Any:
    """The sum of the values of one window that are inside of the image, in the order of its rows."""
    at, (n, y, x, channels) = operator.attributes, place
    (down, across), (top, left, _, _) = at["stride"], at["padding"]
    (height, width), (_, rows, columns, _) = at["kernel"], data.shape
    above, before = y * down - top, x * across - left
    dtype = vector_type(arithmetic.dtype, channels.ty.dtype.lanes)
    sums = T.alloc_buffer((1,), dtype, annotations=ON_STACK)
    T.buffer_store(sums, tirx.const(0, dtype), [0])
    down_taps, across_taps = _inside(above, height, rows), _inside(before, width, columns)
    with down_taps as row, across_taps as column:
        taken = converted(image[n, above + row, before + column, channels], "int32")
        T.buffer_store(sums, sums[0] + arithmetic.value(taken), [0])
    return sums[0]


def _inside(first: Any, taps: int, extent: int) -> Any:
    """A loop over the taps of a window that begins at `first` which are inside of an image."""
    return T.serial(T.max(0, -first), T.min(taps, extent - first))


class _Float:
    """Averages as ONNX Runtime computes them: of what the stored values stand for."""

    dtype = "float32"

    def __init__(self, operator: Operator, data: Value, output: Value) -> None:
        self._operator, self._data, self._output = operator, data, output

    def value(self, steps: Any) -> Any:
        scale = tirx.const(float(scale_of(self._data)), "float32")
        return rounded_alone(converted(steps - zero_point_of(self._data), "float32") * scale)

    def average(self, total: Any, count: Any) -> Any:
        scale, zero_point = float(scale_of(self._output)), zero_point_of(self._output)
        steps = total / count / tirx.const(scale, "float32") + tirx.const(zero_point, "float32")
        return stored(nearest_even(steps), self._operator, self._output)


class _Fixed:
    """Averages as TFLite's reference kernels compute them: of stored values, halves away from zero."""

    dtype = "int32"

    def __init__(self, operator: Operator, _: Value, output: Value) -> None:
        self._operator, self._output = operator, output

    def value(self, steps: Any) -> Any:
        return steps

    def average(self, total: Any, count: Any) -> Any:
        # Integers of binary32, whose quotient is below the next integer wherever the true one is.
        magnitude = converted(tirx.max(total, 0 - total), "float32") + tirx.trunc(count * 0.5)
        whole = converted(tirx.trunc(magnitude / count), "int32")
        return stored(tirx.Select(total < 0, 0 - whole, whole), self._operator, self._output)


def max_pool(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """The largest value of each window."""
    (data,), output = values_of(graph, operator)
    at = operator.attributes
    (down, across), (top, left, bottom, right) = at["stride"], at["padding"]
    image, (_, height, width, _) = argument("image", data), data.shape
    border = tirx.const(RANGES[data.type][0], TYPES[data.type])
    rows, columns = (te.reduce_axis((0, extent)) for extent in at["kernel"])

    def largest(n: Any, y: Any, x: Any, c: Any) -> Any:
        row, column = y * down - top + rows, x * across - left + columns
        inside = [*(row >= 0, column >= 0) * bool(top or left), *(row < height, column < width) * bool(bottom or right)]
        found = image[n, row, column, c]
        kept = tirx.if_then_else(tirx.all(*inside), found, border) if inside else found
        return te.max(kept, axis=[rows, columns])

    made = te.compute(output.shape, largest)
    if operator.clamp is not None:
        unbounded = made
        made = te.compute(output.shape, lambda *at: stored(unbounded[at].astype("int32"), operator, output))
    return OperatorKernel(function_of([image, made], target), operator.inputs)
