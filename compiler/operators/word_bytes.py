"""The bytes of 16-bit values, as u8: a value less the lowest of its type is 256 times the high one and the low one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import STORED_RANGES, WORDS, Array, LongArray, shape_fault, zero_point_of


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:  # noqa: ARG001
    (data,) = inputs
    if data.type not in WORDS or output.type != "u8":
        return f"it must make u8 of 16-bit values: {data.type}, {output.type}"
    return shape_fault(output, data.shape)


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:  # noqa: ARG001
    ((data,), (array,)) = inputs, arrays
    return byte_of(array.astype(np.int64), data, is_high=operator.attributes["is_high"]).astype(np.uint8)


def byte_of(stored: LongArray, value: Value, *, is_high: bool) -> LongArray:
    """The high or the low byte of stored values."""
    above_lowest = stored - STORED_RANGES[value.type][0]
    made: LongArray = above_lowest >> 8 if is_high else above_lowest & 255
    return made


def byte_point(value: Value, *, is_high: bool) -> int:
    """The zero point of a value's high or low bytes: the sums of both without theirs are its own without its own."""
    return int(byte_of(np.array(zero_point_of(value)), value, is_high=is_high))
