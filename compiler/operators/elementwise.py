"""Several operations on numbers, element by element, between stored values: what ONNX Runtime computes in binary32.

It dequantizes, computes operation by operation, each rounded to binary32, and quantizes what comes out. Inputs are
8-bit values or constant numbers, each spread over axes of extent 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import (
    BYTES,
    Array,
    FloatArray,
    LongArray,
    broadcast_fault,
    byte_fault,
    dequantized,
    every_stored,
    scale_of,
    stored,
    zero_point_of,
)
from int8tune.compiler.operators.quantize import quantized_expression
from int8tune.compiler.rounding.lines import lines
from int8tune.schedules.numerics import RANGES

MOST_OPERATIONS = 64
# Lines that are looked for: 256 values of each are computed.
MOST_LINES = 1 << 14
TABLE = "table"


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operation.

    Attributes:
        function: one of `BINARY` or `UNARY`, or `TABLE`, which looks stored values of an input up.
        operands: what it takes: inputs count from 0, behind them are the operations before.
        numbers: of a function, such as the slope of a leaky rectifier; of a table its 256 entries.
    """

    function: str
    operands: tuple[int, ...]
    numbers: FloatArray


def _minimum(one: Any, other: Any) -> Any:
    """The second one where one is no number, as vectors have it."""
    return np.where(one < other, one, other)


def _maximum(one: Any, other: Any) -> Any:
    return np.where(one > other, one, other)


def _prelu(values: Any, slope: Any) -> Any:
    return np.where(values > 0, values, values * slope)


BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "minimum": _minimum,
    "maximum": _maximum,
    "prelu": _prelu,
}
# Each with how many numbers it takes.
UNARY: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "negate": (0, np.negative),
    "abs": (0, np.abs),
    "clip": (2, lambda values, low, high: _minimum(_maximum(values, low), high)),
    "leaky": (1, lambda values, slope: np.where(values >= 0, values, values * slope)),
}


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    operations = operator.attributes["operations"]
    for value in inputs:
        if value.type != "f32" and (wrong := byte_fault(value)):
            return wrong
        if value.type == "f32" and value.constant is None:
            return "its numbers must be constant, all else must be quantized"
    if operator.rule != "float" or not inputs or not 1 <= len(operations) <= MOST_OPERATIONS:
        return f"it must have inputs and 1 to {MOST_OPERATIONS} operations of the float rule: {len(operations)}"
    for index, operation in enumerate(operations):
        wrong = _operation_fault(operation, len(inputs) + index, inputs)
        if wrong:
            return wrong
    return byte_fault(output) or broadcast_fault(inputs, output)


def _operation_fault(operation: Operation, known: int, inputs: Sequence[Value]) -> str | None:
    function, count = operation.function, operation.numbers.size
    if not all(0 <= operand < known for operand in operation.operands):
        return f"an operation takes what is before it: {operation.operands}"
    if function == TABLE:
        (operand,) = operation.operands
        is_right = operand < len(inputs) and inputs[operand].type in BYTES and count == 256
        return None if is_right else "a table must have 256 entries for an input of 8 bits"
    taken = (2, 0) if function in BINARY else (1, UNARY[function][0]) if function in UNARY else None
    if taken != (len(operation.operands), count) or not np.isfinite(operation.numbers).all():
        return f"{function} can't take {len(operation.operands)} operands and {operation.numbers}"
    return None


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    steps = _steps(operator, inputs, output, arrays)
    return np.ascontiguousarray(np.broadcast_to(stored(steps, operator, output), output.shape))


@np.errstate(all="ignore")
def _steps(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> LongArray:
    numbers = _numbers(operator, inputs, arrays)
    return quantized_expression(numbers, scale_of(output)) + zero_point_of(output)


def _numbers(operator: Operator, inputs: Sequence[Value], arrays: Sequence[Array]) -> FloatArray:
    """What the last operation gives, of the shape that all inputs together are spread over."""
    known: list[Any] = [
        array if value.type == "f32" else dequantized(array, value) for value, array in zip(inputs, arrays, strict=True)
    ]
    for operation in operator.attributes["operations"]:
        taken = [known[operand] for operand in operation.operands]
        if operation.function == TABLE:
            (operand,) = operation.operands
            places = arrays[operand].astype(np.int64) - RANGES[inputs[operand].type][0]
            made = operation.numbers[places]
        elif operation.function in BINARY:
            made = BINARY[operation.function](*taken)
        else:
            made = UNARY[operation.function][1](*taken, *operation.numbers)
        known.append(np.asarray(made, np.float32))
    last: FloatArray = known[-1]
    return last


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """A chain that makes a line of a stored value at each place of its numbers.

    Attributes:
        data: the value's place among the inputs.
        factor, addend: of the shape that the numbers are spread over.
        bounds: of what is made.
    """

    data: int
    factor: FloatArray
    addend: FloatArray
    bounds: tuple[int, int]


def lines_of(operator: Operator, inputs: Sequence[Value], output: Value) -> Lines | None:
    """The lines of a chain with one stored value, if rounding once gives what its own roundings give, for all bytes."""
    known = [value.constant for value in inputs if value.constant is not None]
    shape = np.broadcast_shapes(*(each.shape for each in known))
    if len(known) != len(inputs) - 1 or math.prod(shape) > MOST_LINES:
        return None
    (data,) = [index for index, value in enumerate(inputs) if value.constant is None]
    every = every_stored(inputs[data])
    arrays: list[Array] = [*known]
    arrays.insert(data, every.reshape(-1, *[1] * len(shape)))
    numbers = _numbers(operator, inputs, arrays)
    outputs = stored(_steps(operator, inputs, output, arrays), operator, output)
    numbers, outputs = (np.broadcast_to(each, (256, *shape)).reshape(256, -1).T for each in (numbers, outputs))
    with np.errstate(all="ignore"):
        slope = (numbers[:, -1].astype(np.float64) - numbers[:, 0]) / ((every[-1] - every[0]) * float(scale_of(output)))
    found = lines(every, outputs.astype(np.int64), slope)
    if found is None:
        return None
    factor, addend = (each.reshape(shape) for each in found)
    return Lines(data, factor, addend, (int(outputs.min()), int(outputs.max())))
