"""x86 vector instructions as TIR expressions: what a kernel written for one register width and instruction set needs.

Names and semantics: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.script.ir_builder import tirx as T

# The rounding operand of EVEX conversions: as MXCSR has it, to nearest even.
_CURRENT_ROUNDING = 4


class X86Vectors:
    """Registers of `lanes` int32; what is narrower fills the same registers with more values.

    Packs and unpacks work within each 128 bits of their operands. The operands of a dot product are lists of registers,
    as many as `schedules.x86.registers.Registers.parts` says; an operand that is used often is made once.
    """

    lanes: int
    operand_type: str

    _pack_32_to_16: str
    _pack_16_to_u8: str
    _pack_16_to_s8: str

    def dot(self, total: Any, data: Any, weight: Any) -> Any:
        """int32 `total` plus, in each lane, four products of u8 `data` and s8 `weight`; both given as int8 vectors."""
        return self.multiply_add(total, self.data_operand(data), self.weight_operand(weight))

    def multiply_add(self, total: Any, data: Sequence[Any], weight: Sequence[Any]) -> Any:
        """`dot` of operands."""
        raise NotImplementedError

    def data_operand(self, data: Any) -> Sequence[Any]:
        """An int8 vector of u8 data as operand."""
        return (T.Bind(data),)

    def weight_operand(self, weight: Any) -> Sequence[Any]:
        """An int8 vector of s8 weights as operand."""
        return (T.Bind(weight),)

    def load_weight(self, weights: Any, index: Any, first: Any = 0) -> Sequence[Any]:
        """The operand at `index`, counted from byte `first` on, of an int8 buffer that `Registers.pack` filled."""
        size = 4 * self.lanes
        return (T.Bind(weights.vload([first + index * size], f"int8x{size}")),)

    def nearest_int(self, value: Any) -> Any:
        """float32 to int32, half to even; what does not fit becomes -2^31 (VCVTPS2DQ)."""
        raise NotImplementedError

    def fused(self, left: Any, right: Any, addend: Any) -> Any:
        """`left * right + addend` of float32, rounded once (VFMADD)."""
        return call("llvm.fma", f"float32x{self.lanes}", left, right, addend)

    def unfused(self, value: Any) -> Any:
        """A float32 product that is rounded before anything is added to it: LLVM would fuse both. No instruction."""
        return call("llvm.arithmetic.fence", f"float32x{self.lanes}", value)

    def broadcast_word(self, word: Any) -> Any:
        """An int32 in each lane, as an int8 vector."""
        return T.reinterpret(T.broadcast(word, self.lanes), dtype=f"int8x{4 * self.lanes}")

    def pack_32_to_16(self, low: Any, high: Any) -> Any:
        """Two int32 vectors saturated to one of int16 (VPACKSSDW)."""
        return call(self._pack_32_to_16, f"int16x{2 * self.lanes}", low, high)

    def pack_16_to_8(self, low: Any, high: Any, signed: bool) -> Any:
        """Two int16 vectors saturated to one of s8 or u8, as the latter's TIR type (VPACKSSWB, VPACKUSWB)."""
        packed = call(self._pack_16_to_s8 if signed else self._pack_16_to_u8, f"int8x{4 * self.lanes}", low, high)
        return packed if signed else T.reinterpret(packed, dtype=f"uint8x{4 * self.lanes}")

    def add_saturated_16(self, left: Any, right: Any) -> Any:
        """VPADDSW."""
        return call("llvm.sadd.sat", f"int16x{2 * self.lanes}", left, right)

    def add(self, left: Any, right: Any) -> Any:
        """int32 that wraps (VPADDD); of its own sums, TVM tells LLVM that they never overflow, of uint32 neither."""
        return self._wrapping("add", left, right)

    def subtract(self, left: Any, right: Any) -> Any:
        """int32 that wraps (VPSUBD)."""
        return self._wrapping("sub", left, right)

    def sum_of(self, values: Any) -> Any:
        """The sum of an int32 vector of any length, which wraps."""
        return call("llvm.vector.reduce.add", "int32", values)

    def _wrapping(self, operator: str, left: Any, right: Any) -> Any:
        lanes = self.lanes
        all_lanes = (T.broadcast(T.bool(True), lanes), T.int32(lanes))
        return call(f"llvm.vp.{operator}", f"int32x{lanes}", left, right, *all_lanes)


class Avx512Vnni(X86Vectors):
    """512-bit registers and VPDPBUSD."""

    lanes = 16
    operand_type = "int8x64"
    _pack_32_to_16 = "llvm.x86.avx512.packssdw.512"
    _pack_16_to_u8 = "llvm.x86.avx512.packuswb.512"
    _pack_16_to_s8 = "llvm.x86.avx512.packsswb.512"

    def multiply_add(self, total: Any, data: Sequence[Any], weight: Sequence[Any]) -> Any:
        return call("llvm.x86.avx512.vpdpbusd.512", "int32x16", total, data[0], weight[0])

    def nearest_int(self, value: Any) -> Any:
        zero, all_lanes = T.broadcast(T.int32(0), 16), T.reinterpret(T.uint16(0xFFFF), dtype="int16")
        name = "llvm.x86.avx512.mask.cvtps2dq.512"
        return call(name, "int32x16", value, zero, all_lanes, T.int32(_CURRENT_ROUNDING))


class _Registers256(X86Vectors):
    """256-bit registers."""

    lanes = 8
    _pack_32_to_16 = "llvm.x86.avx2.packssdw"
    _pack_16_to_u8 = "llvm.x86.avx2.packuswb"
    _pack_16_to_s8 = "llvm.x86.avx2.packsswb"

    def nearest_int(self, value: Any) -> Any:
        return call("llvm.x86.avx.cvt.ps2dq.256", "int32x8", value)


class AvxVnni(_Registers256):
    """256-bit registers and the VEX-encoded VPDPBUSD."""

    operand_type = "int8x32"

    def multiply_add(self, total: Any, data: Sequence[Any], weight: Sequence[Any]) -> Any:
        return call("llvm.x86.avx512.vpdpbusd.256", "int32x8", total, data[0], weight[0])


class Avx2(_Registers256):
    """256-bit registers without VPDPBUSD.

    `vpmaddubsw` saturates, so bytes are widened: two sums of two 16-bit products each (VPMADDWD) are exact.
    """

    operand_type = "int16x16"

    def multiply_add(self, total: Any, data: Sequence[Any], weight: Sequence[Any]) -> Any:
        for bytes_of_data, bytes_of_weight in zip(data, weight, strict=True):
            total = self.add(total, call("llvm.x86.avx2.pmadd.wd", "int32x8", bytes_of_data, bytes_of_weight))
        return total

    def data_operand(self, data: Any) -> Sequence[Any]:
        pairs = T.reinterpret(data, dtype="uint16x16")
        even, odd = T.bitwise_and(pairs, T.broadcast(T.uint16(0xFF), 16)), T.shift_right(pairs, _by_8("uint16"))
        return tuple(T.Bind(T.reinterpret(part, dtype=self.operand_type)) for part in (even, odd))

    def weight_operand(self, weight: Any) -> Sequence[Any]:
        pairs = T.reinterpret(weight, dtype="int16x16")
        even = T.shift_right(T.shift_left(pairs, _by_8("int16")), _by_8("int16"))
        return T.Bind(even), T.Bind(T.shift_right(pairs, _by_8("int16")))

    def load_weight(self, weights: Any, index: Any, first: Any = 0) -> Sequence[Any]:
        loaded = [weights.vload([first + (index * 64 + offset)], "int8x32") for offset in (0, 32)]
        return tuple(T.Bind(T.reinterpret(part, dtype=self.operand_type)) for part in loaded)


VECTORS: dict[str, X86Vectors] = {
    "x86-amx": Avx512Vnni(),
    "x86-avx512vnni": Avx512Vnni(),
    "x86-avxvnni": AvxVnni(),
    "x86-avx2": Avx2(),
}
"""The vectors of each target profile that has any."""


def call(name: str, dtype: str, *arguments: Any) -> Any:
    """A call of an LLVM intrinsic without side effects."""
    return T.call_llvm_pure_intrin(T.llvm_lookup_intrinsic_id(name), *arguments, dtype=dtype)


def _by_8(dtype: str) -> Any:
    return T.broadcast(T.uint16(8) if dtype == "uint16" else T.int16(8), 16)
