"""Values below zero times a slope."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import (
    OperatorKernel,
    stored,
    values_of,
)
from int8tune.compiler.operator_kernels.pointwise import pointwise
from int8tune.compiler.operators.base import zero_point_of
from int8tune.compiler.operators.prelu import Factor, prelu_constants
from int8tune.schedules.epilogue import scale_fixed_point
from int8tune.schedules.target import Target


def prelu(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    values, output = values_of(graph, operator)
    constants = prelu_constants(values, output)

    def made(*stored_values: Any) -> Any:
        data, slope = (
            each.astype("int32") - zero_point_of(value) for each, value in zip(stored_values, values, strict=True)
        )
        steps = tirx.Select(data >= 0, _scaled(data, constants.above), _scaled(data * slope, constants.below))
        return stored(steps + zero_point_of(output), operator, output)

    return pointwise(values, output, made, target)


def _scaled(value: Any, factor: Factor) -> Any:
    multiplier, shift = factor
    return scale_fixed_point(value, tirx.const(multiplier), tirx.const(shift))
