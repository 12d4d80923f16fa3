"""The end of every kernel: from an int32 sum to an output value, as TIR expressions.

The rules are those of `schedules.reference`; values are clamped before they are converted or shifted into place, so
that nothing overflows.
"""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T

from schedules.arguments import HIGHEST, LOWEST, OUTPUT_ZERO_POINT
from schedules.numerics import Numerics

# 1.5 * 2^23 in binary32. TVM has no vector form of `nearbyint`.
ROUNDER, ROUNDER_BITS = 12582912.0, 0x4B400000
DTYPES = {"u8": "uint8", "s8": "int8", "s32": "int32"}


def requantize(numerics: Numerics, total: Any, channel: Any, rescale: Any, params: Any) -> Any:
    """The output value of the int32 sum `total` (bias included) of an output channel."""
    if numerics.requantize is None:
        return total
    at = channel if numerics.requantize.per_channel else 0
    zero_point, low, high = params[OUTPUT_ZERO_POINT], params[LOWEST], params[HIGHEST]
    if numerics.requantize.rule == "float":
        value = T.cast(total, "float32") * rescale[at]
        value = T.min(T.max(value, T.cast(low, "float32")), T.cast(high, "float32"))
        # The sum's unit in the last place is 1, so the addition rounds, and its low bits are the integer.
        bits = T.reinterpret(value + T.float32(ROUNDER), dtype="int32")
        shifted = bits + (zero_point - ROUNDER_BITS)
    else:
        shifted = T.min(T.max(_fixed_point(total, rescale[0, at], rescale[1, at]), low), high) + zero_point
    return T.cast(shifted, DTYPES[numerics.output])


def _fixed_point(total: Any, multiplier: Any, shift: Any) -> Any:
    """`total * multiplier * 2**(shift - 31)`, rounded twice as gemmlowp does.

    Adding 2^30 and shifting equals gemmlowp's sign-dependent nudge and truncating division.
    """
    left, right = T.max(shift, 0), T.max(-shift, 0)
    product = T.cast(T.shift_left(total, left), "int64") * T.cast(multiplier, "int64")
    high = T.cast(T.shift_right(product + T.int64(1 << 30), T.int64(31)), "int32")
    mask = T.bitwise_not(T.shift_left(T.int32(-1), right))  # no overflow where 31 bits are shifted out
    threshold = T.shift_right(mask, 1) + T.cast(high < 0, "int32")
    return T.shift_right(high, right) + T.cast(T.bitwise_and(high, mask) > threshold, "int32")
