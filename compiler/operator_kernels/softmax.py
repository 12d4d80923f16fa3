"""Softmax over one axis."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from compiler.graph import Graph, Operator
from compiler.operator_kernels.kernel import (
    OperatorKernel,
    argument,
    constant,
    function_of,
    nearest_away,
    nearest_even,
    rounded_alone,
    stored,
    values_of,
)
from compiler.operators.base import zero_point_of
from compiler.operators.softmax import softmax_constants
from schedules.target import Target


def softmax(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """Exponentials of a table, added one after the other in binary32, and their shares."""
    (data,), output = values_of(graph, operator)
    axis, constants = operator.attributes["axis"], softmax_constants(operator, data, output)
    values, table = argument("values", data), constant("exponentials", constants.exponentials)
    along, again = (te.reduce_axis((0, data.shape[axis])) for _ in range(2))
    rest = tuple(extent for index, extent in enumerate(data.shape) if index != axis)

    def at_place(at: tuple[Any, ...], place: Any) -> Any:
        return values[(*at[:axis], place, *at[axis:])].astype("int32")

    largest = te.compute(rest or (1,), lambda *at: te.max(at_place(at[: len(rest)], along), axis=along))
    sums = te.compute(
        rest or (1,),
        lambda *at: te.sum(table[largest[at] - at_place(at[: len(rest)], again)], axis=again),
    )
    factor = tirx.const(float(constants.factor), "float32")

    def share(*at: Any) -> Any:
        row = (*at[:axis], *at[axis + 1 :]) or (0,)
        term = table[largest[row] - values[at].astype("int32")]
        if operator.rule == "float":
            steps = nearest_even(term * factor / sums[row])
        else:
            scaled = rounded_alone(term * (tirx.const(1.0, "float32") / (sums[row] * factor)))
            steps = (scaled + 0.5).astype("int32") if output.type == "u8" else nearest_away(scaled)
        return stored(steps + zero_point_of(output), operator, output)

    function = function_of([values, table, te.compute(data.shape, share)], target)
    return OperatorKernel(function, operator.inputs, (constants.exponentials,))
