"""Tables of element-wise operators on 8-bit values as ONNX Runtime computes each of the 256.

It dequantizes, computes in binary32, divides by the output's scale and rounds half to even, whether it does so value by
value (DequantizeLinear, the operator, QuantizeLinear) or by a table of its own (QLinearSigmoid, QLinearLeakyRelu; see
qlinear_lookup_table.cc).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from int8tune.compiler.graph import Value
from int8tune.compiler.operators.base import Array, FloatArray, dequantized, every_stored, scale_of, zero_point_of
from int8tune.compiler.operators.quantize import quantized_expression, quantized_float
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.operands import DTYPES


def requantized(data: Value, output: Value) -> Array:
    """DequantizeLinear, then QuantizeLinear."""
    return mapped(data, output, lambda values: values)


def quantized(real: float, output: Value) -> int:
    """What QuantizeLinear makes of one number."""
    steps = int(quantized_float(np.array([real], np.float32), scale_of(output))[0])
    low, high = RANGES[output.type]
    return min(max(steps + zero_point_of(output), low), high)


def mapped(data: Value, output: Value, function: Callable[[FloatArray], FloatArray]) -> Array:
    """DequantizeLinear, a function of binary32, then QuantizeLinear."""
    real = function(dequantized(every_stored(data), data))
    steps = quantized_expression(real, scale_of(output)) + zero_point_of(output)
    return np.clip(steps, *RANGES[output.type]).astype(DTYPES[output.type])
