"""Additions that no layer could take into its kernel."""

from __future__ import annotations

from typing import cast

import numpy as np
from tvm import te

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.layer_operands import addition_operands
from int8tune.compiler.operator_kernels.kernel import OperatorKernel, argument, constant, function_of, values_of
from int8tune.compiler.operators.base import zero_point_of
from int8tune.schedules.arguments import OUTPUT_ZERO_POINT, SUM_LOWEST, addition_params, params_length
from int8tune.schedules.epilogue import add_residual
from int8tune.schedules.numerics import DataType, Numerics, OutputType, Requantize, Residual
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
    left, right, params = argument("own", own), argument("residual", other), constant("params", numbers)
    made = te.compute(output.shape, lambda *at: add_residual(numerics, left[at], right[at], params))
    return OperatorKernel(function_of([left, right, params, made], target), operator.inputs, (numbers,))
