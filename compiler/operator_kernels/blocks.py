"""Blocks of pixels as channels of one pixel, and the other way round."""

from __future__ import annotations

from typing import Any

from tvm import te

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import OperatorKernel, argument, function_of, values_of
from int8tune.schedules.target import Target


def depth_to_space(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    (data,), output = values_of(graph, operator)
    image, (rows, columns), inner = argument("image", data), operator.attributes["block"], output.shape[3]
    minor = operator.attributes["minor"]

    def moved(n: Any, y: Any, x: Any, c: Any) -> Any:
        pixel = y % rows * columns + x % columns
        channel = c * (rows * columns) + pixel if minor else pixel * inner + c
        return image[n, y // rows, x // columns, channel]

    return OperatorKernel(function_of([image, te.compute(output.shape, moved)], target), operator.inputs)


def space_to_depth(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    (data,), output = values_of(graph, operator)
    image, (rows, columns), inner = argument("image", data), operator.attributes["block"], data.shape[3]
    minor = operator.attributes["minor"]

    def moved(n: Any, y: Any, x: Any, c: Any) -> Any:
        pixel, channel = (c % (rows * columns), c // (rows * columns)) if minor else (c // inner, c % inner)
        return image[n, y * rows + pixel // columns, x * columns + pixel % columns, channel]

    return OperatorKernel(function_of([image, te.compute(output.shape, moved)], target), operator.inputs)
