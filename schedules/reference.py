"""The numpy oracle: what a layer's outputs are, bit for bit.

A kernel is correct when it agrees with `reference` on every output value, and in no other case. Sums, conversions and
roundings are integer arithmetic, so the answer depends on no rounding mode, fused multiply-add or fast-math flag.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from schedules.operands import DTYPES, ByteArray, FloatArray, Operands
from schedules.workload import Conv2d, Dense, DepthwiseConv2d, Window, Workload

LongArray = npt.NDArray[np.int64]

_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
# Values gathered at a time for a matrix product: 64 MiB of binary64.
_PATCH_VALUES = 1 << 23


def reference(workload: Workload, operands: Operands) -> npt.NDArray[np.uint8 | np.int8 | np.int32]:
    """The outputs of a layer, of `workload.output_shape` and the output's type.

    Raises:
        OperandError: the operands don't fit the workload.
    """
    operands.validate(workload)
    sums = accumulate(workload, operands.data, operands.weight, operands.data_zero_point, operands.weight_zero_point)
    return requantize(workload, operands, sums + operands.bias)


def accumulate(
    workload: Workload, data: ByteArray, weight: ByteArray, data_zero_point: int, weight_zero_point: int
) -> LongArray:
    """sum((a - za) * (w - zw)) for every output value, without bias; the border contributes nothing.

    BLAS multiplies in binary64 and still sums exactly: all terms and partial sums are integers, and a workload's
    longest sum, 33025 products of at most 255 * 255, is below 2^31, where binary64 is exact up to 2^53.
    """
    centred = data.astype(np.float64) - data_zero_point
    weights = weight.astype(np.float64) - weight_zero_point
    match workload:
        case Dense():
            sums = centred @ weights.T
        case Conv2d():
            sums = _conv(workload, centred, weights)
        case DepthwiseConv2d():
            sums = _depthwise(workload, centred, weights)
    return sums.astype(np.int64)


def requantize(workload: Workload, operands: Operands, sums: LongArray) -> npt.NDArray[np.uint8 | np.int8 | np.int32]:
    """Output values of sums [..., OC] that include the bias; the sums wrap to int32 first."""
    total = sums.astype(np.int32).astype(np.int64)
    numerics = workload.numerics
    if numerics.requantize is None:
        return total.astype(np.int32)
    if numerics.requantize.rule == "float":
        scaled = scale_binary32(total, operands.scale)
    else:
        scaled = scale_fixed_point(total, operands.multiplier.astype(np.int64), operands.shift.astype(np.int64))
    clamped = np.clip(scaled + operands.output_zero_point, operands.clamp_low, operands.clamp_high)
    return clamped.astype(DTYPES[numerics.output])


def scale_binary32(total: LongArray, scale: FloatArray) -> LongArray:
    """Round `float32(total) * scale` half to even, with saturation to int32; every step rounds as IEEE 754 binary32.

    This is the arithmetic of ONNX Runtime's quantized operators. Scales are positive and within the bounds of
    `Operands`, which exclude subnormal products.
    """
    bits = scale.view(np.int32).astype(np.int64)
    mantissa = (bits & 0x7FFFFF) | 0x800000
    exponent = ((bits >> 23) & 0xFF) - 150
    # At most 2^31 * 2^24: the product is exact in int64 before it is rounded.
    product = _round_to_24_bits(_round_to_24_bits(np.abs(total)) * mantissa)
    # Everything below 2^55 vanishes in a shift by 62, and int64 can't be shifted by more than 63.
    rounded = _shift_right_half_even(product, np.minimum(-exponent, 62))
    return np.clip(np.sign(total) * rounded, _INT32_MIN, _INT32_MAX)


def scale_fixed_point(total: LongArray, multiplier: LongArray, shift: LongArray) -> LongArray:
    """`total * multiplier * 2**(shift - 31)` rounded twice, as TFLite's reference convolutions do.

    A left shift comes first and wraps to int32; the high half of the doubled product rounds half up (gemmlowp's
    SaturatingRoundingDoublingHighMul), the right shift half away from zero (RoundingDivideByPOT). TFLite's reference
    FULLY_CONNECTED multiplies in binary64 instead: a dense layer here rounds like a 1x1 convolution.
    """
    shifted = (total << np.maximum(shift, 0)).astype(np.int32).astype(np.int64)
    high = (shifted * multiplier + (1 << 30)) >> 31
    right = np.maximum(-shift, 0)
    mask = (np.int64(1) << right) - 1
    threshold = (mask >> 1) + (high < 0)
    rounded: LongArray = (high >> right) + ((high & mask) > threshold)
    return rounded


def _round_to_24_bits(magnitude: LongArray) -> LongArray:
    """Values >= 0 rounded half to even to the 24 significant bits of a binary32."""
    powers = np.left_shift(np.int64(1), np.arange(24, 63))
    excess = np.searchsorted(powers, magnitude, side="right")
    return _shift_right_half_even(magnitude, excess) << excess


def _shift_right_half_even(magnitude: LongArray, count: LongArray) -> LongArray:
    whole = magnitude >> count
    unit = np.left_shift(np.int64(1), count)
    twice_rest = (magnitude & (unit - 1)) << 1
    rounded: LongArray = whole + ((twice_rest > unit) | ((twice_rest == unit) & ((whole & 1) == 1)))
    return rounded


def _conv(
    workload: Conv2d, centred: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    groups, out_channels = workload.groups, workload.out_channels
    sums = np.empty(workload.output_shape)
    image = _with_border(centred)
    rows, columns = _taps(workload.window, workload.height, workload.width)
    filters = weights.reshape(groups, out_channels // groups, workload.reduction).transpose(0, 2, 1)
    step = max(1, _PATCH_VALUES // (len(columns) * workload.reduction * groups))
    for n in range(workload.batch):
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            patches = image[n][block[:, None, :, None], columns[None, :, None, :]]
            pixels = len(block) * len(columns)
            grouped = patches.reshape(pixels, -1, groups, workload.in_channels // groups).transpose(2, 0, 1, 3)
            product = grouped.reshape(groups, pixels, workload.reduction) @ filters
            sums[n, start : start + step] = product.transpose(1, 0, 2).reshape(len(block), len(columns), out_channels)
    return sums


def _depthwise(
    workload: DepthwiseConv2d, centred: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    batch, height, width, out_channels = workload.output_shape
    sums = np.zeros((batch, height, width, workload.channels, workload.multiplier))
    image = _with_border(centred)
    rows, columns = _taps(workload.window, workload.height, workload.width)
    filters = weights.reshape(workload.channels, workload.multiplier, *workload.window.kernel)
    for kh in range(workload.window.kernel[0]):
        for kw in range(workload.window.kernel[1]):
            taps = image[:, rows[:, kh]][:, :, columns[:, kw]]
            sums += taps[..., None] * filters[:, :, kh, kw]
    return sums.reshape(batch, height, width, out_channels)


def _with_border(centred: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The image with one more row and column of zeros, where every position outside it is read."""
    return np.pad(centred, ((0, 0), (0, 1), (0, 1), (0, 0)))


def _taps(window: Window, height: int, width: int) -> tuple[LongArray, LongArray]:
    """The image rows [OH, KH] and columns [OW, KW] that outputs read; `height`, `width` stand for the border."""
    outputs = window.output_size(height, width)
    indices = []
    for axis, extent in enumerate((height, width)):
        starts = np.arange(outputs[axis]) * window.stride[axis] - window.padding[axis]
        taps = starts[:, None] + np.arange(window.kernel[axis]) * window.dilation[axis]
        indices.append(np.where((taps < 0) | (taps >= extent), extent, taps))
    return indices[0], indices[1]
