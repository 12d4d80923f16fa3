"""Functions of two 8-bit values, of which either may be spread over axes of extent 1, as tables of 65,536."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import Array, broadcast_fault, byte_fault
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.operands import DTYPES

SHAPE = (256, 256)


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    table = operator.attributes["table"]
    if len(inputs) != 2 or table.shape != SHAPE or table.dtype != DTYPES.get(output.type):
        return f"it must have two inputs and a table of 65,536 outputs: {len(inputs)}, {table.dtype} {table.shape}"
    return byte_fault(*inputs, output) or broadcast_fault(inputs, output)


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:  # noqa: ARG001
    row, column = (array.astype(np.int64) - RANGES[value.type][0] for value, array in zip(inputs, arrays, strict=True))
    made: Array = operator.attributes["table"][row, column]
    return made
