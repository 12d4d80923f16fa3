"""The smaller or the larger of two values."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from int8tune.compiler.graph import Graph, Kind, Operator
from int8tune.compiler.operator_kernels.kernel import (
    TYPES,
    OperatorKernel,
    values_of,
)
from int8tune.compiler.operator_kernels.pointwise import pointwise
from int8tune.schedules.target import Target


def extremum(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    values, output = values_of(graph, operator)
    choose = tirx.min if operator.kind is Kind.MINIMUM else tirx.max

    def chosen(one: Any, other: Any) -> Any:
        made = choose(one, other)
        if operator.clamp is None:
            return made
        low, high = (tirx.const(bound, TYPES[output.type]) for bound in operator.clamp)
        return tirx.min(tirx.max(made, low), high)

    return pointwise(values, output, chosen, target)
