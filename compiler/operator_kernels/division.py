"""Functions of two 8-bit values, such as quotients, from tables of all 65,536."""

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
from int8tune.compiler.program import Array
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.target import Target


def divide(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    values, output = values_of(graph, operator)
    return _looked_up(graph, operator, target, quotients(operator, values, output))


def pair_lookup(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    return _looked_up(graph, operator, target, operator.attributes["table"])


def _looked_up(graph: Graph, operator: Operator, target: Target, table: Array) -> OperatorKernel:
    values, output = values_of(graph, operator)

    def entry(one: Any, other: Any, entries: Any) -> Any:
        row, column = (
            each.astype("int32") - RANGES[value.type][0] for each, value in zip((one, other), values, strict=True)
        )
        return entries[row * table.shape[1] + column]

    return pointwise(operator, values, output, entry, target, [np.ascontiguousarray(table)])
