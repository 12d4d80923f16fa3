"""Advanced SIMD instructions as TIR expressions, on registers of 128 bits.

Names and semantics: Arm Architecture Reference Manual for A-profile, chapter C7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.written.bound import bind_int32

LANES = 4
BYTES = 16


def call(name: str, dtype: str, *arguments: Any) -> Any:
    """A call of an LLVM intrinsic without side effects."""
    return T.call_llvm_pure_intrin(T.llvm_lookup_intrinsic_id(f"llvm.{name}"), *arguments, dtype=dtype)


def neon(name: str, dtype: str, *arguments: Any) -> Any:
    """A call of one of LLVM's intrinsics for Advanced SIMD."""
    return call(f"aarch64.neon.{name}", dtype, *arguments)


def broadcast_bytes(value: Any, count: int, size: int) -> Any:
    """A vector of `count` bytes, repeated to `size` (LD1R where it comes from memory)."""
    word = T.reinterpret(value, dtype=f"int{8 * count}")
    return T.reinterpret(T.broadcast(word, size // count) if size > count else word, dtype=f"int8x{size}")


def half(value: Any, high: int, dtype: str) -> Any:
    """The low or the high half of a register's values of this type."""
    count = 64 // int(dtype.removeprefix("int"))
    return T.Shuffle([value], list(range(high * count, (high + 1) * count)))


def product_bytes(left: Any, right: Any) -> Any:
    """int16x8: products of two int8x8 (SMULL)."""
    return neon("smull", "int16x8", left, right)


def add_products(total: Any, left: Any, right: Any) -> Any:
    """int16x8 plus such products; it wraps (SMLAL)."""
    return wrapping_add(total, product_bytes(left, right), 8, "int16")


def pairs(values: Any) -> Any:
    """int32x4: the sums of neighbours of int16x8 (SADDLP)."""
    return neon("saddlp", "int32x4", values)


def add_pairs(total: Any, values: Any) -> Any:
    """int32x4 plus the sums of neighbours of int16x8; it wraps (SADALP)."""
    return wrapping_add(total, pairs(values), LANES, "int32")


def add_wide_products(total: Any, left: Any, right: Any) -> Any:
    """int32x4 plus the products of two int16x4; it wraps (SMLAL)."""
    return wrapping_add(total, neon("smull", "int32x4", left, right), LANES, "int32")


def add_widened(total: Any, values: Any) -> Any:
    """int32x4 plus int16x4; it wraps (SADDW)."""
    return wrapping_add(total, T.cast(values, "int32x4"), LANES, "int32")


def add_dot_products(total: Any, left: Any, right: Any) -> Any:
    """int32x4 plus, in each lane, four products of s8 (SDOT)."""
    return neon("sdot", "int32x4", total, left, right)


def wrapping_add(left: Any, right: Any, lanes: int, dtype: str) -> Any:
    """A sum that wraps (ADD); of its own sums, TVM tells LLVM that they never overflow."""
    all_lanes = (T.broadcast(T.bool(True), lanes), T.int32(lanes))
    return call("vp.add", f"{dtype}x{lanes}", left, right, *all_lanes)


def add_neighbours(low: Any, high: Any) -> Any:
    """int32x4: the sums of neighbours, first those of `low` (ADDP)."""
    return neon("addp", "int32x4", low, high)


def nearest_int(value: Any) -> Any:
    """float32x4 to int32x4, half to even, saturated (FCVTNS)."""
    return neon("fcvtns", "int32x4", value)


def fused(left: Any, right: Any, addend: Any) -> Any:
    """`left * right + addend` of float32x4, rounded once (FMLA)."""
    return call("fma", "float32x4", left, right, addend)


def unfused(value: Any) -> Any:
    """A float32x4 product that is rounded before anything is added to it: LLVM would fuse both. No instruction."""
    return call("arithmetic.fence", "float32x4", value)


def doubled_high(left: Any, right: Any) -> Any:
    """(left * right + 2^30) >> 31 of int32x4 (SQRDMULH)."""
    return neon("sqrdmulh", "int32x4", left, right)


def shift_by(value: Any, counts: Any) -> Any:
    """int32x4 shifted left by each lane's own count; it wraps (SSHL)."""
    return neon("sshl", "int32x4", value, counts)


def shift_right_away(value: Any, negative_counts: Any) -> Any:
    """int32x4 shifted right by minus each lane's own count, rounded half away from zero (SRSHL and two more)."""
    # SRSHL rounds up; one less makes it down where a negative value is shifted at all.
    below = T.shift_right(T.bitwise_and(value, negative_counts), T.broadcast(T.int32(31), LANES))
    return neon("srshl", "int32x4", neon("sqadd", "int32x4", value, below), negative_counts)


def narrow_32_to_16(low: Any, high: Any) -> Any:
    """Two int32x4 saturated to one int16x8 (SQXTN, SQXTN2)."""
    return T.Shuffle([neon("sqxtn", "int16x4", low), neon("sqxtn", "int16x4", high)], list(range(8)))


def narrow_16_to_8(value: Any, signed: bool) -> Any:
    """int16x8 saturated to s8 or u8, as the latter's TIR type (SQXTN, SQXTUN)."""
    narrow = neon("sqxtn" if signed else "sqxtun", "int8x8", value)
    return narrow if signed else T.reinterpret(narrow, dtype="uint8x8")


def add_saturated_16(left: Any, right: Any) -> Any:
    """SQADD."""
    return neon("sqadd", "int16x8", left, right)


def bind_int16(values: Any) -> Any:
    """An int16x8 that is computed here, and once."""
    return T.reinterpret(T.Bind(T.reinterpret(values, dtype="uint16x8")), dtype="int16x8")


def in_turn(values: Sequence[Any]) -> list[Any]:
    """Vectors that are computed here, one after the other."""
    bind = {"int32x4": bind_int32, "int16x8": bind_int16}
    bound = [bind.get(str(value.ty.dtype), T.Bind)(value) for value in values]
    for value in bound:
        keep_order(value)
    return bound


def keep_order(value: Any) -> None:
    """Let LLVM move no instruction from before this place to behind it, or back. No instruction."""
    # A use of any value that is computed by then; LLVM's schedulers end a region there.
    T.evaluate(T.call_llvm_intrin("void", "llvm.fake.use", value))


class _Floats:
    """float32x4, as `schedules.written.scaling` has vectors."""

    lanes = LANES
    nearest_int = staticmethod(nearest_int)
    fused = staticmethod(fused)


FLOATS = _Floats()
