"""Loads of several registers by one instruction, from addresses that are computed where the kernel says.

TIR has no values of several registers, and no way to keep LLVM from computing an address where it likes. So kernels
that need either bring functions in LLVM's own language, which are inlined. Addresses are int64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.intrinsics.arm_vectors import BYTES, bind_int32


def import_loads() -> Any:
    """A frame in which what is below can be used."""
    texts = [_ADDRESSES, _ONE, *(_several(count) for count in (2, 3, 4))]
    return T.attr(T.int32(0), "pragma_import_llvm", "\n".join(texts))


def address_of(buffer: Any, at: Any) -> Any:
    """The address of a buffer's element, computed here; LLVM knows nothing else of it."""
    return T.Bind(T.call_extern("int64", "int8tune_hidden", T.address_of(buffer[at])))


def moved(address: Any, count: Any) -> Any:
    """An address so many bytes further, an int or an int64, computed here (ADD)."""
    count = T.int64(count) if isinstance(count, int) else count
    return T.Bind(T.call_extern("int64", "int8tune_moved", address, count))


def load_registers(address: Any, count: int) -> list[Any]:
    """int8x16 each, one behind the other in memory, loaded together (LD1; LDR where it is one)."""
    loaded = T.Bind(T.call_extern(f"int8x{BYTES * count}", f"int8tune_load_{count}", address))
    return [T.Shuffle([loaded], list(range(BYTES * index, BYTES * (index + 1)))) for index in range(count)]


def store_registers(address: Any, values: Sequence[Any]) -> None:
    """Store int32x4 each, one behind the other (STP)."""
    for index, value in enumerate(values):
        T.evaluate(T.call_extern("void", "int8tune_store", address, T.int64(index * BYTES), bind_int32(value)))


_ADDRESSES = """
define i64 @int8tune_hidden(ptr %at) {
  %same = call i64 asm sideeffect "", "=r,0"(ptr %at)
  ret i64 %same
}
define i64 @int8tune_moved(i64 %at, i64 %count) {
  %to = add i64 %at, %count
  %same = call i64 asm sideeffect "", "=r,0"(i64 %to)
  ret i64 %same
}
define void @int8tune_store(i64 %place, i64 %count, <4 x i32> %value) {
  %to = add i64 %place, %count
  %at = inttoptr i64 %to to ptr
  store <4 x i32> %value, ptr %at, align 4
  ret void
}
"""
_ONE = """
define <16 x i8> @int8tune_load_1(i64 %place) {
  %at = inttoptr i64 %place to ptr
  %loaded = load <16 x i8>, ptr %at, align 1
  ret <16 x i8> %loaded
}
"""


def _several(count: int) -> str:
    """The function that loads so many registers and gives them as one vector."""
    register, joined = f"<{BYTES} x i8>", f"<{BYTES * count} x i8>"
    loaded = "{ " + ", ".join([register] * count) + " }"
    load, insert = f"@llvm.aarch64.neon.ld1x{count}.v16i8.p0", f"@llvm.vector.insert.v{BYTES * count}i8.v16i8"
    lines = [
        f"declare {loaded} {load}(ptr)",
        f"declare {joined} {insert}({joined}, {register}, i64)",
        f"define {joined} @int8tune_load_{count}(i64 %place) {{",
        "%at = inttoptr i64 %place to ptr",
        f"%loaded = call {loaded} {load}(ptr %at)",
    ]
    value = "poison"
    for index in range(count):
        lines.append(f"%part{index} = extractvalue {loaded} %loaded, {index}")
        lines.append(
            f"%joined{index} = call {joined} {insert}({joined} {value}, {register} %part{index}, i64 {BYTES * index})"
        )
        value = f"%joined{index}"
    return "\n".join([*lines, f"ret {joined} {value}", "}"])
