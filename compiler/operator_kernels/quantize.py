"""Between numbers and stored values."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import (
    OperatorKernel,
    in_steps,
    nearest_away,
    nearest_even,
    stored,
    values_of,
)
from int8tune.compiler.operator_kernels.pointwise import pointwise
from int8tune.compiler.operators.base import scale_of, zero_point_of
from int8tune.schedules.target import Target


def quantize(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    (data,), output = values_of(graph, operator)
    rounded = nearest_away if operator.rule == "fixed" else nearest_even

    def steps(value: Any) -> Any:
        found = rounded(in_steps(value, output))
        return stored(found + zero_point_of(output), operator, output)

    return pointwise([data], output, steps, target)


def dequantize(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    (data,), output = values_of(graph, operator)
    scale = tirx.const(float(scale_of(data)), "float32")

    def real(value: Any) -> Any:
        return (value.astype("int32") - zero_point_of(data)).astype("float32") * scale

    return pointwise([data], output, real, target)
