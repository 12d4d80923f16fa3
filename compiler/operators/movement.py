"""What moves stored values and changes none: reshape, transpose, pad, slice, gather."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from int8tune.compiler.graph import Kind, Operator, Value
from int8tune.compiler.operators.base import Array, LongArray, shape_fault
from int8tune.schedules.numerics import RANGES


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    (data,) = inputs
    if data.type != output.type:
        return f"its input and output must have one type: {data.type}, {output.type}"
    if operator.kind is Kind.RESHAPE:
        fits = math.prod(data.shape) == math.prod(output.shape)
        return None if fits else f"{data.shape} can't become {output.shape}"
    return _axes_fault(operator, data) or shape_fault(output, _shape(operator, data.shape))


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:  # noqa: ARG001
    at, (data,) = operator.attributes, arrays
    match operator.kind:
        case Kind.RESHAPE:
            return data.reshape(output.shape)
        case Kind.TRANSPOSE:
            return np.ascontiguousarray(data.transpose(at["permutation"]))
        case Kind.PAD:
            return np.pad(data, at["padding"], constant_values=at["value"])
        case Kind.GATHER:
            return _gathered(data, at["places"])
        case _:
            return np.ascontiguousarray(data[_slices(operator)])


def _gathered(data: Array, places: Sequence[LongArray | None]) -> Array:
    for axis, each in enumerate(places):
        data = data if each is None else data.take(each, axis)
    return np.ascontiguousarray(data)


def _axes_fault(operator: Operator, data: Value) -> str | None:
    at, rank = operator.attributes, len(data.shape)
    if operator.kind is Kind.TRANSPOSE:
        is_order = sorted(at["permutation"]) == list(range(rank))
        return None if is_order else f"{at['permutation']} is no order of {rank} axes"
    if operator.kind is Kind.PAD:
        if len(at["padding"]) != rank or any(min(pair) < 0 for pair in at["padding"]):
            return f"it must have two widths of at least 0 for each of {rank} axes: {at['padding']}"
        low, high = RANGES.get(data.type, (0, 0))
        return None if low <= at["value"] <= high else f"its value must be within {low} and {high}: {at['value']}"
    if operator.kind is Kind.GATHER:
        return _places_fault(at["places"], data.shape)
    places = list(zip(at["begin"], at["end"], at["strides"], data.shape, strict=False))
    whole = all(0 <= begin < end <= extent and stride > 0 for begin, end, stride, extent in places)
    return None if whole and len(places) == rank == len(at["begin"]) else f"it must be within {data.shape}"


def _places_fault(places: Sequence[LongArray | None], shape: tuple[int, ...]) -> str | None:
    if len(places) != len(shape):
        return f"it must have places for each of {len(shape)} axes: {len(places)}"
    for axis, (each, extent) in enumerate(zip(places, shape, strict=True)):
        if each is not None and not (each.ndim == 1 and each.size and each.min() >= 0 and each.max() < extent):
            return f"its places on axis {axis} must be within {extent}: {each.tolist()[:9]}"
    return None


def _shape(operator: Operator, shape: tuple[int, ...]) -> tuple[int, ...]:
    at = operator.attributes
    if operator.kind is Kind.TRANSPOSE:
        return tuple(shape[axis] for axis in at["permutation"])
    if operator.kind is Kind.GATHER:
        return tuple(extent if at is None else len(at) for at, extent in zip(at["places"], shape, strict=True))
    if operator.kind is Kind.PAD:
        return tuple(extent + sum(pair) for extent, pair in zip(shape, at["padding"], strict=True))
    return tuple(len(range(*part.indices(extent))) for part, extent in zip(_slices(operator), shape, strict=True))


def _slices(operator: Operator) -> tuple[slice, ...]:
    at = operator.attributes
    return tuple(slice(*place) for place in zip(at["begin"], at["end"], at["strides"], strict=True))
