"""Stored values of 16 or 32 bits in another scale or type."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import OperatorKernel, stored, values_of
from int8tune.compiler.operator_kernels.pointwise import pointwise
from int8tune.compiler.operators.base import zero_point_of
from int8tune.compiler.operators.requantize import factor
from int8tune.schedules.epilogue import scale_fixed_point
from int8tune.schedules.target import Target


def requantize(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    (data,), output = values_of(graph, operator)
    multiplier, shift = (tirx.const(each) for each in factor(data, output))

    def made(value: Any) -> Any:
        found = scale_fixed_point(value.astype("int32") - zero_point_of(data), multiplier, shift)
        return found if output.type == "s32" else stored(found + zero_point_of(output), operator, output)

    return pointwise([data], output, made, target)
