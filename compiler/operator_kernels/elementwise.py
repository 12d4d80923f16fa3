"""Several operations on numbers, element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import tirx

from int8tune.compiler.graph import Graph, Operator, Value
from int8tune.compiler.operator_kernels.kernel import (
    TYPES,
    OperatorKernel,
    in_steps,
    nearest_even,
    rounded_alone,
    stored,
    values_of,
)
from int8tune.compiler.operator_kernels.pointwise import pointwise
from int8tune.compiler.operator_kernels.tables import on_a_line
from int8tune.compiler.operators.base import scale_of, zero_point_of
from int8tune.compiler.operators.elementwise import TABLE, Lines, lines_of
from int8tune.compiler.program import Array
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.target import Target


def elementwise(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """One loop: numbers are never in memory."""
    values, output = values_of(graph, operator)
    found = lines_of(operator, values, output)
    if found is not None:
        return _on_lines(found, values[found.data], output, target)
    operations = operator.attributes["operations"]
    tables: list[Array] = [np.ascontiguousarray(each.numbers) for each in operations if each.function == TABLE]

    def made(*given: Any) -> Any:
        taken, entries = given[: len(values)], given[len(values) :]
        known = [
            found if value.type == "f32" else _real(found, float(scale_of(value)), zero_point_of(value))
            for found, value in zip(taken, values, strict=True)
        ]
        left = iter(entries)
        for operation in operations:
            if operation.function == TABLE:
                (index,) = operation.operands
                known.append(next(left)[taken[index].astype("int32") - RANGES[values[index].type][0]])
            else:
                numbers = [tirx.const(float(each), "float32") for each in operation.numbers]
                known.append(_FUNCTIONS[operation.function](*(known[each] for each in operation.operands), *numbers))
        steps = nearest_even(in_steps(known[-1], output))
        return stored(steps + zero_point_of(output), operator, output)

    return pointwise(values, output, made, target, tables)


def _on_lines(found: Lines, data: Value, output: Value, target: Target) -> OperatorKernel:
    def made(value: Any, factor: Any, addend: Any) -> Any:
        return on_a_line(value, factor, addend, found.bounds, TYPES[output.type])

    return pointwise([data], output, made, target, spread=[found.factor, found.addend])


def _real(value: Any, scale: float, zero_point: int) -> Any:
    return rounded_alone((value.astype("int32") - zero_point).astype("float32") * tirx.const(scale, "float32"))


def _product(one: Any, other: Any) -> Any:
    return rounded_alone(one * other)


def _difference(one: Any, other: Any) -> Any:
    """As a sum: TVM takes `(x + y) - y` for x, which it is not where the sum is rounded."""
    return one + rounded_alone(-other)


def _clipped(value: Any, low: Any, high: Any) -> Any:
    return tirx.min(tirx.max(value, low), high)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": lambda one, other: one + other,
    "subtract": _difference,
    "multiply": _product,
    "divide": lambda one, other: one / other,
    "minimum": tirx.min,
    "maximum": tirx.max,
    "prelu": lambda value, slope: tirx.Select(value > 0, value, _product(value, slope)),
    "negate": lambda value: -value,
    "abs": tirx.abs,
    "clip": _clipped,
    "leaky": lambda value, slope: tirx.Select(value >= 0, value, _product(value, slope)),
}
