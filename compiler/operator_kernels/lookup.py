"""Element-wise functions of 8-bit values."""

from __future__ import annotations

from tvm import te

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import OperatorKernel, argument, constant, function_of, values_of
from int8tune.compiler.operator_kernels.tables import computed_entries
from int8tune.compiler.program import Array
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.target import Target


def lookup(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """Values of a table; where they can be, they are computed."""
    (data,), output = values_of(graph, operator)
    table: Array = operator.attributes["table"]
    values = argument("values", data)
    compute = computed_entries(table, data, output)
    if compute is not None:
        made = te.compute(data.shape, lambda *at: compute(values[at]))
        return OperatorKernel(function_of([values, made], target), operator.inputs)
    entries = constant("entries", table)
    made = te.compute(data.shape, lambda *at: entries[values[at].astype("int32") - RANGES[data.type][0]])
    return OperatorKernel(function_of([values, entries, made], target), operator.inputs, (table,))
