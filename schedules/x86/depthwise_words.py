"""Words of four vertical taps, the data of depthwise dot products, made of four rows of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.intrinsics.x86_vectors import call
from int8tune.schedules.x86.channels import PACKED_REGISTERS

PART_BYTES = 16  # packs and unpacks work within so many bytes of a register


class WordMaker:
    """Makes words of the channels of one pixel, or of those of two or four pixels that fill a register together.

    The order of the words is that of `schedules.x86.channels`.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._bytes = 4 * lanes
        self._orders = {(size, half): T.Bind(self._unpack_order(size, half)) for size in (1, 2) for half in (0, 1)}

    def together(self, pixels: Sequence[Any]) -> Any:
        """The channels of several pixels in one register, so that each pixel's unpack to registers of their own."""
        if len(pixels) == 1:
            return pixels[0]
        bits = 8 * PART_BYTES // len(pixels)
        parts = self._bytes // PART_BYTES
        vectors = [T.reinterpret(pixel, dtype=f"uint{bits}x{parts}") for pixel in pixels]
        order = [pixel * parts + part for part in range(parts) for pixel in range(len(pixels))]
        return T.Bind(T.reinterpret(T.Shuffle(vectors, order), dtype=f"uint8x{self._bytes}"))

    def spread(self, value: Any, pixels: int) -> Any:
        """The register of neighbouring pixels in memory in the order of `together`."""
        if pixels == 1:
            return value
        bits, parts = 8 * PART_BYTES // pixels, self._bytes // PART_BYTES
        vector = T.reinterpret(value, dtype=f"uint{bits}x{parts * pixels}")
        order = [pixel * parts + part for part in range(parts) for pixel in range(pixels)]
        return T.Bind(T.reinterpret(T.Shuffle([vector], order), dtype=f"uint8x{self._bytes}"))

    def words(self, rows: Sequence[Any]) -> list[Any]:
        """Four registers of bytes as four registers of words, those of the first pixel first."""
        pairs = [[T.Bind(self._unpack(rows[i : i + 2], 1, half)) for half in (0, 1)] for i in (0, 2)]
        halves = [(low, half) for low in (0, 1) for half in (0, 1)]
        registers = [self._unpack((pairs[0][low], pairs[1][low]), 2, half) for low, half in halves]
        assert len(registers) == PACKED_REGISTERS
        return [T.Bind(T.reinterpret(register, dtype=f"int8x{self._bytes}")) for register in registers]

    def _unpack(self, pair: Sequence[Any], size: int, half: int) -> Any:
        """Values of `size` bytes of both vectors in turn (VPUNPCKL, VPUNPCKH).

        A permutation by a vector that LLVM knows becomes a shuffle; TIR's own has a node for each index, which every
        pass of TVM visits.
        """
        kind = f"int{8 * size}x{self._bytes // size}"
        name = f"llvm.x86.avx512.vpermi2var.{'qi' if size == 1 else 'hi'}.{8 * self._bytes}"
        first, second = (T.reinterpret(vector, dtype=kind) for vector in pair)
        return call(name, kind, first, self._orders[size, half], second)

    def _unpack_order(self, size: int, half: int) -> Any:
        """Which of both vectors' values come one after the other."""
        count, part = self._bytes // size, PART_BYTES // size

        def constant(value: int) -> Any:
            return T.broadcast(T.int32(value), count)

        place = T.ramp(0, 1, count)
        within = T.bitwise_and(T.shift_right(place, constant(1)), constant(part // 2 - 1))
        source = T.bitwise_and(place, constant(1)) * constant(count)
        order = T.bitwise_and(place, constant(count - part)) + within + source + constant(half * part // 2)
        return T.cast(order, f"int{8 * size}x{count}")
