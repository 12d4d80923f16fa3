"""The end of every kernel: from an int32 sum to an output value, as TIR expressions.

The rules are those of `schedules.oracle.reference`; values are clamped before they are converted or shifted into
place, so that nothing overflows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.script import tirx as T

from int8tune.schedules.arguments import (
    EXCEPTION_OFFSET_ROW,
    EXCEPTION_ROW,
    HIGHEST,
    LOWEST,
    MULTIPLIER,
    OFFSET_ROW,
    OUTPUT_ZERO_POINT,
    OWN_RATIO,
    RESIDUAL_RATIO,
    RESIDUAL_ZERO_POINT,
    REST_ROW,
    SCALE_ROW,
    SHIFT,
    SUM_CONSTANT,
    SUM_HIGHEST,
    SUM_LOWEST,
    SUM_ZERO_POINT,
)
from int8tune.schedules.numerics import Numerics, Requantize
from int8tune.schedules.operands import ADDITION_SHIFT

# 1.5 * 2^23 in binary32. TVM has no vector form of `nearbyint`.
ROUNDER, ROUNDER_BITS = 12582912.0, 0x4B400000
# Beyond any output, and exact where `_rounded` is.
LARGE = 65536.0
# The sign bit of an int32, and of a binary32.
SIGN_BIT = -(2**31)
MultiplyAdd = Callable[[Any, Any, Any], Any]
DTYPES = {"u8": "uint8", "s8": "int8", "s32": "int32"}


def requantize(
    numerics: Numerics, total: Any, channel: Any, rescale: Any, params: Any, fused: MultiplyAdd | None = None
) -> Any:
    """The output value of the int32 sum `total` (bias included) of an output channel.

    Args:
        fused: `left * right + addend` rounded once, where that is not LLVM's.
    """
    if numerics.requantize is None:
        return total
    at = channel if numerics.requantize.per_channel else 0
    zero_point, low, high = params[OUTPUT_ZERO_POINT], params[LOWEST], params[HIGHEST]
    match numerics.requantize.rule:
        case "float":
            value = T.cast(total, "float32") * rescale[at]
            shifted = _rounded(_bounded(value, low, high), zero_point)
        case "fixed":
            shifted = T.min(T.max(scale_fixed_point(total, rescale[0, at], rescale[1, at]), low), high) + zero_point
        case "fused":
            scaled = _scale_fused(numerics.requantize, total, at, rescale, fused or _fused)
            shifted = T.min(T.max(scaled, low), high) + zero_point
        case "fine":
            shifted = T.min(T.max(_scale_fine(total, at, rescale, fused or _fused), low), high) + zero_point
    return T.cast(shifted, DTYPES[numerics.output])


def add_residual(numerics: Numerics, own: Any, residual: Any, params: Any, fused: MultiplyAdd | None = None) -> Any:
    """The output value: the layer's own, to which a value of the residual is added where the layer has one."""
    if numerics.residual is None:
        return own
    if numerics.addition_rule != "fixed":
        places = (OWN_RATIO, RESIDUAL_RATIO, SUM_CONSTANT)
        own_ratio, residual_ratio, constant = (T.reinterpret(params[at], dtype="float32") for at in places)
        multiply_add = fused or _fused
        terms = (T.cast(own, "float32"), own_ratio), (T.cast(residual, "float32"), residual_ratio)
        first, second = numerics.residual.in_order(*terms)
        total = multiply_add(*first, multiply_add(*second, constant))
        bounded = _bounded(total, params[SUM_LOWEST], params[SUM_HIGHEST])
        return T.cast(_rounded(bounded, 0), DTYPES[numerics.output])
    steps = (T.cast(own, "int32") - params[OUTPUT_ZERO_POINT], T.cast(residual, "int32") - params[RESIDUAL_ZERO_POINT])
    own_term, residual_term = (
        scale_down(T.shift_left(step, ADDITION_SHIFT), params[MULTIPLIER + i], params[SHIFT + i])
        for i, step in enumerate(steps)
    )
    total = scale_down(own_term + residual_term, params[MULTIPLIER + 2], params[SHIFT + 2]) + params[SUM_ZERO_POINT]
    return T.cast(T.min(T.max(total, params[SUM_LOWEST]), params[SUM_HIGHEST]), DTYPES[numerics.output])


def _scale_fused(requantize: Requantize, total: Any, at: Any, rescale: Any, fused: MultiplyAdd) -> Any:
    """`scale_fused` with what a channel's rows of `rescale` say."""
    offset = rescale[OFFSET_ROW, at]
    if requantize.exceptions:
        is_exception = T.max(total, 0 - total) == rescale[EXCEPTION_ROW, at]
        offset = T.Select(is_exception, rescale[EXCEPTION_OFFSET_ROW, at], offset)
    return scale_fused(total, T.reinterpret(rescale[SCALE_ROW, at], dtype="float32"), offset, fused)


def _scale_fine(total: Any, at: Any, rescale: Any, fused: MultiplyAdd) -> Any:
    """`schedules.oracle.reference.scale_fine`; where it is beyond any output, another value that is."""
    scale, rest = (T.reinterpret(rescale[row, at], dtype="float32") for row in (SCALE_ROW, REST_ROW))
    number = T.cast(total, "float32")
    whole = _rounded(_not_large(number * scale), 0)
    behind = fused(number, scale, T.cast(whole, "float32") * T.float32(-1))
    offset = _with_sign_of(total, rescale[OFFSET_ROW, at])
    less = (behind + fused(number, rest, offset)) * T.float32(-1)
    # Not a sum: TVM adds the constants of both, which int32 has no place for.
    return whole - _rounded(_not_large(less), 0)


def scale_fused(total: Any, scale: Any, offset_bits: Any, fused: MultiplyAdd | None = None) -> Any:
    """The int32 product and sum of the fused rule; where it is beyond any output, another that is.

    Args:
        offset_bits: of a float32, as an int32.
    """
    value = (fused or _fused)(T.cast(total, "float32"), scale, _with_sign_of(total, offset_bits))
    return _rounded(_not_large(value), 0)


def _not_large(value: Any) -> Any:
    return T.min(T.max(value, T.float32(-LARGE)), T.float32(LARGE))


def _with_sign_of(total: Any, magnitude_bits: Any) -> Any:
    """The float32 with these bits and the sign of an int32: the sign bits of both types are in one place."""
    return T.reinterpret(T.bitwise_or(T.bitwise_and(total, T.int32(SIGN_BIT)), magnitude_bits), dtype="float32")


def _bounded(value: Any, low: Any, high: Any) -> Any:
    """A float32 within int32 bounds."""
    return T.min(T.max(value, T.cast(low, "float32")), T.cast(high, "float32"))


def scale_down(value: Any, multiplier: Any, shift: Any) -> Any:
    """`scale_fixed_point` for values of less than 30 bits and shifts that are not left.

    Without comparisons: TVM's simplifier takes exponentially long where they are nested.
    """
    right = -shift
    product = T.cast(value, "int64") * T.cast(multiplier, "int64")
    high = T.cast(T.shift_right(product + T.int64(1 << 30), T.int64(31)), "int32")
    mask = T.bitwise_not(T.shift_left(T.int32(-1), right))
    is_positive = T.bitwise_and(T.shift_right(T.bitwise_not(high), 31), T.min(right, 1))
    return T.shift_right(high + T.shift_right(mask, 1) + is_positive, right)


def _rounded(value: Any, offset: Any) -> Any:
    """A float32 of less than 2^22 rounded half to even, plus an int32 offset.

    The unit in the last place of the sum with `ROUNDER` is 1, so the addition rounds, and its low bits are the integer.
    """
    return T.reinterpret(value + T.float32(ROUNDER), dtype="int32") + (offset - ROUNDER_BITS)


def _fused(left: Any, right: Any, addend: Any) -> Any:
    """`left * right + addend` rounded once. Not `T.fma`: that may round twice where a CPU has no such instruction."""
    return T.call_llvm_pure_intrin("llvm.fma", left, right, addend, dtype="float32")


def scale_fixed_point(total: Any, multiplier: Any, shift: Any) -> Any:
    """`total * multiplier * 2**(shift - 31)`, rounded twice as gemmlowp does.

    Adding 2^30 and shifting equals gemmlowp's sign-dependent nudge and truncating division.
    """
    left, right = T.max(shift, 0), T.max(-shift, 0)
    product = T.cast(T.shift_left(total, left), "int64") * T.cast(multiplier, "int64")
    high = T.cast(T.shift_right(product + T.int64(1 << 30), T.int64(31)), "int32")
    mask = T.bitwise_not(T.shift_left(T.int32(-1), right))  # no overflow where 31 bits are shifted out
    threshold = T.shift_right(mask, 1) + T.cast(high < 0, "int32")
    return T.shift_right(high, right) + T.cast(T.bitwise_and(high, mask) > threshold, "int32")
