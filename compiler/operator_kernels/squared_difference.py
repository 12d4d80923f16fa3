"""The squared difference of two quantized values."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import tirx

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import OperatorKernel, stored, values_of
from int8tune.compiler.operator_kernels.pointwise import pointwise
from int8tune.compiler.operators.base import zero_point_of
from int8tune.compiler.operators.squared_difference import DIFFERENCE_SHIFT, Factor, fused_square, square_factors
from int8tune.schedules.epilogue import scale_down, scale_fixed_point, scale_fused
from int8tune.schedules.target import Target


def squared_difference(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    values, output = values_of(graph, operator)
    factors = square_factors(values, output)
    rounding = fused_square(values, output, factors)

    def term(stored_value: Any, zero_point: int, factor: Factor) -> Any:
        centred = stored_value.astype("int32") - zero_point
        return scale_down(tirx.shift_left(centred, tirx.const(DIFFERENCE_SHIFT)), *map(tirx.const, factor))

    def squared(*stored_values: Any) -> Any:
        points = map(zero_point_of, values)
        one, other = (term(*each) for each in zip(stored_values, points, factors.terms, strict=True))
        square = (one - other) * (one - other)
        if rounding is not None:
            offset = tirx.const(int(rounding.offset.view(np.int32)))
            steps = scale_fused(square, tirx.const(float(rounding.scale), "float32"), offset)
        else:
            steps = scale_fixed_point(square, *map(tirx.const, factors.square))
        return stored(steps + zero_point_of(output), operator, output)

    return pointwise(values, output, squared, target)
