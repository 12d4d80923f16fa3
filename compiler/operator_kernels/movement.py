"""What moves values and changes none: transpose, pad, slice, gather."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import te, tirx

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import (
    LEAST_SHARED_VALUES,
    TYPES,
    OperatorKernel,
    argument,
    constant,
    function_of,
    values_of,
)
from int8tune.compiler.operator_kernels.transposition import write_transpose
from int8tune.compiler.operators.base import LongArray
from int8tune.compiler.program import Array
from int8tune.schedules.target import Target

Place = Callable[[Any], Any]


def transpose(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """In square blocks where axes are long enough."""
    (data,), output = values_of(graph, operator)
    values, order = argument("values", data), operator.attributes["permutation"]
    threads = target.threads if math.prod(data.shape) >= LEAST_SHARED_VALUES else 1
    blocks = write_transpose(data.shape, order, TYPES[data.type], threads)
    if blocks is not None:
        return OperatorKernel(blocks, operator.inputs)

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


def gather(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """Places that are in a row are computed, others are looked up."""
    (data,), output = values_of(graph, operator)
    values, arrays, tensors = argument("values", data), list[Array](), list[Any]()
    places: list[Place] = []
    for axis, found in enumerate(operator.attributes["places"]):
        place = _same if found is None else _in_a_row(found)
        if place is None:
            arrays.append(found.astype(np.int32))
            tensors.append(constant(f"places_{axis}", arrays[-1]))
            place = tensors[-1].__getitem__
        places.append(place)

    def taken(*at: Any) -> Any:
        return values[tuple(place(each) for place, each in zip(places, at, strict=True))]

    function = function_of([values, *tensors, te.compute(output.shape, taken)], target)
    return OperatorKernel(function, operator.inputs, tuple(arrays))


def _same(place: Any) -> Any:
    return place


def _in_a_row(places: LongArray) -> Place | None:
    """What computes places that are equally far from each other; None for others."""
    row = row_of(places)
    return None if row is None else (lambda at: row[0] + row[1] * at)


def row_of(places: LongArray) -> tuple[int, int] | None:
    """The first place and the step to the next one, where that is so for all of them."""
    first, step = int(places[0]), int(places[1] - places[0]) if len(places) > 1 else 0
    return (first, step) if np.array_equal(places, first + step * np.arange(len(places))) else None
