"""The largest or smallest of values over axes, where it is, and sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx

from int8tune.compiler.graph import Graph, Kind, Operator
from int8tune.compiler.operator_kernels.kernel import (
    TYPES,
    OperatorKernel,
    argument,
    function_of,
    in_steps,
    nearest_even,
    rounded_alone,
    stored,
    values_of,
)
from int8tune.compiler.operators.base import scale_of, zero_point_of
from int8tune.compiler.operators.reduction import sum_constants
from int8tune.schedules.epilogue import scale_fixed_point
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.target import Target


def extreme(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """The largest or smallest value."""
    _, output = values_of(graph, operator)
    reduce = te.max if operator.kind is Kind.REDUCE_MAX else te.min
    values, found = _reduced(graph, operator, reduce, lambda value, _: value)
    made = found
    if operator.clamp is not None:
        made = te.compute(output.shape, lambda *at: stored(found[at].astype("int32"), operator, output))
    return OperatorKernel(function_of([values, made], target), operator.inputs)


def arguments(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """Values and places are compared as one number, values first."""
    (data,), output = values_of(graph, operator)
    (axis,) = operator.attributes["axes"]
    count, (low, high) = data.shape[axis], RANGES[data.type]

    def key(value: Any, places: tuple[Any, ...]) -> Any:
        wide, place = value.astype("int32"), places[0] if operator.attributes["last"] else count - 1 - places[0]
        return (wide - low if operator.kind is Kind.ARG_MAX else high - wide) * count + place

    values, keys = _reduced(graph, operator, te.max, key)

    def place(*at: Any) -> Any:
        found = keys[at] % count
        return (found if operator.attributes["last"] else count - 1 - found).astype(TYPES[output.type])

    return OperatorKernel(function_of([values, te.compute(output.shape, place)], target), operator.inputs)


def total(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """Sums times a factor."""
    (data,), output = values_of(graph, operator)
    constants = sum_constants(operator, data, output)
    values, sums = _reduced(graph, operator, te.sum, lambda value, _: value.astype("int32"))
    scale = tirx.const(float(scale_of(data)), "float32")

    def scaled(*at: Any) -> Any:
        centred = sums[at] - constants.zero_points
        if operator.rule == "fixed":
            steps = scale_fixed_point(centred, tirx.const(constants.multiplier), tirx.const(constants.shift))
        else:
            real = rounded_alone(centred.astype("float32") * scale)
            steps = nearest_even(in_steps(real, output))
        return stored(steps + zero_point_of(output), operator, output)

    return OperatorKernel(function_of([values, te.compute(output.shape, scaled)], target), operator.inputs)


def _reduced(
    graph: Graph, operator: Operator, reduce: Any, term: Callable[[Any, tuple[Any, ...]], Any]
) -> tuple[Any, Any]:
    """The input, and what is made of a term for each value and its places on the axes."""
    (data,), output = values_of(graph, operator)
    axes, rank = operator.attributes["axes"], len(data.shape)
    values = argument("values", data)
    reduced = {axis: te.reduce_axis((0, data.shape[axis])) for axis in axes}
    kept = range(rank) if len(output.shape) == rank else [axis for axis in range(rank) if axis not in axes]

    def found(*at: Any) -> Any:
        places = dict(zip(kept, at, strict=True)) | reduced
        value = values[tuple(places[axis] for axis in range(rank))]
        return reduce(term(value, tuple(reduced.values())), axis=list(reduced.values()))

    return values, te.compute(output.shape, found)
