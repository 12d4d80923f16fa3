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
    byte_fault,
    half_away,
    scale_of,
    shape_fault,
    stored,
    zero_point_of,
)

# Beyond these, steps are those of the bounds: within them, integers are exact in binary32.
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
        real: Array = scale_of(data) * (array.astype(np.int64) - zero_point_of(data)).astype(np.float32)
        return real
    with np.errstate(over="ignore"):
        steps: FloatArray = np.clip(array / scale_of(output), -MOST_STEPS, MOST_STEPS)
    rounded = half_away(steps) if operator.rule == "fixed" else np.rint(steps).astype(np.int64)
    return stored(rounded + zero_point_of(output), operator, output)
