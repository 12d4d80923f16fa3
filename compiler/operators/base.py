"""What a family of operators is: a module with a `fault` and a `reference`, on whole numpy arrays.

An operator's `rule` says whose arithmetic counts. `fixed` is that of TFLite's reference kernels, `float` that of ONNX
Runtime on CPUs with its default optimizations. Where these compute in binary32, so does a reference, operation by
operation in the runtime's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from int8tune.compiler.graph import DTYPES, Operator, Value
from int8tune.schedules.numerics import RANGES

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float32]
DoubleArray = npt.NDArray[np.float64]
LongArray = npt.NDArray[np.int64]

BYTES = ("u8", "s8")
# Only quantized and dequantized.
WORDS = ("u16", "s16")
STORED_RANGES: dict[str, tuple[int, int]] = {**RANGES, "u16": (0, 65535), "s16": (-32768, 32767)}


class Family(Protocol):
    """Operators that have their arithmetic in common."""

    def fault(self, operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
        """Why the operator is none that `reference` computes; None if it is one."""
        ...

    def reference(self, operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
        """The output of an operator without fault, bit for bit, of the output's shape and type.

        Args:
            arrays: one for each input, of its shape and type.
        """
        ...


class WideFamily(Protocol):
    """Operators with several outputs."""

    def fault(self, operator: Operator, inputs: Sequence[Value], outputs: Sequence[Value]) -> str | None:
        """Why the operator is none that `reference` computes; None if it is one."""
        ...

    def reference(
        self, operator: Operator, inputs: Sequence[Value], outputs: Sequence[Value], arrays: Sequence[Array]
    ) -> tuple[Array, ...]:
        """The outputs of an operator without fault, bit for bit, of their shapes and types."""
        ...


def scale_of(value: Value) -> np.float32:
    """The scale of a value that has one."""
    assert value.quantization is not None
    return np.float32(value.quantization.scale[0])


def zero_point_of(value: Value) -> int:
    assert value.quantization is not None
    return int(value.quantization.zero_point[0])


def is_same_quantization(one: Value, other: Value) -> bool:
    """Whether equal stored values of both stand for the same."""
    parameters = [(value.type, scale_of(value), zero_point_of(value)) for value in (one, other)]
    return parameters[0] == parameters[1]


def dequantized(array: Array, value: Value) -> FloatArray:
    """What stored values stand for, in binary32."""
    real: FloatArray = scale_of(value) * (array.astype(np.int64) - zero_point_of(value)).astype(np.float32)
    return real


def every_stored(value: Value) -> LongArray:
    """All stored values of a type, ascending: what the entries of a lookup table belong to."""
    low, high = STORED_RANGES[value.type]
    return np.arange(low, high + 1)


def stored(values: LongArray, operator: Operator, output: Value) -> Array:
    """Values within the bounds of the operator, as the output's type."""
    return np.clip(values, *(operator.clamp or STORED_RANGES[output.type])).astype(DTYPES[output.type])


def byte_fault(*values: Value) -> str | None:
    """Why values are not all 8-bit integers with one scale each."""
    for value in values:
        if value.type not in BYTES:
            return f"its values must be 8-bit integers: {value.type}"
        if value.quantization is None or value.quantization.per_channel:
            return "its values must have one scale each"
    return None


def symmetric_fault(*values: Value) -> str | None:
    """Why values of 16 bits are none that TFLite's fixed rule has."""
    for value in values:
        quantization = value.quantization
        if quantization is None or quantization.per_channel or quantization.zero_point.any():
            return "its values of 16 bits must have one scale, and 0 as zero point"
    return None


def stored_fault(value: Value) -> str | None:
    """Why a value is none of 8-bit or 16-bit integers with one scale."""
    if value.type in WORDS and value.quantization is not None and not value.quantization.per_channel:
        return None
    return byte_fault(value)


def broadcast_fault(inputs: Sequence[Value], output: Value) -> str | None:
    """Why an output has not the shape of its inputs, each spread over axes of extent 1."""
    try:
        shape = np.broadcast_shapes(*(value.shape for value in inputs))
    except ValueError:
        return f"{' and '.join(str(value.shape) for value in inputs)} don't fit each other"
    return shape_fault(output, shape)


def shape_fault(output: Value, shape: Sequence[int]) -> str | None:
    """Why an output has not the shape that its operator makes."""
    expected = tuple(shape)
    return None if output.shape == expected else f"its output must have shape {expected}: {output.shape}"
