"""The quotient of two values, from a table of all 65,536."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import te

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import (
    OperatorKernel,
    argument,
    constant,
    function_of,
    spread,
    values_of,
)
from int8tune.compiler.operators.division import quotients
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.target import Target


def divide(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    values, output = values_of(graph, operator)
    table = np.ascontiguousarray(quotients(operator, values, output))
    tensors = [argument(name, value) for name, value in zip(("data", "divisor"), values, strict=True)]
    entries = constant("quotients", table)

    def quotient(*at: Any) -> Any:
        places = (
            tensor[spread(value, at)].astype("int32") - RANGES[value.type][0]
            for tensor, value in zip(tensors, values, strict=True)
        )
        return entries[tuple(places)]

    function = function_of([*tensors, entries, te.compute(output.shape, quotient)], target)
    return OperatorKernel(function, operator.inputs, (table,))
