"""Tables of TFLite's element-wise operators on stored values, as its reference kernels compute each of the 256.

Sources: kernels/activations.cc, kernels/elementwise.cc, reference/integer_ops/lut.h, reference/hard_swish.h,
reference/leaky_relu.h and reference/requantize.h of TensorFlow Lite.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from int8tune.compiler.graph import DTYPES, Value
from int8tune.compiler.operators.base import (
    STORED_RANGES,
    Array,
    FloatArray,
    LongArray,
    dequantized,
    every_stored,
    scale_of,
    zero_point_of,
)
from int8tune.compiler.operators.fixed_normalization import inverse_roots
from int8tune.compiler.operators.quantize import half_away
from int8tune.schedules.errors import OperandError
from int8tune.schedules.operands import MIN_SHIFT, quantize_multiplier
from int8tune.schedules.oracle.reference import scale_fixed_point

INT16, INT32 = np.iinfo(np.int16), np.iinfo(np.int32)
# Bits behind the point of an inverse root.
ROOT_BITS = 20


def requantized(data: Value, output: Value) -> Array:
    """QUANTIZE from 8 bits to 8 bits."""
    scale = float(scale_of(data)) / float(scale_of(output))
    return _as_bytes(scaled(centred_values(data), scale) + zero_point_of(output), output)


def rectified(data: Value, output: Value, bounds: tuple[int, int]) -> Array:
    """RELU and its like; `bounds` are those of the activation in stored values of the output."""
    # The quotient of two binary32 scales, which is rounded to binary32 itself.
    scale = float(scale_of(data) / scale_of(output))
    made = scaled(centred_values(data), scale) + zero_point_of(output)
    return _as_bytes(np.clip(made, *bounds), output)


def leaky(data: Value, output: Value, alpha: float) -> Array:
    """LEAKY_RELU: values below zero times `alpha`.

    Raises:
        OperandError: the scales are too far from each other.
    """
    centred = centred_values(data)
    above = scaled(centred, float(scale_of(data) / scale_of(output)))
    slope = float(scale_of(data) * np.float32(alpha) / scale_of(output))
    below = scaled(centred, slope) if slope >= 0 else -scaled(centred, -slope)
    return _as_bytes(np.where(centred >= 0, above, below) + zero_point_of(output), output)


def absolute(data: Value, output: Value) -> Array:
    """ABS; of one scale without any rounding."""
    magnitude, scale = np.abs(centred_values(data)), float(scale_of(data) / scale_of(output))
    return _as_bytes((magnitude if scale == 1 else scaled(magnitude, scale)) + zero_point_of(output), output)


def logarithm(data: Value, output: Value) -> Callable[[FloatArray], FloatArray]:
    """LOG for stored values of one type; what has none is the least number of the output."""
    least = np.float32(STORED_RANGES[output.type][0] - zero_point_of(output)) * scale_of(output)
    assert data.type == output.type

    def function(values: FloatArray) -> FloatArray:
        known = np.log(np.where(values > 0, values, 1).astype(np.float64)).astype(np.float32)
        return np.where(values > 0, known, least)

    return function


def root(data: Value, output: Value) -> Array:
    """SQRT: in binary32, then steps without what is behind their point; 0 of numbers below it, at which LiteRT stops.

    Raises:
        OperandError: a root has more steps than 32 bits.
    """
    steps = np.sqrt(np.maximum(dequantized(every_stored(data), data), 0)) / scale_of(output)
    if not (steps < INT32.max // 2).all():
        raise OperandError(f"its roots must be below 2^30 steps of its output: {steps.max()}")
    return _as_bytes(np.trunc(steps).astype(np.int64) + zero_point_of(output), output)


def inverse_root(data: Value, output: Value) -> Array:
    """RSQRT of 8 bits, in integers; the most of 0, and of numbers below it, at which LiteRT stops.

    Raises:
        OperandError: the scales are too far from each other.
    """
    centred = np.maximum(centred_values(data), 0)
    # The product of the root and the scale is one of binary32.
    multiplier, shift = quantize_multiplier(1 / float(np.sqrt(scale_of(data)) * scale_of(output)))
    if shift - ROOT_BITS < MIN_SHIFT:
        raise OperandError(f"the product of its output's scale and its input's root is too large: 2^{-shift}")
    fraction, bits = inverse_roots(np.maximum(centred, 1))
    fine = scale_fixed_point(np.ones_like(centred), fraction, bits + ROOT_BITS)
    steps = scale_fixed_point(fine, np.array(multiplier), np.array(shift - ROOT_BITS)) + zero_point_of(output)
    return _as_bytes(np.where(centred > 0, steps, STORED_RANGES[output.type][1]), output)


def inverse_root_or_most(output: Value) -> Callable[[FloatArray], FloatArray]:
    """RSQRT of 16 bits, whose output has its largest number for what has no root."""
    most = np.float32(STORED_RANGES[output.type][1]) * scale_of(output)

    def function(values: FloatArray) -> FloatArray:
        return np.where(values > 0, np.float32(1) / np.sqrt(np.where(values > 0, values, 1)), most)

    return function


def mapped(data: Value, output: Value, function: Callable[[FloatArray], FloatArray]) -> Array:
    """What is computed by a function of binary32, such as LOGISTIC."""
    real = function(dequantized(every_stored(data), data))
    steps = half_away(real * (np.float32(1) / scale_of(output)))
    return _as_bytes(steps + zero_point_of(output), output)


def hard_swish(data: Value, output: Value) -> Array:
    """HARD_SWISH, x * relu6(x + 3) / 6, in 16 bits.

    Raises:
        OperandError: the scales are too far from each other.
    """
    fine_scale = np.float32(1 / 128) * scale_of(data)
    multiplier, exponent = _short_multiplier(float(fine_scale / scale_of(output)))
    relu_multiplier, relu_exponent = _short_multiplier(float(fine_scale / np.float32(3 / 32768)))
    fine = centred_values(data) << 7
    relu = _saturated(fine << max(0, relu_exponent - 1))
    relu = _saturated(_short_product(relu, relu_multiplier) << (relu_exponent > 0))
    relu = _shifted(relu, max(0, -relu_exponent))
    # From -1 ... 1 to 0 ... 1, in 15 bits.
    share = (relu + (1 << 15)) >> 1
    product = share * _short_product(fine, multiplier)
    halved = np.sign(product) * (np.abs(product) >> 15)
    return _as_bytes(_shifted(halved, -exponent) + zero_point_of(output), output)


def sigmoid(values: FloatArray) -> FloatArray:
    """1 / (1 + e^-x) with each step rounded to binary32."""
    return np.float32(1) / (np.float32(1) + exponential(-values))


def exponential(values: FloatArray) -> FloatArray:
    """e^x rounded to binary32; infinite where it is beyond."""
    return np.exp(values.astype(np.float64)).astype(np.float32)


def tanh(values: FloatArray) -> FloatArray:
    """The hyperbolic tangent rounded to binary32."""
    return np.tanh(values.astype(np.float64)).astype(np.float32)


def elu(values: FloatArray) -> FloatArray:
    """x where it is positive, e^x - 1 elsewhere."""
    below = np.expm1(np.minimum(values, 0).astype(np.float64)).astype(np.float32)
    return np.where(values < 0, below, values)


def gelu(values: FloatArray) -> FloatArray:
    """x times the share of a normal distribution that is below x."""
    wide = values.astype(np.float64)
    below = np.array([math.erfc(-value * math.sqrt(0.5)) for value in wide.tolist()])
    made: FloatArray = (0.5 * wide * below).astype(np.float32)
    return made


def gelu_tanh(values: FloatArray) -> FloatArray:
    """The same by a hyperbolic tangent, a little off."""
    wide = values.astype(np.float64)
    share = 1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))
    made: FloatArray = (0.5 * wide * share).astype(np.float32)
    return made


def centred_values(data: Value) -> LongArray:
    """Every stored value of a type less the zero point."""
    return every_stored(data) - zero_point_of(data)


def scaled(values: LongArray, real: float) -> LongArray:
    """The product with a factor, as a fixed-point multiplier rounds it."""
    return scaled_by(values, quantize_multiplier(real))


def scaled_by(values: LongArray, factor: tuple[int, int]) -> LongArray:
    """The product with a multiplier and a shift, as `scale_fixed_point` takes them."""
    multiplier, shift = factor
    return scale_fixed_point(values, np.array(multiplier), np.array(shift))


def _as_bytes(values: LongArray, output: Value) -> Array:
    return np.clip(values, *STORED_RANGES[output.type]).astype(DTYPES[output.type])


def _short_multiplier(real: float) -> tuple[int, int]:
    """A multiplier of 15 bits and its exponent."""
    multiplier, exponent = quantize_multiplier(real)
    return min((multiplier + (1 << 15)) >> 16, INT16.max), exponent


def _short_product(values: LongArray, multiplier: int) -> LongArray:
    """values * multiplier / 2^15, halves up."""
    return (values * multiplier + (1 << 14)) >> 15


def _saturated(values: LongArray) -> LongArray:
    return np.clip(values, INT16.min, INT16.max)


def _shifted(values: LongArray, count: int) -> LongArray:
    """values / 2^count, halves away from zero."""
    if count <= 0:
        return values
    halves: LongArray = np.sign(values) * ((np.abs(values) + (1 << (count - 1))) >> count)
    return halves
