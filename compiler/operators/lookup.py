"""Element-wise functions of 8-bit values, as tables of 256."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import Array, byte_fault, shape_fault
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.operands import DTYPES


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    (data,) = inputs
    table = operator.attributes["table"]
    if table.shape != (256,) or table.dtype != DTYPES.get(output.type):
        return f"it must have a table of 256 outputs: {table.dtype} {table.shape}"
    return byte_fault(data, output) or shape_fault(output, data.shape)


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:  # noqa: ARG001
    found: Array = operator.attributes["table"][arrays[0].astype(np.int64) - RANGES[inputs[0].type][0]]
    return found
