"""The product of two quantized values."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import tirx

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import (
    OperatorKernel,
    bounded,
    nearest_even,
    rounded_alone,
    stored,
    values_of,
)
from int8tune.compiler.operator_kernels.pointwise import pointwise
from int8tune.compiler.operators.base import zero_point_of
from int8tune.compiler.operators.multiply import fused_product, multiply_constants
from int8tune.schedules.epilogue import scale_fixed_point, scale_fused
from int8tune.schedules.target import Target


def multiply(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    values, output = values_of(graph, operator)
    constants = multiply_constants(operator, values, output)
    rounding = fused_product(operator, values, output, constants)

    def product(*stored_values: Any) -> Any:
        one, other = (
            each.astype("int32") - zero_point_of(value) for each, value in zip(stored_values, values, strict=True)
        )
        if constants.ratio is not None:
            scaled = rounded_alone((one * other).astype("float32") * tirx.const(float(constants.ratio), "float32"))
            offset = tirx.const(zero_point_of(output), "float32")
            return stored(nearest_even(bounded(scaled + offset)), operator, output)
        if rounding is not None:
            offset = tirx.const(int(rounding.offset.view(np.int32)[0]))
            steps = scale_fused(one * other, tirx.const(float(rounding.scale[0]), "float32"), offset)
        else:
            steps = scale_fixed_point(one * other, tirx.const(constants.multiplier), tirx.const(constants.shift))
        return stored(steps + zero_point_of(output), operator, output)

    return pointwise(values, output, product, target)
