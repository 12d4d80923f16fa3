"""The numpy oracle: what a layer's outputs are, bit for bit.

A kernel is correct when it agrees with `reference` on every output value, and in no other case. Sums, conversions and
roundings are integer arithmetic, so the answer depends on no rounding mode, fused multiply-add or fast-math flag; those
of the fine rule are numpy's, step by step.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from int8tune.schedules.numerics import Requantize, Residual
from int8tune.schedules.operands import ADDITION_SHIFT, DTYPES, Addend, ByteArray, FloatArray, Operands
from int8tune.schedules.oracle.binary32 import multiply_add
from int8tune.schedules.oracle.exact_products import Columns, LongArray, SingleArray, largest_magnitude
from int8tune.schedules.oracle.row_blocks import for_row_blocks
from int8tune.schedules.workload import Conv2d, Dense, DepthwiseConv2d, Window, Workload

_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
# Values of a block of rows: for a product of matrices, where BLAS is as fast as it gets, and for steps that work on
# each value, whose results stay in a core's own cache.
_VALUES, _STEP_VALUES = 1 << 20, 1 << 15
# All values of an addition are multiples of 2^-83, the last bit of the smallest ratio in binary32; so are the products
# and offsets of the fused rule, of which an int64 has the part above 2^-30 and another one the rest.
_UNIT_BITS = 83
_WHOLE_BITS = 30


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

    BLAS multiplies, and still sums exactly (`schedules.oracle.exact_products`).
    """
    centred = data.astype(np.float32) - np.float32(data_zero_point)
    weights = weight.astype(np.float32) - np.float32(weight_zero_point)
    match workload:
        case Dense():
            return _dense(centred, weights)
        case Conv2d():
            return _conv(workload, centred, weights)
        case DepthwiseConv2d():
            return _depthwise(workload, centred, weights)


def requantize(workload: Workload, operands: Operands, sums: LongArray) -> npt.NDArray[np.uint8 | np.int8 | np.int32]:
    """Output values of sums [..., OC] that include the bias; the sums wrap to int32 first.

    Where the workload has a residual, the sums are those of all outputs.
    """
    numerics = workload.numerics
    step = numerics.requantize
    if step is None:
        return sums.astype(np.int32)
    flat = sums.reshape(-1, workload.out_channels)
    own = np.empty(flat.shape, np.int64)

    def fill(rows: slice) -> None:
        own[rows] = _own_outputs(step, operands, flat[rows])

    for_row_blocks(fill, len(flat), max(1, _STEP_VALUES // workload.out_channels))
    return add_residual(workload, operands, own.reshape(sums.shape)).astype(DTYPES[numerics.output])


def _own_outputs(requantize: Requantize, operands: Operands, sums: LongArray) -> LongArray:
    """Output values of sums [rows, OC], before a residual is added."""
    total = sums.astype(np.int32).astype(np.int64)
    match requantize.rule:
        case "float":
            scaled = scale_rounded(total, operands.scale)
        case "fixed":
            scaled = scale_fixed_point(total, operands.multiplier.astype(np.int64), operands.shift.astype(np.int64))
        case "fused":
            offset = operands.offset
            if requantize.exceptions:
                offset = np.where(np.abs(total) == operands.exception, operands.exception_offset, offset)
            scaled = scale_fused(total, operands.scale, offset)
        case "fine":
            scaled = scale_fine(total, operands.scale, operands.rest, operands.offset)
    bounded: LongArray = np.clip(scaled + operands.output_zero_point, operands.clamp_low, operands.clamp_high)
    return bounded


def add_residual(workload: Workload, operands: Operands, own: LongArray) -> LongArray:
    """The outputs of a layer whose own quantized outputs are given: those, or their sum with its residual."""
    addend, step = operands.residual, workload.numerics.requantize
    if addend is None or step is None:
        return own
    residual = addend.data.astype(np.int64)
    if workload.numerics.addition_rule == "fixed":
        sums = add_fixed_point(own, residual, operands.output_zero_point, addend)
    else:
        assert workload.numerics.residual is not None
        order = workload.numerics.residual
        sums = add_binary32(*order.in_order(own, residual), *in_order(order, operands.output_zero_point, addend))
    bounded: LongArray = np.clip(sums, addend.clamp_low, addend.clamp_high)
    return bounded


def scale_rounded(total: LongArray, scale: FloatArray) -> LongArray:
    """`scale_binary32`, by the processor's own binary32 where that rounds as IEEE 754 says: it is asked each time."""
    if not _rounds_to_nearest():
        return scale_binary32(total, scale)
    scaled = np.rint(total.astype(np.float32) * scale).astype(np.float64)
    rounded: LongArray = np.clip(scaled, _INT32_MIN, _INT32_MAX).astype(np.int64)
    return rounded


def _rounds_to_nearest() -> bool:
    """Whether conversions, products and roundings to integers go to the nearest value here, halves to the even one."""
    converted = np.array([(1 << 24) + 1, (1 << 24) + 3, -(1 << 24) - 3]).astype(np.float32)
    above = np.array([1 + 2.0**-23, -1 - 2.0**-23], np.float32)
    below = np.array([1 - 2.0**-24], np.float32)
    return bool(
        converted.tolist() == [1 << 24, (1 << 24) + 4, -(1 << 24) - 4]
        and (above * above[0]).tolist() == [1 + 2.0**-22, -1 - 2.0**-22]
        and (below * below).tolist() == [1 - 2.0**-23]
        and np.rint(np.array([0.5, 1.5, -1.5], np.float32)).tolist() == [0, 2, -2]
    )


def scale_binary32(total: LongArray, scale: FloatArray) -> LongArray:
    """Round `float32(total) * scale` half to even, with saturation to int32; every step rounds as IEEE 754 binary32.

    This is the arithmetic of ONNX Runtime's quantized operators. Scales are positive and within the bounds of
    `Operands`, which exclude subnormal products.
    """
    mantissa, exponent = _mantissa_and_exponent(scale)
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


def scale_fused(total: LongArray, scale: FloatArray, offset: FloatArray) -> LongArray:
    """Round `fma(float32(total), scale, copysign(offset, total))` half to even; a total of 0 has the sign plus.

    The fused multiply-add rounds once, to IEEE 754 binary32. Scales and offsets are within the bounds of `Operands`.
    """
    magnitude = _round_to_24_bits(np.abs(total))
    mantissa, exponent = _mantissa_and_exponent(scale)
    wholes, rests = zip(
        _split_units(magnitude * mantissa, exponent), _split_units(*_mantissa_and_exponent(offset)), strict=True
    )
    rest = rests[0] + rests[1]
    bits = _UNIT_BITS - _WHOLE_BITS
    # A last bit that stands for all below it changes no rounding: of the values that don't become 0, it is no tie's.
    exact = (wholes[0] + wholes[1] + (rest >> bits)) | ((rest & ((1 << bits) - 1)) != 0)
    rounded = _shift_right_half_even(_round_to_24_bits(exact), np.array(_WHOLE_BITS))
    signed: LongArray = np.where(total < 0, -rounded, rounded)
    return signed


def scale_fine(total: LongArray, scale: FloatArray, rest: FloatArray, offset: FloatArray) -> LongArray:
    """Round `float32(total) * (scale + rest) + copysign(offset, total)`, by its whole part and what is behind it::

        whole = round(float32(total) * scale)
        behind = fma(float32(total), scale, -whole) + fma(float32(total), rest, copysign(offset, total))
        whole + round(behind)

    Each step is rounded to IEEE 754 binary32, and `round` takes halves to even; what is behind the point has all 24
    bits of a number, and not what the whole part leaves of them. A total of 0 has the sign plus.

    Raises:
        ArithmeticError: this process rounds otherwise.
    """
    if not _rounds_to_nearest():
        raise ArithmeticError("this process does not round to the nearest number, halves to even")
    number = total.astype(np.float32)
    whole = np.rint(number * scale)
    signed = np.copysign(offset, np.where(total < 0, np.float32(-1), np.float32(1)))
    behind = multiply_add(number, scale, -whole) + multiply_add(number, rest, signed)
    rounded: LongArray = whole.astype(np.int64) + np.rint(behind).astype(np.int64)
    return rounded


def add_binary32(first: LongArray, second: LongArray, first_zero_point: int, addend: Addend) -> LongArray:
    """The sum of two quantized tensors with its zero point, in IEEE 754 binary32, rounded half to even in the end.

    With the ratios `p` of the first and `q` of the second summand, and their zero points `zp` and `zq`::

        constant = sum zero point - fma(p, zp, q * zq)
        sum = round(fma(first, p, fma(second, q, constant)))

    where `fma` rounds once. This is what ONNX Runtime's QLinearAdd(first, second) computes on x86 with AVX2 and FMA
    (MLAS, qladd_avx2.cpp, built by GCC, which fuses the constant's first product and sum). Elsewhere it computes
    something else that differs where a sum is nearly a tie; so does QLinearAdd(second, first). The fused rule has a
    constant of its own instead.

    Args:
        addend: of the second summand; its data plays no part.
    """
    p, q = (_units(ratio) for ratio in addend.ratio)
    constant = _units(addition_constant(first_zero_point, addend))
    codes = (first + 128) * 512 + second + 128
    sums = np.zeros(1 << 18, np.int64)
    inner = [_fit_24_bits(value * q + constant) for value in range(-128, 256)]
    for code in np.flatnonzero(np.bincount(codes.ravel())).tolist():
        sums[code] = _round_half_even(_fit_24_bits((code // 512 - 128) * p + inner[code % 512]), _UNIT_BITS)
    added: LongArray = sums[codes]
    return added


def in_order(residual: Residual, own_zero_point: int, addend: Addend) -> tuple[int, Addend]:
    """The first summand's zero point and what is known of the second one, as `add_binary32` takes them."""
    if not residual.first:
        return own_zero_point, addend
    return addend.zero_point, replace(addend, ratio=addend.ratio[::-1], zero_point=own_zero_point)


def addition_constant(first_zero_point: int, addend: Addend) -> np.float32:
    """The part of such an addition that is the same for all values; see `add_binary32`."""
    if addend.constant.size:
        return np.float32(addend.constant[0])
    p, q = (_units(ratio) for ratio in addend.ratio)
    zeros = _fit_24_bits(p * first_zero_point + _fit_24_bits(q * addend.zero_point))
    constant = _fit_24_bits((addend.sum_zero_point << _UNIT_BITS) - zeros)
    return np.float32(math.ldexp(constant, -_UNIT_BITS))


def add_fixed_point(own: LongArray, residual: LongArray, own_zero_point: int, addend: Addend) -> LongArray:
    """The sum of two quantized tensors with its zero point, as TFLite's reference ADD computes it for 8-bit tensors."""

    def scaled(values: LongArray, index: int) -> LongArray:
        multiplier, shift = (array[index : index + 1].astype(np.int64) for array in (addend.multiplier, addend.shift))
        return scale_fixed_point(values, multiplier, shift)

    own_term = scaled((own - own_zero_point) << ADDITION_SHIFT, 0)
    residual_term = scaled((residual - addend.zero_point) << ADDITION_SHIFT, 1)
    return scaled(own_term + residual_term, 2) + addend.sum_zero_point


def _mantissa_and_exponent(values: FloatArray) -> tuple[LongArray, LongArray]:
    """Integers of 24 bits, or 0, and the exponents of the powers of two that make them the positive values."""
    bits = values.view(np.int32).astype(np.int64)
    return np.where(values == 0, 0, (bits & 0x7FFFFF) | 0x800000), ((bits >> 23) & 0xFF) - 150


def _split_units(mantissa: LongArray, exponent: LongArray) -> tuple[LongArray, LongArray]:
    """`mantissa * 2**exponent`, which is below 2^32, in units of 2^-30, and the rest in units of 2^-83."""
    left = np.clip(exponent + _UNIT_BITS, 0, 63)
    below = np.maximum(_UNIT_BITS - _WHOLE_BITS - left, 0)
    whole = (mantissa >> below) << np.maximum(exponent + _WHOLE_BITS, 0)
    return whole, (mantissa & ((np.int64(1) << below) - 1)) << left


def _units(value: np.float32) -> int:
    """A binary32 value in units of 2^-83, exactly."""
    return int(math.ldexp(float(value), _UNIT_BITS))


def _fit_24_bits(value: int) -> int:
    """An integer rounded half to even to 24 significant bits."""
    excess = max(0, abs(value).bit_length() - 24)
    return _round_half_even(value, excess) << excess


def _round_half_even(value: int, bits: int) -> int:
    """`value / 2**bits` rounded."""
    whole, rest, half = value >> bits, value & ((1 << bits) - 1), (1 << bits) >> 1
    return whole + (rest > half or (rest == half != 0 and whole & 1))


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


def _dense(centred: SingleArray, weights: SingleArray) -> LongArray:
    columns = Columns(weights, largest_magnitude(centred))
    sums = np.empty((len(centred), len(weights)), np.int64)

    def fill(rows: slice) -> None:
        sums[rows] = columns.product(centred[rows])

    for_row_blocks(fill, len(centred), max(1, _VALUES // max(centred.shape[1], len(weights))))
    return sums


def _conv(workload: Conv2d, centred: SingleArray, weights: SingleArray) -> LongArray:
    groups, channels = workload.groups, workload.in_channels // workload.groups
    largest = largest_magnitude(centred)
    filters = [Columns(own, largest) for own in weights.reshape(groups, -1, workload.reduction)]
    image = _with_border(centred)
    rows, columns = _taps(workload.window, workload.height, workload.width)
    sums = np.empty((workload.batch * len(rows), len(columns), groups, workload.out_channels // groups), np.int64)

    def fill(chosen: slice) -> None:
        """Rows of outputs, counted through all images."""
        n, row = np.divmod(np.arange(chosen.start, chosen.stop), len(rows))
        patches = image[n[:, None, None, None], rows[row][:, None, :, None], columns[None, :, None, :]]
        grouped = patches.reshape(-1, workload.reduction // channels, groups, channels)
        for group, own in enumerate(filters):
            product = own.product(grouped[:, :, group].reshape(len(grouped), -1))
            sums[chosen, :, group] = product.reshape(len(n), len(columns), -1)

    values = len(columns) * max(workload.reduction * groups, workload.out_channels)
    for_row_blocks(fill, len(sums), max(1, _VALUES // values))
    return sums.reshape(workload.output_shape)


def _depthwise(workload: DepthwiseConv2d, centred: SingleArray, weights: SingleArray) -> LongArray:
    batch, height, width, out_channels = workload.output_shape
    sums = np.zeros((batch, height, width, workload.channels, workload.multiplier), np.int64)
    image = _with_border(centred)
    rows, columns = _taps(workload.window, workload.height, workload.width)
    filters = weights.reshape(workload.channels, workload.multiplier, *workload.window.kernel)

    def fill(chosen: slice) -> None:
        for kh in range(workload.window.kernel[0]):
            for kw in range(workload.window.kernel[1]):
                taps = image[:, rows[chosen, kh]][:, :, columns[:, kw]]
                np.add(sums[:, chosen], taps[..., None] * filters[:, :, kh, kw], out=sums[:, chosen], casting="unsafe")

    for_row_blocks(fill, height, max(1, _VALUES // (batch * width * out_channels)))
    return sums.reshape(batch, height, width, out_channels)


def _with_border(centred: SingleArray) -> SingleArray:
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
