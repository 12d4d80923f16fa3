"""The smaller or the larger of two values."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from int8tune.compiler.graph import Graph, Kind, Operator
from int8tune.compiler.operator_kernels.kernel import (
    TYPES,
    OperatorKernel,
    argument,
    function_of,
    spread,
    values_of,
)
from int8tune.schedules.target import Target


def extremum(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    values, output = values_of(graph, operator)
    tensors = [argument(name, value) for name, value in zip(("one", "other"), values, strict=True)]
    choose = tirx.min if operator.kind is Kind.MINIMUM else tirx.max

    def chosen(*at: Any) -> Any:
        made = choose(*(tensor[spread(value, at)] for tensor, value in zip(tensors, values, strict=True)))
        if operator.clamp is None:
            return made
        low, high = (tirx.const(bound, TYPES[output.type]) for bound in operator.clamp)
        return tirx.min(tirx.max(made, low), high)

    return OperatorKernel(function_of([*tensors, te.compute(output.shape, chosen)], target), operator.inputs)
