"""Between numbers and stored values.

Sources: TFLite, reference/quantize.h and dequantize.h; ONNX, QuantizeLinear and DequantizeLinear.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.graph import Kind, Operator, Value
from compiler.operators.base import (
    Array,
    FloatArray,
    LongArray,
    byte_fault,
    dequantized,
    half_away,
    scale_of,
    shape_fault,
    stored,
    zero_point_of,
)

# Steps are bounded by this, so that integers are exact in binary32. Beyond 2^31, TFLite's are not defined.
MOST_STEPS = 1 << 20


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    (data,) = inputs
    real, integers = (data, output) if operator.kind is Kind.QUANTIZE else (output, data)
    if real.type != "f32":
        return f"it must be between f32 and 8-bit integers: {data.type}, {output.type}"
    return byte_fault(integers) or shape_fault(output, data.shape)


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    ((data,), (array,)) = inputs, arrays
    if operator.kind is Kind.DEQUANTIZE:
        return dequantized(array, data)
    rounded = (quantized_fixed if operator.rule == "fixed" else quantized_float)(array, scale_of(output))
    return stored(rounded + zero_point_of(output), operator, output)


def quantized_fixed(real: FloatArray, scale: np.float32) -> LongArray:
    """Steps of a scale from 0, halves away from zero."""
    return half_away(_steps(real, scale))


def quantized_float(real: FloatArray, scale: np.float32) -> LongArray:
    """Steps of a scale from 0, halves to even."""
    steps: LongArray = np.rint(_steps(real, scale)).astype(np.int64)
    return steps


def _steps(real: FloatArray, scale: np.float32) -> FloatArray:
    with np.errstate(over="ignore"):
        steps: FloatArray = np.clip(real / scale, -MOST_STEPS, MOST_STEPS)
    return steps
