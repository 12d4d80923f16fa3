"""Pools."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from compiler.graph import Graph, Operator
from compiler.operator_kernels.kernel import OperatorKernel, placeholder, scheduled
from schedules.target import Target


def average_pool(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """Rounded averages, halves away from zero, of the values of a window that lie in the image."""
    data, out = graph.values[operator.inputs[0]], graph.values[operator.outputs[0]]
    at = operator.attributes
    (kernel_height, kernel_width), (down, across), (top, left, *_) = at["kernel"], at["stride"], at["padding"]
    _, height, width, _ = data.shape
    image = placeholder("image", data.shape, data.type)
    rows, columns = (te.reduce_axis((0, extent), name=name) for extent, name in ((kernel_height, "r"), (kernel_width, "c")))

    def inside(y: Any, x: Any) -> Any:
        return tirx.all(y >= 0, y < height, x >= 0, x < width)

    def taken(n: Any, y: Any, x: Any, c: Any) -> Any:
        row, column = y * down - top + rows, x * across - left + columns
        value = image[n, row, column, c].astype("int32")
        return te.sum(te.if_then_else(inside(row, column), value, 0), axis=[rows, columns])

    return OperatorKernel(scheduled([image, te.compute(out.shape, taken)], target), operator.inputs[:1])
