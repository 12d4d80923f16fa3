"""Depthwise convolution on x86: the form that the kernel is written for.

Four vertical neighbours of a channel are one word of a dot product's data. A word serves several output rows, whose
weights are shifted within it: with a kernel of three rows and stride 1, the words of four input rows serve two output
rows. A tile covers a few rows and columns of one block of channels, one to four registers of sums for each pixel.
Neighbouring tiles of a row share words, so that each input column is interleaved once.

Weights that are not symmetric are made s8 or u8 by one of several means, see `Weights`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.space import Value
from int8tune.schedules.workload import DepthwiseConv2d
from int8tune.schedules.x86.channels import PACKED_REGISTERS, channel_order
from int8tune.schedules.x86.registers import TAPS, Registers

BLOCK_REGISTERS = (4, 2, 1)
# Dot products of one output value that are written one after the other; more of them are a loop.
MAX_UNROLLED_DOTS = 64


class Weights(Enum):
    """How weights become operands of a dot product of u8 and s8.

    SIGNED: s8 weights as they are, on u8 data.
    WIDE: the instruction takes 16 bits, so any weight minus its zero point is one operand.
    UNSIGNED: u8 weights as they are, as the unsigned operand of s8 data.
    CENTRED: weights minus their zero point where they are s8. Others have a zero point z of s8, and every sum begins
        with -z times the sum of its data. Rows of a tile that share words share that sum, in which all bytes of a word
        count; unused bytes have the weight z.
    """

    SIGNED = "signed"
    WIDE = "wide"
    UNSIGNED = "unsigned"
    CENTRED = "centred"


@dataclass(frozen=True, slots=True)
class Blocks:
    """Neighbouring blocks of channels that run the same code.

    Attributes:
        first: the first block's first channel.
        registers: of sums, for one pixel: 4, 2 or 1.
        position: of the first block's first channel in the bias and in per-channel rescale values.
        valid: channels of one block; fewer than its lanes only in a layer that has no more.
    """

    first: int
    count: int
    registers: int
    position: int
    valid: int


@dataclass(frozen=True, slots=True)
class Tiles:
    """Neighbouring tiles of one axis that run the same code: `count` of them, of `size` outputs, from `first` on.

    Attributes:
        inside: for each input position that a tile spans, whether it is in the image and not in its border. Columns
            that are shared with the tile before count as inside.
    """

    first: int
    count: int
    size: int
    inside: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class RowWords:
    """Where an output row of a tile finds its taps: words from input row `base` on, its first tap in byte `shift`."""

    base: int
    shift: int


@dataclass(frozen=True)
class DepthwiseForm:
    """A layer with its tiles; everything the kernel's writer needs.

    Attributes:
        outer: `channels` takes the whole image for one block of channels after the other, `image` all channels for one
            row of tiles; threads share the blocks, or the rows of tiles.
        border: `skip` puts pad values where words of the border are made, `copy` reads a larger copy of the image.
    """

    workload: DepthwiseConv2d
    registers: Registers
    tile_rows: int
    tile_columns: int
    outer: str
    border: str
    threads: int = 1

    # Operands.

    @cached_property
    def weights(self) -> Weights:
        numerics = self.workload.numerics
        if self.registers.parts > 1:
            return Weights.WIDE
        if numerics.weight_zero_point:
            return Weights.CENTRED
        return Weights.UNSIGNED if numerics.weight == "u8" else Weights.SIGNED

    @property
    def data_offset(self) -> int:
        signed = self.workload.numerics.data == "s8"
        if self.weights is Weights.UNSIGNED:
            return 0 if signed else -128
        return 128 if signed else 0

    @property
    def weight_offset(self) -> int:
        return -128 if self.weights is Weights.CENTRED and self.workload.numerics.weight == "u8" else 0

    # Channels.

    @property
    def lanes(self) -> int:
        return self.registers.lanes

    @cached_property
    def blocks(self) -> tuple[Blocks, ...]:
        """All channels, the widest blocks first; a last narrow one overlaps its neighbour."""
        channels, lanes = self.workload.out_channels, self.lanes
        found: list[Blocks] = []
        first = 0
        for size in BLOCK_REGISTERS:
            if count := (channels - first) // (size * lanes):
                found.append(Blocks(first, count, size, first, size * lanes))
                first += count * size * lanes
        if first < channels:
            found.append(Blocks(max(0, channels - lanes), 1, 1, first, min(lanes, channels)))
        return tuple(found)

    @cached_property
    def channels(self) -> npt.NDArray[np.int64]:
        """The output channel of each position."""
        parts = [
            blocks.first + index * blocks.registers * self.lanes + channel_order(blocks.registers, self.lanes).ravel()
            for blocks in self.blocks
            for index in range(blocks.count)
        ]
        return np.minimum(np.concatenate(parts), self.workload.out_channels - 1)

    @property
    def pixel_bytes(self) -> int:
        """From one pixel to the next in what is read; a block's channels never reach beyond it."""
        return max(self.workload.out_channels, self.lanes) if self.copies else self.workload.channels

    # Rows.

    @property
    def output(self) -> tuple[int, int]:
        return self.workload.window.output_size(self.workload.height, self.workload.width)

    @property
    def copies(self) -> bool:
        return self.border == "copy"

    @cached_property
    def row_tiles(self) -> tuple[Tiles, ...]:
        return self._tiles(0, self.tile_rows, frozenset())

    @property
    def words(self) -> int:
        """Words that cover one column of the kernel."""
        return math.ceil(self.workload.window.kernel[0] / TAPS)

    def row_words(self, rows: int) -> tuple[RowWords, ...]:
        """For each output row of a tile, the words it takes: those of the row above where they hold its taps, too."""
        window = self.workload.window
        slack = self.words * TAPS - window.kernel[0]
        found, base = [], 0
        for row in range(rows):
            shift, rest = divmod(row * window.stride[0] - base, window.dilation[0])
            if rest or shift > slack:
                base, shift = row * window.stride[0], 0
            found.append(RowWords(base, shift))
        return tuple(found)

    # Columns.

    def columns_read(self, columns: int) -> frozenset[int]:
        """The input columns of a tile of some output columns, counted from its first one."""
        return self._read(1, columns)

    def rows_read(self, rows: int) -> frozenset[int]:
        """The input rows of a tile of some output rows, counted from its first one."""
        return self._read(0, rows)

    @cached_property
    def shared_columns(self) -> frozenset[int]:
        """Input columns of a tile whose words the tile before has made."""
        if self.output[1] <= self.tile_columns or not self.unrolled:
            return frozenset()
        read, step = self.columns_read(self.tile_columns), self.tile_columns * self.workload.window.stride[1]
        return frozenset(column for column in read if column + step in read)

    @cached_property
    def column_tiles(self) -> tuple[Tiles, ...]:
        return self._tiles(1, self.tile_columns, self.shared_columns)

    @cached_property
    def first_columns(self) -> Tiles:
        """The first tile of a row, whose shared columns nobody has made yet."""
        return self._tiles(1, self.tile_columns, frozenset())[0]

    @property
    def unrolled(self) -> bool:
        return self.words * self.workload.window.kernel[1] <= MAX_UNROLLED_DOTS

    def columns_at_once(self, registers: int, rows: int) -> int:
        """Columns of a tile whose sums are in registers at the same time: what fills the registers that are packed.

        Two columns share most of the sums that centre weights.
        """
        return max(2 if self.weights is Weights.CENTRED else 1, PACKED_REGISTERS // (registers * rows))

    # Weights.

    @property
    def border_taps(self) -> npt.NDArray[np.bool_]:
        """All: the border is filled."""
        return np.ones((1, math.prod(self.workload.window.kernel)), bool)

    @cached_property
    def shifts(self) -> tuple[int, ...]:
        return tuple(sorted({words.shift for words in self.row_words(self.tile_rows)}))

    @property
    def _operands_per_register(self) -> int:
        return len(self.shifts) * self.words * self.workload.window.kernel[1]

    def first_weight(self, blocks: Blocks, k: Any) -> Any:
        """Index of the first operand of block `k` of these blocks."""
        return (blocks.position // self.lanes + k * blocks.registers) * self._operands_per_register

    def weight_index(self, blocks: Blocks, shift: int, word: int, column: int) -> int:
        """Index of the operand for the first register, counted from the block's first one; the others' follow."""
        vector = (self.shifts.index(shift) * self.words + word) * self.workload.window.kernel[1] + column
        return vector * blocks.registers

    @property
    def weight_length(self) -> int:
        return len(self.channels) // self.lanes * self._operands_per_register * self.registers.weight_bytes

    def pack(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> npt.NDArray[np.int8]:
        """Weights [OC, KH, KW] block by block: [shifts, words, KW, registers, lanes, taps]."""
        rows, columns = self.workload.window.kernel
        moved, filler = self._operands(weight.astype(np.int16), zero_point)
        pads = [((0, 0), (shift, self.words * TAPS - rows - shift), (0, 0)) for shift in self.shifts]
        sets = np.stack([np.pad(moved, pad, constant_values=filler) for pad in pads])
        words = sets.reshape(len(sets), -1, self.words, TAPS, columns)[:, self.channels].transpose(1, 0, 2, 4, 3)
        parts = []
        for blocks in self.blocks:
            size = blocks.registers * self.lanes
            part = words[blocks.position : blocks.position + blocks.count * size]
            part = part.reshape(blocks.count, blocks.registers, self.lanes, *part.shape[1:])
            parts.append(self.registers.pack(part.transpose(0, 3, 4, 5, 1, 2, 6)))
        return np.concatenate(parts)

    def packed_zero_point(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> int:
        """0 for weights that are s8 without their zero point: a kernel that centres others has code for them, too."""
        centred = weight.astype(np.int16) - np.int16(zero_point)
        if self.weights is Weights.CENTRED and centred.min() >= LOWEST_WEIGHT and centred.max() <= HIGHEST_WEIGHT:
            return 0
        return zero_point + self.weight_offset

    def _operands(self, weight: npt.NDArray[np.int16], zero_point: int) -> tuple[npt.NDArray[np.int16], int]:
        """The weights as operands, and what unused bytes of words get."""
        if self.weights is Weights.WIDE or self.packed_zero_point(weight, zero_point) == 0:
            return weight - np.int16(zero_point), 0
        moved, filler = weight + np.int16(self.weight_offset), zero_point + self.weight_offset
        # Minus -128 is no s8, but all weights minus -128 are u8.
        return (moved - np.int16(filler), 0) if filler == LOWEST_WEIGHT else (moved, filler)

    def _read(self, axis: int, outputs: int) -> frozenset[int]:
        window = self.workload.window
        taps = range(window.kernel[axis])
        return frozenset(i * window.stride[axis] + t * window.dilation[axis] for i in range(outputs) for t in taps)

    def _tiles(self, axis: int, size: int, shared: frozenset[int]) -> tuple[Tiles, ...]:
        window, extent = self.workload.window, (self.workload.height, self.workload.width)[axis]
        outputs, before = self.output[axis], window.padding[axis]

        def code(first: int) -> tuple[int, tuple[bool, ...]]:
            count, start = min(size, outputs - first), first * window.stride[axis] - before
            span = range(max(self._read(axis, count)) + 1)
            return count, tuple(self.copies or i in shared or 0 <= start + i < extent for i in span)

        groups = ((key, list(same)) for key, same in itertools.groupby(range(0, outputs, size), code))
        return tuple(Tiles(same[0], len(same), *key) for key, same in groups)


LOWEST_WEIGHT, HIGHEST_WEIGHT = -128, 127


def depthwise_form(
    workload: DepthwiseConv2d, registers: Registers, config: Mapping[str, Value], threads: int
) -> DepthwiseForm:
    """The form of one config."""
    rows, columns = int(config["tile_rows"]), int(config["tile_columns"])
    return DepthwiseForm(workload, registers, rows, columns, str(config["outer"]), str(config["border"]), threads)
