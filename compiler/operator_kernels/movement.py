"""What moves values and changes none: transpose, pad, slice."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import TYPES, OperatorKernel, argument, function_of, values_of
from int8tune.schedules.target import Target


def transpose(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    (data,), output = values_of(graph, operator)
    values, order = argument("values", data), operator.attributes["permutation"]

    def moved(*at: Any) -> Any:
        place = dict(zip(order, at, strict=True))
        return values[tuple(place[axis] for axis in range(len(at)))]

    return OperatorKernel(function_of([values, te.compute(output.shape, moved)], target), operator.inputs)


def pad(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    (data,), output = values_of(graph, operator)
    values, widths = argument("values", data), operator.attributes["padding"]
    border = tirx.const(operator.attributes["value"], TYPES[data.type])

    def padded(*at: Any) -> Any:
        inside, places = [], []
        for place, (before, after), extent in zip(at, widths, data.shape, strict=True):
            places.append(place - before)
            inside += [place >= before] * bool(before) + [place < before + extent] * bool(after)
        found = values[tuple(places)]
        return tirx.if_then_else(tirx.all(*inside), found, border) if inside else found

    return OperatorKernel(function_of([values, te.compute(output.shape, padded)], target), operator.inputs)


def cut(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """A slice."""
    (data,), output = values_of(graph, operator)
    values, begin, strides = argument("values", data), operator.attributes["begin"], operator.attributes["strides"]

    def taken(*at: Any) -> Any:
        return values[tuple(first + step * place for first, step, place in zip(begin, strides, at, strict=True))]

    return OperatorKernel(function_of([values, te.compute(output.shape, taken)], target), operator.inputs)
