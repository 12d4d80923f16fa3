"""Advanced SIMD instructions as TIR expressions, on registers of 128 bits.

Names and semantics: Arm Architecture Reference Manual for A-profile, chapter C7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.script.ir_builder import tirx as T

LANES = 4
BYTES = 16
LOADED_TOGETHER = (1, 2, 3, 4)


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


def bind_int32(values: Any) -> Any:
    """An int32x4 that is computed here, and once."""
    # TVM analyses what is bound, and takes no vectors of int32 there; it does not look into a cast.
    return T.reinterpret(T.Bind(T.reinterpret(values, dtype="uint32x4")), dtype="int32x4")


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


def import_loads() -> Any:
    """A frame in which `load_registers` and `hidden` can be used: their LLVM functions, which are inlined."""
    return T.attr(T.int32(0), "pragma_import_llvm", "\n".join([*map(_load_text, LOADED_TOGETHER), _HIDDEN_TEXT]))


def hidden(buffer: Any, at: Any) -> Any:
    """The address of a buffer's element as int64, computed here; LLVM knows nothing else of it. No instruction."""
    return T.Bind(T.call_extern("int64", "int8tune_hidden", T.address_of(buffer[at])))


def moved(address: Any, count: Any) -> Any:
    """Such an address so many bytes further, an int or an int64, computed here (ADD)."""
    count = T.int64(count) if isinstance(count, int) else count
    return T.Bind(T.call_extern("int64", "int8tune_moved", address, count))


def load_registers(address: Any, count: int) -> list[Any]:
    """int8x16 each, one behind the other in memory, loaded together (LD1 of one to four registers)."""
    name = f"int8tune_load_{count}"
    loaded = T.Bind(T.call_extern(f"int8x{BYTES * count}", name, address))
    return [T.Shuffle([loaded], list(range(BYTES * index, BYTES * (index + 1)))) for index in range(count)]


def store_registers(address: Any, values: Sequence[Any]) -> None:
    """Store int32x4 each, one behind the other."""
    for index, value in enumerate(values):
        T.evaluate(T.call_extern("void", "int8tune_store", address, T.int64(index * BYTES), bind_int32(value)))


def _load_text(count: int) -> str:
    """An LLVM function of the registers that one LD1 loads, in one vector: TIR has no tuples."""
    if count == 1:
        return f"define {_vector(BYTES)} @int8tune_load_1(i64 %place) {{\n%at = inttoptr i64 %place to ptr\n%r = load {_vector(BYTES)}, ptr %at, align 1\nret {_vector(BYTES)} %r\n}}"
    types = "{ " + ", ".join([_vector(BYTES)] * count) + " }"
    called = f"@llvm.aarch64.neon.ld1x{count}.v16i8.p0"
    lines = [
        f"declare {types} {called}(ptr)",
        f"define {_vector(BYTES * count)} @int8tune_load_{count}(i64 %place) {{",
        "%at = inttoptr i64 %place to ptr",
        f"%all = call {types} {called}(ptr %at)",
        *(f"%r{index} = extractvalue {types} %all, {index}" for index in range(count)),
        f"%joined1 = shufflevector {_vector(BYTES)} %r0, {_vector(BYTES)} poison, {_order(BYTES, BYTES)}",
    ]
    for index in range(1, count):
        # A shuffle takes two vectors of one length.
        done, size = _vector(BYTES * index), BYTES * (index + 1)
        lines.append(
            f"%wide{index} = shufflevector {_vector(BYTES)} %r{index}, {_vector(BYTES)} poison, {_order(BYTES, BYTES * index)}"
        )
        lines.append(
            f"%joined{index + 1} = shufflevector {done} %joined{index}, {done} %wide{index}, {_order(size, size)}"
        )
    return "\n".join([*lines, f"ret {_vector(BYTES * count)} %joined{count}", "}"])


def _vector(count: int) -> str:
    return f"<{count} x i8>"


def _order(count: int, length: int) -> str:
    """The first `count` bytes in order, as a mask of a shuffle, filled up to a length."""
    places = [f"i32 {index}" if index < count else "i32 poison" for index in range(length)]
    return f"<{length} x i32> <{', '.join(places)}>"


_HIDDEN_TEXT = """
define void @int8tune_store(i64 %place, i64 %count, <4 x i32> %value) {
  %to = add i64 %place, %count
  %at = inttoptr i64 %to to ptr
  store <4 x i32> %value, ptr %at, align 4
  ret void
}
define i64 @int8tune_hidden(ptr %at) {
  %same = call i64 asm sideeffect "", "=r,0"(ptr %at)
  ret i64 %same
}
define i64 @int8tune_moved(i64 %at, i64 %count) {
  %to = add i64 %at, %count
  %same = call i64 asm sideeffect "", "=r,0"(i64 %to)
  ret i64 %same
}
"""
