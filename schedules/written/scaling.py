"""The rounding rules `fused` and `fine` on vectors of int32 sums, by whatever instructions there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arguments import EXCEPTION_OFFSET_ROW, EXCEPTION_ROW, OFFSET_ROW, REST_ROW, SCALE_ROW
from int8tune.schedules.epilogue import SIGN_BIT
from int8tune.schedules.written.bound import bind_int32

# The values of a row of `rescale`, int32.
Factor = Callable[[int], Any]


class FloatVectors(Protocol):
    """Vectors of binary32 numbers, which have as many lanes as those of int32."""

    @property
    def lanes(self) -> int: ...
    def nearest_int(self, value: Any, /) -> Any:
        """As int32, halves to even."""

    def fused(self, left: Any, right: Any, addend: Any, /) -> Any:
        """`left * right + addend`, rounded once."""


def scale_fused(vectors: FloatVectors, sums: Any, factor: Factor, *, exceptions: bool) -> Any:
    """int32 by the fused rule, which nothing has to keep from overflowing: no such scale is that large."""
    total, offset = bind_int32(sums), factor(OFFSET_ROW)
    if exceptions:
        magnitude = T.max(total, T.broadcast(T.int32(0), vectors.lanes) - total)
        offset = T.Select(magnitude == factor(EXCEPTION_ROW), factor(EXCEPTION_OFFSET_ROW), offset)
    number, scale = T.cast(total, _kind(vectors)), _float(vectors, factor(SCALE_ROW))
    return vectors.nearest_int(vectors.fused(number, scale, _signed(vectors, total, offset)))


def scale_fine(vectors: FloatVectors, sums: Any, factor: Factor) -> Any:
    """int32 by the fine rule (`schedules.oracle.reference.scale_fine`), which no scale takes out of int32."""
    total = bind_int32(sums)
    number, scale = T.Bind(T.cast(total, _kind(vectors))), _float(vectors, factor(SCALE_ROW))
    whole = bind_int32(vectors.nearest_int(number * scale))
    behind = vectors.fused(number, scale, T.cast(whole, _kind(vectors)) * T.broadcast(T.float32(-1), vectors.lanes))
    rest = vectors.fused(number, _float(vectors, factor(REST_ROW)), _signed(vectors, total, factor(OFFSET_ROW)))
    return whole + vectors.nearest_int(behind + rest)


def _kind(vectors: FloatVectors) -> str:
    return f"float32x{vectors.lanes}"


def _float(vectors: FloatVectors, bits: Any) -> Any:
    return T.reinterpret(bits, dtype=_kind(vectors))


def _signed(vectors: FloatVectors, total: Any, offset: Any) -> Any:
    """The binary32 values with these bits and the signs of int32 values."""
    sign = T.bitwise_and(total, T.broadcast(T.int32(SIGN_BIT), vectors.lanes))
    return _float(vectors, T.bitwise_or(sign, offset))
