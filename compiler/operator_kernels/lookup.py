"""Element-wise functions of 8-bit values."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import te, tirx

from compiler.graph import Graph, Operator, Value
from compiler.operator_kernels.kernel import TYPES, OperatorKernel, argument, constant, function_of, values_of
from compiler.operators.base import LongArray, every_stored
from compiler.program import Array
from schedules.numerics import RANGES
from schedules.target import Target


def lookup(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """Values of a table; a step within bounds, such as that of a ReLU or between u8 and s8, is computed."""
    (data,), output = values_of(graph, operator)
    table: Array = operator.attributes["table"]
    values = argument("values", data)
    computed = mapped(values, data, output, table)
    if computed is not None:
        made = te.compute(data.shape, computed)
        return OperatorKernel(function_of([values, made], target), operator.inputs)
    entries = constant("entries", table)
    made = te.compute(data.shape, lambda *at: entries[values[at].astype("int32") - RANGES[data.type][0]])
    return OperatorKernel(function_of([values, entries, made], target), operator.inputs, (table,))


def mapped(values: Any, data: Value, output: Value, table: Array) -> Any:
    """What computes a table's entries, if they are their index plus a constant, within bounds; else None."""
    bounds = step_and_bounds(table.astype(np.int64), every_stored(data))
    if bounds is None:
        return None
    step, low, high = bounds
    return lambda *at: tirx.min(tirx.max(values[at].astype("int16") + step, low), high).astype(TYPES[output.type])


def step_and_bounds(outputs: LongArray, inputs: LongArray) -> tuple[int, int, int] | None:
    """Step and bounds with `outputs == clip(inputs + step, low, high)`; None if there are none."""
    low, high = int(outputs.min()), int(outputs.max())
    inside = (outputs > low) & (outputs < high)
    if not inside.any():
        return None
    step = int((outputs - inputs)[inside][0])
    return (step, low, high) if np.array_equal(np.clip(inputs + step, low, high), outputs) else None
