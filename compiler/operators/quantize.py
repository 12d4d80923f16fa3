"""Between numbers and stored values.

Sources: TFLite, reference/quantize.h and dequantize.h; ONNX, QuantizeLinear and DequantizeLinear.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from int8tune.compiler.graph import Kind, Operator, Value
from int8tune.compiler.operators.base import (
    Array,
    FloatArray,
    LongArray,
    dequantized,
    scale_of,
    shape_fault,
    stored,
    stored_fault,
    zero_point_of,
)

# Steps are saturated to this: within it, integers are exact in binary32.
MOST_STEPS = 1 << 20


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    (data,) = inputs
    real, integers = (data, output) if operator.kind is Kind.QUANTIZE else (output, data)
    if real.type != "f32":
        return f"it must be between f32 and integers of 8 or 16 bits: {data.type}, {output.type}"
    return stored_fault(integers) or shape_fault(output, data.shape)


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    ((data,), (array,)) = inputs, arrays
    if operator.kind is Kind.DEQUANTIZE:
        return dequantized(array, data)
    rounded = (quantized_fixed if operator.rule == "fixed" else quantized_float)(array, scale_of(output))
    return stored(rounded + zero_point_of(output), operator, output)


def quantized_fixed(real: FloatArray, scale: np.float32) -> LongArray:
    """Steps of a scale from 0, halves away from zero."""
    return half_away(real / scale)


def quantized_float(real: FloatArray, scale: np.float32) -> LongArray:
    """Steps of a scale from 0, halves to even."""
    return half_even(real / scale)


def quantized_expression(real: FloatArray, scale: np.float32) -> LongArray:
    """The same of what is computed, with the lowest for what is no number: vectors are bounded from below first."""
    steps = real / scale
    return half_even(np.where(np.isnan(steps), np.float32(-MOST_STEPS), steps))


def half_away(values: FloatArray) -> LongArray:
    """Binary32 values rounded to integers, halves away from zero, as C's `round` does; saturated to 2^20."""
    magnitude = np.floor(np.abs(_bounded(values).astype(np.float64)) + 0.5)
    return np.copysign(magnitude, values).astype(np.int64)


def half_even(values: FloatArray) -> LongArray:
    """Binary32 values rounded to integers, halves to even, as C's `nearbyint` does; saturated to 2^20."""
    rounded: LongArray = np.rint(_bounded(values)).astype(np.int64)
    return rounded


def _bounded(values: FloatArray) -> FloatArray:
    """Far beyond every 8-bit value one is as good as another; runtimes don't define what is beyond 2^31. NaN is 0."""
    bounded: FloatArray = np.clip(np.nan_to_num(values), -MOST_STEPS, MOST_STEPS)
    return bounded
