"""Between numbers and stored values."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import (
    OperatorKernel,
    argument,
    bounded,
    function_of,
    nearest_away,
    nearest_even,
    stored,
    values_of,
)
from int8tune.compiler.operators.base import scale_of, zero_point_of
from int8tune.schedules.target import Target


def quantize(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    (data,), output = values_of(graph, operator)
    values, scale = argument("values", data), tirx.const(float(scale_of(output)), "float32")
    rounded = nearest_away if operator.rule == "fixed" else nearest_even

    def steps(*at: Any) -> Any:
        found = rounded(bounded(values[at] / scale))
        return stored(found + zero_point_of(output), operator, output)

    return OperatorKernel(function_of([values, te.compute(output.shape, steps)], target), operator.inputs)


def dequantize(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    (data,), output = values_of(graph, operator)
    values, scale = argument("values", data), tirx.const(float(scale_of(data)), "float32")

    def real(*at: Any) -> Any:
        return (values[at].astype("int32") - zero_point_of(data)).astype("float32") * scale

    return OperatorKernel(function_of([values, te.compute(output.shape, real)], target), operator.inputs)
