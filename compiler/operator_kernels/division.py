"""Quotients of two 8-bit values, from a table of all 65,536."""

from __future__ import annotations

from typing import Any

import numpy as np

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import (
    OperatorKernel,
    values_of,
)
from int8tune.compiler.operator_kernels.pointwise import pointwise
from int8tune.compiler.operators.division import quotients
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.target import Target


def divide(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    values, output = values_of(graph, operator)
    table = quotients(operator, values, output)

    def entry(one: Any, other: Any, entries: Any) -> Any:
        row, column = (
            each.astype("int32") - RANGES[value.type][0] for each, value in zip((one, other), values, strict=True)
        )
        return entries[row * table.shape[1] + column]

    return pointwise(values, output, entry, target, [np.ascontiguousarray(table)])
