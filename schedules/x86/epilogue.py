"""The end of an x86 kernel: from int32 sums in registers to bytes in memory.

Four registers of sums become one of bytes: convert, scale, round (one instruction, VCVTPS2DQ), saturate to 16 bits, add
the zero point, saturate to 8 bits. The fused rule takes two instructions more than the float rule, and two for
exceptions; the fine rule six more than the fused one. Packs interleave their operands in groups of four bytes within
128 bits; sums are kept in the order that this undoes (`schedules.x86.channels`), so bytes come out in the order of
their channels. A residual is added to the four registers before they are packed (`schedules.x86.residual`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arguments import (
    HIGHEST,
    LOWEST,
    OUTPUT_ZERO_POINT,
)
from int8tune.schedules.epilogue import DTYPES
from int8tune.schedules.intrinsics.x86_vectors import X86Vectors
from int8tune.schedules.numerics import Numerics
from int8tune.schedules.written.rows import pieces, store_vector
from int8tune.schedules.written.scaling import scale_fine, scale_fused
from int8tune.schedules.written.signature import Arguments
from int8tune.schedules.x86.channels import PACKED_REGISTERS, register_groups
from int8tune.schedules.x86.fixed_point import fixed_point
from int8tune.schedules.x86.residual import ResidualAddition

# 2^16 in binary32: beyond any output, within int32.
LARGE_BITS = 0x47800000


@dataclass(frozen=True, slots=True)
class Pixel:
    """Where a pixel's sums of one register group are, and where its bytes go.

    Attributes:
        sums: int32 vectors, one per register of the group.
        at: index in the output of the group's first channel.
    """

    sums: Sequence[Any]
    at: Any


class TileSums(Protocol):
    """The int32 sums of a tile: one vector for each (column, register); `rows` is how many registers there are."""

    @property
    def rows(self) -> int: ...
    def __getitem__(self, place: tuple[Any, int], /) -> Any: ...


@dataclass(frozen=True, slots=True)
class Epilogue:
    """Requantizes and stores; per-channel rescale values are in the order of the sums.

    Attributes:
        bounded: scales keep every product within int32.
    """

    vectors: X86Vectors
    numerics: Numerics
    arguments: Arguments
    bounded: bool

    def store_tile(
        self, sums: TileSums, columns: Sequence[Any], at: Callable[[Any], Any], channel: Any, valid: int
    ) -> None:
        """Requantize and store columns of a tile, each all its registers.

        Args:
            at: index in the output of a column's first channel.
            channel: index in `rescale` of the tile's first value.
            valid: how many of the tile's channels exist.
        """
        register, lanes = 0, self.vectors.lanes
        places = [at(column) for column in columns]
        for size in register_groups(sums.rows):
            pixels = [
                Pixel([sums[column, register + r] for r in range(size)], place + register * lanes)
                for column, place in zip(columns, places, strict=True)
            ]
            left = max(0, min(size * lanes, valid - register * lanes))
            self.store(pixels, channel + register * lanes, left)
            register += size

    def store(self, pixels: Sequence[Pixel], channel: Any, valid: int) -> None:
        """Requantize and store the same channels of some pixels.

        Args:
            pixels: of one register group; as many as fill four registers are packed at a time.
            channel: index in `rescale` of the group's first value.
            valid: how many of the group's channels exist; the others are not stored.
        """
        if self.numerics.requantize is None:
            self._store_sums(pixels, valid)
            return
        at_once = PACKED_REGISTERS // len(pixels[0].sums)
        for first in range(0, len(pixels), at_once):
            self._store_packed(pixels[first : first + at_once], channel, valid)

    def _store_packed(self, pixels: Sequence[Pixel], channel: Any, valid: int) -> None:
        """Requantize and store as many pixels as fill four registers, or fewer."""
        scaled = self._scaled(pixels, channel)
        if self.numerics.residual is None:
            packed = T.Bind(self._bytes([self._rounded(values) for values in scaled]))
        else:
            residual = self._residual(pixels, valid)
            addition = ResidualAddition(self.vectors, self.numerics, self.arguments.params, residual)
            packed = T.Bind(addition.add(scaled))
        for index, pixel in enumerate(pixels):
            order = self._byte_order(index, len(pixel.sums))[:valid]
            for offset, width in pieces(valid, 4 * self.vectors.lanes):
                wanted = order[offset : offset + width]
                value = packed if width == 4 * self.vectors.lanes else T.Shuffle([packed], wanted)
                store_vector(self.arguments.out, pixel.at + offset, value, width)

    def _scaled(self, pixels: Sequence[Pixel], channel: Any) -> list[Any]:
        """Four registers without zero point: by the float rule float32 that are not rounded yet, else int32."""
        requantize, lanes = self.numerics.requantize, self.vectors.lanes
        assert requantize is not None

        def factor(row: int, b: int) -> Any:
            """The values in this row of `rescale`, of register `b`."""
            if not requantize.per_channel:
                return T.broadcast(self.arguments.load_rescale(row, 0, 1), lanes)
            return self.arguments.load_rescale(row, channel + b * lanes, lanes)

        size = len(pixels[0].sums)
        # What is missing to four registers repeats the last pixel, and is not stored.
        filled = [pixels[min(index, len(pixels) - 1)] for index in range(PACKED_REGISTERS // size)]
        sums = [(pixel.sums[b], b) for pixel in filled for b in range(size)]
        match requantize.rule:
            case "float":
                return [T.cast(value, f"float32x{lanes}") * factor(0, b) for value, b in sums]
            case "fixed":
                return [fixed_point(value, factor(0, b), factor(1, b), lanes) for value, b in sums]
            case "fused":
                return [
                    scale_fused(self.vectors, value, partial(factor, b=b), exceptions=requantize.exceptions)
                    for value, b in sums
                ]
            case "fine":
                return [scale_fine(self.vectors, value, partial(factor, b=b)) for value, b in sums]

    def _rounded(self, values: Any) -> Any:
        """int32 values, saturated later, when they are packed."""
        assert self.numerics.requantize is not None
        if self.numerics.requantize.rule != "float":
            return values
        if self.bounded:
            return self.vectors.nearest_int(values)
        lanes = self.vectors.lanes
        # What does not fit an int32 would become its lowest value. Floats compare like their bits where one of them is
        # positive, and an integer minimum has more ports than one of floats.
        bounded = T.min(T.reinterpret(values, dtype=f"int32x{lanes}"), T.broadcast(T.int32(LARGE_BITS), lanes))
        return self.vectors.nearest_int(T.reinterpret(bounded, dtype=f"float32x{lanes}"))

    def _bytes(self, registers: Sequence[Any]) -> Any:
        """Four registers of int32 as one of output bytes, zero point added and clamped."""
        vectors, signed = self.vectors, self.numerics.output == "s8"
        zero_point = T.broadcast(T.cast(self.arguments.params[OUTPUT_ZERO_POINT], "int16"), 2 * vectors.lanes)
        halves = [
            vectors.add_saturated_16(vectors.pack_32_to_16(registers[i], registers[i + 1]), zero_point) for i in (0, 2)
        ]
        packed = vectors.pack_16_to_8(halves[0], halves[1], signed)
        return T.min(T.max(packed, self._bound(LOWEST)), self._bound(HIGHEST)) if self.numerics.clamp else packed

    def _bound(self, parameter: int) -> Any:
        """A clamp bound in every byte."""
        value = self.arguments.params[parameter] + self.arguments.params[OUTPUT_ZERO_POINT]
        return T.broadcast(T.cast(value, DTYPES[self.numerics.output]), 4 * self.vectors.lanes)

    def _residual(self, pixels: Sequence[Pixel], valid: int) -> Any:
        """The residual of some pixels' channels, in the order of the packed bytes."""
        buffer, count = self.arguments.residual, 4 * self.vectors.lanes
        parts = [
            T.Bind(buffer.vload([pixel.at + offset], f"{buffer.dtype}x{width}" if width > 1 else buffer.dtype))
            for pixel in pixels
            for offset, width in pieces(valid, count)
        ]
        size = len(pixels[0].sums)
        places = [place for pixel in range(len(pixels)) for place in self._byte_order(pixel, size)[:valid]]
        if places == list(range(count)):
            return parts[0]
        # Bytes that are not stored may have any value.
        order = dict.fromkeys(range(count), 0) | {place: index for index, place in enumerate(places)}
        filler = T.broadcast(T.int8(0) if buffer.dtype == "int8" else T.uint8(0), count)
        return T.Bind(T.Shuffle([*parts, filler], list(order.values())))

    def _byte_order(self, pixel: int, size: int) -> list[int]:
        """Where the packed bytes of one pixel are, by channel."""
        parts = range(self.vectors.lanes // 4)
        return [part * 16 + pixel * 4 * size + byte for part in parts for byte in range(4 * size)]

    def _store_sums(self, pixels: Sequence[Pixel], valid: int) -> None:
        lanes = self.vectors.lanes
        for pixel in pixels:
            size = len(pixel.sums)
            order = [b * lanes + part * 4 + i for part in range(lanes // 4) for b in range(size) for i in range(4)]
            for offset, width in pieces(valid, lanes):
                wanted = order[offset : offset + width]
                store_vector(self.arguments.out, pixel.at + offset, T.Shuffle(list(pixel.sums), wanted), width)
