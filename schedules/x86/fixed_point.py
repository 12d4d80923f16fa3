"""The fixed rule's multiplication on x86 vectors of int32."""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T


def fixed_point(total: Any, multiplier: Any, shift: Any, lanes: int) -> Any:
    """`total * multiplier * 2**(shift - 31)` of int32 vectors, rounded twice as gemmlowp does.

    Adding 2^30 and shifting equals gemmlowp's sign-dependent nudge and truncating division. Even and odd lanes are
    multiplied apart, in the form that LLVM turns into VPMULDQ.
    """
    zero, one = T.broadcast(T.int32(0), lanes), T.broadcast(T.int32(1), lanes)
    right = T.Bind(T.max(zero - shift, zero))
    high = T.Bind(doubled_high(T.shift_left(total, T.max(shift, zero)), multiplier, lanes))
    # No overflow where 31 bits are shifted out.
    mask = T.Bind(T.bitwise_not(T.shift_left(T.broadcast(T.int32(-1), lanes), right)))
    rest = T.bitwise_and(high, mask)
    threshold = T.shift_right(mask, one) + T.cast(high < zero, f"int32x{lanes}")
    return T.shift_right(high, right) + T.cast(rest > threshold, f"int32x{lanes}")


def doubled_high(left: Any, right: Any, lanes: int) -> Any:
    """(left * right + 2^30) >> 31, int32."""
    pairs, half = lanes // 2, T.broadcast(T.int64(32), lanes // 2)
    wide = [T.Bind(T.reinterpret(value, dtype=f"int64x{pairs}")) for value in (left, right)]
    nudge = T.broadcast(T.int64(1 << 30), pairs)
    even = [T.shift_right(T.shift_left(value, half), half) for value in wide]
    odd = [T.shift_right(value, half) for value in wide]
    low = T.shift_right(even[0] * even[1] + nudge, T.broadcast(T.int64(31), pairs))
    high = T.shift_left(odd[0] * odd[1] + nudge, T.broadcast(T.int64(1), pairs))
    as_words = [T.reinterpret(value, dtype=f"int32x{lanes}") for value in (low, high)]
    return T.Shuffle(as_words, [lane if lane % 2 == 0 else lanes + lane for lane in range(lanes)])
