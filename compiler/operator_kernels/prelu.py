"""Values below zero times a slope."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import (
    OperatorKernel,
    argument,
    function_of,
    spread,
    stored,
    values_of,
)
from int8tune.compiler.operators.base import zero_point_of
from int8tune.compiler.operators.prelu import Factor, prelu_constants
from int8tune.schedules.epilogue import scale_fixed_point
from int8tune.schedules.target import Target


def prelu(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    values, output = values_of(graph, operator)
    constants = prelu_constants(values, output)
    tensors = [argument(name, value) for name, value in zip(("values", "slopes"), values, strict=True)]

    def made(*at: Any) -> Any:
        data, slope = (
            tensor[spread(value, at)].astype("int32") - zero_point_of(value)
            for tensor, value in zip(tensors, values, strict=True)
        )
        steps = tirx.Select(data >= 0, _scaled(data, constants.above), _scaled(data * slope, constants.below))
        return stored(steps + zero_point_of(output), operator, output)

    return OperatorKernel(function_of([*tensors, te.compute(output.shape, made)], target), operator.inputs)


def _scaled(value: Any, factor: Factor) -> Any:
    multiplier, shift = factor
    return scale_fixed_point(value, tirx.const(multiplier), tirx.const(shift))
