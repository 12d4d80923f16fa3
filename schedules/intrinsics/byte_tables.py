"""Tables of 256 bytes in vector registers: whole vectors are looked up at once.

Names and semantics of instructions: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2; Arm
Architecture Reference Manual for A-profile, chapter C7.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.intrinsics.arm_vectors import neon
from int8tune.schedules.intrinsics.x86_vectors import call

ENTRIES = 256


class ByteTable(ABC):
    """A way to look up `width` bytes; registers hold `register_bytes` entries each."""

    width: int
    register_bytes: int

    def load(self, entries: Any) -> list[Any]:
        """The registers of a uint8 buffer of 256 entries."""
        size = self.register_bytes
        return [T.Bind(entries.vload([at], f"uint8x{size}")) for at in range(0, ENTRIES, size)]

    @abstractmethod
    def look(self, registers: Sequence[Any], places: Any) -> Any:
        """The entries at the places of a uint8 vector."""


class WordTable(ByteTable):
    """AVX512BW: pairs of entries as words, 64 of them in two registers (VPERMI2W), for even bytes and for odd ones."""

    width, register_bytes, _words = 64, 64, 32

    def look(self, registers: Sequence[Any], places: Any) -> Any:
        tables = [T.Bind(T.reinterpret(each, dtype="int16x32")) for each in registers]
        words = T.Bind(T.reinterpret(places, dtype="uint16x32"))
        even = T.Bind(self._pairs(tables, words, 0))
        odd = T.Bind(self._pairs(tables, words, 8))
        # The byte of a pair that is meant moves to where the place was.
        eight, one = self._all(8), self._all(1)
        is_second = T.shift_left(T.bitwise_and(words, one), self._all(3))
        made = T.bitwise_and(T.shift_right(even, is_second), self._all(0xFF))
        is_second = T.shift_left(T.bitwise_and(T.shift_right(words, eight), one), self._all(3))
        upper = T.bitwise_and(T.shift_left(odd, eight - is_second), self._all(0xFF00))
        return T.reinterpret(T.bitwise_or(made, upper), dtype="uint8x64")

    def _pairs(self, tables: Sequence[Any], words: Any, shift: int) -> Any:
        """The two entries of which one is that of the byte at `shift`."""
        # Bits 1 to 6 of the byte are the word's place in two registers, bit 7 says in which two.
        at = T.Bind(T.reinterpret(T.shift_right(words, self._all(shift + 1)), dtype="int16x32"))
        low, high = (
            T.reinterpret(
                call("llvm.x86.avx512.vpermi2var.hi.512", "int16x32", tables[first], at, tables[first + 1]),
                dtype="uint16x32",
            )
            for first in (0, 2)
        )
        is_high = T.NE(T.bitwise_and(words, self._all(0x80 << shift)), self._all(0))
        return T.Select(is_high, high, low)

    def _all(self, value: int) -> Any:
        return T.broadcast(T.uint16(value), self._words)


class NibbleTable(ByteTable):
    """AVX2: sixteen entries a register; each answers for its own sixteenth and is 0 for the others (VPSHUFB)."""

    width, register_bytes = 32, 16

    def load(self, entries: Any) -> list[Any]:
        return [T.Bind(T.Shuffle([each, each], list(range(32)))) for each in super().load(entries)]

    def look(self, registers: Sequence[Any], places: Any) -> Any:
        made: Any = None
        for sixteenth, register in enumerate(registers):
            # Bytes of another sixteenth become 128 and more, for which the instruction gives 0.
            own = T.bitwise_xor(places, self._all(16 * sixteenth)) if sixteenth else places
            own = call("llvm.uadd.sat", "uint8x32", own, self._all(0x70))
            found = call("llvm.x86.avx2.pshuf.b", "uint8x32", register, own)
            made = found if made is None else T.bitwise_or(made, found)
        return made

    def _all(self, value: int) -> Any:
        return T.broadcast(T.uint8(value), self.width)


class QuarterTable(ByteTable):
    """Advanced SIMD: 64 entries in four registers; places beyond give 0 (TBL), or what was there (TBX)."""

    width, register_bytes = 16, 16

    def look(self, registers: Sequence[Any], places: Any) -> Any:
        made = neon("tbl4", "uint8x16", *registers[:4], places)
        for quarter in (1, 2, 3):
            own = T.bitwise_xor(places, T.broadcast(T.uint8(64 * quarter), self.width))
            made = neon("tbx4", "uint8x16", made, *registers[4 * quarter : 4 * quarter + 4], own)
        return made


BYTE_TABLES: dict[str, ByteTable] = {
    "x86-amx": WordTable(),
    "x86-avx512vnni": WordTable(),
    "x86-avxvnni": NibbleTable(),
    "x86-avx2": NibbleTable(),
    "arm-dotprod": QuarterTable(),
    "arm-neon": QuarterTable(),
}
"""The tables of each target profile that has any."""
