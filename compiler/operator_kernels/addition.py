"""Additions that no layer could take into its kernel, and differences."""

from __future__ import annotations

import functools
from typing import Any, cast

import numpy as np
from tvm import tirx

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.layer_operands import addition_operands
from int8tune.compiler.operator_kernels.kernel import (
    OperatorKernel,
    stored,
    values_of,
)
from int8tune.compiler.operator_kernels.pointwise import pointwise
from int8tune.compiler.operators.base import zero_point_of
from int8tune.schedules.arguments import OUTPUT_ZERO_POINT, SUM_LOWEST, addition_params, params_length
from int8tune.schedules.epilogue import add_residual, scale_down
from int8tune.schedules.numerics import DataType, Numerics, OutputType, Requantize, Residual
from int8tune.schedules.operands import ADDITION_SHIFT
from int8tune.schedules.target import Target


def add(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """The end of a layer's kernel that has a residual, alone; the first input stands for the layer's own output."""
    (own, other), output = values_of(graph, operator)
    numerics = Numerics(
        output=cast(OutputType, output.type),
        requantize=Requantize(operator.rule),
        residual=Residual(cast(DataType, other.type)),
    )
    numbers = np.zeros(params_length(numerics), np.int32)
    numbers[OUTPUT_ZERO_POINT] = zero_point_of(own)
    addend = addition_operands(operator, own, other, output)
    numbers[SUM_LOWEST:] = addition_params(numerics, addend, zero_point_of(own))
    return pointwise([own, other], output, functools.partial(add_residual, numerics), target, [numbers])


def subtract(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """The second value's term is subtracted where an addition's is added."""
    values, output = values_of(graph, operator)
    addend = addition_operands(operator, values[0], values[1], output)

    def scaled(value: Any, index: int) -> Any:
        multiplier, shift = (tirx.const(int(array[index])) for array in (addend.multiplier, addend.shift))
        return scale_down(value, multiplier, shift)

    def difference(*stored_values: Any) -> Any:
        own, other = (
            scaled((each.astype("int32") - zero_point_of(value)) << ADDITION_SHIFT, index)
            for index, (each, value) in enumerate(zip(stored_values, values, strict=True))
        )
        return stored(scaled(own - other, 2) + zero_point_of(output), operator, output)

    return pointwise(values, output, difference, target)
