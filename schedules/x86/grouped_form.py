"""Grouped convolutions with narrow groups on x86: the form that the kernel is written for.

Lanes run over the output channels of neighbouring groups, so that narrow groups fill a register. The data of a dot
product has in each lane a word, four bytes, of that lane's group: the tile's groups are loaded as they lie in memory,
and their words are permuted in registers. A permuted vector serves all outputs of the tile that read its pixel.

Groups of a number of channels that four does not divide are copied, each one padded to whole words; a word of a group
of one or two channels has several neighbouring taps of a row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.arguments import has_weight_zero_point
from int8tune.schedules.border import BorderClasses
from int8tune.schedules.image import Image
from int8tune.schedules.space import Value
from int8tune.schedules.tiles import largest_share
from int8tune.schedules.x86.channels import channel_order
from int8tune.schedules.x86.conv_form import ColumnTiles, ConvForm
from int8tune.schedules.x86.registers import TAPS, Registers


@dataclass(frozen=True, slots=True)
class GroupWords:
    """What a group reads of one pixel, in words of four bytes.

    Attributes:
        channels: input channels of a group.
        taps: neighbouring taps of a kernel row in one word.
        steps: groups of `taps` taps that cover a kernel row.
    """

    channels: int
    taps: int
    steps: int

    @property
    def count(self) -> int:
        """Words of one group and step."""
        return math.ceil(self.channels * self.taps / TAPS)

    @property
    def as_in_memory(self) -> bool:
        """Whether words are what lies in memory, and not packed by a copy."""
        return self.channels % TAPS == 0


def group_words(channels: int, kernel_columns: int) -> GroupWords:
    """The words of a group; as few steps as possible, and of their taps as few as possible beyond the kernel."""
    most = max(1, TAPS // channels)
    steps = math.ceil(kernel_columns / most)
    return GroupWords(channels, math.ceil(kernel_columns / steps), steps)


@dataclass(frozen=True)
class GroupedForm:
    """An image with its register tile; everything the kernel's writer needs.

    A tile has whole groups. Where tiles do not divide the groups, the last one starts earlier and overlaps its
    neighbour; where groups do not fill a tile's registers, the last lanes repeat the tile's last channel.

    Attributes:
        order: `words` takes a word of each group for all registers, `registers` all words for one register.
        outer, border, fetch, data_offset, weight_offset, threads: as in `schedules.x86.conv_form.ConvForm`.
    """

    image: Image
    registers: Registers
    tile_columns: int
    tile_registers: int
    outer: str
    border: str
    order: str
    fetch: str = "demand"
    data_offset: int = 0
    weight_offset: int = 0
    threads: int = 1

    @property
    def output(self) -> tuple[int, int]:
        return self.image.output

    @property
    def lanes(self) -> int:
        return self.registers.lanes

    @cached_property
    def words(self) -> GroupWords:
        return group_words(self.image.group_channels, self.image.window.kernel[1])

    @property
    def tile_groups(self) -> int:
        """Groups of one tile."""
        return min(self.tile_registers * self.lanes // self.image.group_outputs, self.image.groups)

    @property
    def tile_outputs(self) -> int:
        """Output channels of one tile."""
        return self.tile_groups * self.image.group_outputs

    @property
    def tile_rows(self) -> int:
        return 1

    @property
    def channel_tiles(self) -> int:
        return math.ceil(self.image.groups / self.tile_groups)

    @property
    def copies(self) -> bool:
        """Whether the kernel reads a copy of the image."""
        bordered = any(self.image.window.padding) or self.data_offset != 0
        return not self.words.as_in_memory or (self.border == "copy" and bordered)

    @property
    def pixel_bytes(self) -> int:
        """Bytes from one pixel to the next in what the kernel reads."""
        return self.image.groups * self.words.count * TAPS

    @property
    def has_window_sum(self) -> bool:
        return has_weight_zero_point(self.image.numerics, self.weight_offset)

    # Rows and columns: what a convolution without groups has.

    @property
    def tiles_of_a_row(self) -> int:
        return sum(tiles.count for tiles in self.column_tiles)

    @property
    def column_tiles(self) -> tuple[ColumnTiles, ...]:
        return self._geometry.column_tiles

    @property
    def row_classes(self) -> BorderClasses:
        return self._geometry.row_classes

    @property
    def column_classes(self) -> BorderClasses:
        return self._geometry.column_classes

    @property
    def border_taps(self) -> npt.NDArray[np.bool_]:
        return self._geometry.border_taps

    @property
    def inside_share(self) -> float:
        """Share of the taps that are inside the image or its copied border, the only ones to be multiplied."""
        return self._geometry.inside_share

    @cached_property
    def _geometry(self) -> ConvForm:
        return ConvForm(
            self.image, self.registers, self.tile_columns, self.tile_registers, self.outer, self.border, unroll=1
        )

    # Data.

    @property
    def span(self) -> int:
        """Words of one tile's groups in one pixel."""
        return self.tile_groups * self.words.count

    @cached_property
    def vector_starts(self) -> tuple[int, ...]:
        """The words at which the vectors begin that hold the span; the last one overlaps its neighbour."""
        count = math.ceil(self.span / self.lanes)
        return tuple(max(0, min(index * self.lanes, self.span - self.lanes)) for index in range(count))

    @cached_property
    def loads(self) -> tuple[tuple[int, ...], int]:
        """The words at which a pixel's loads begin, and the words of one load: nothing is read beyond the span.

        A copy has room behind it, and is read in whole vectors.
        """
        if self.copies or self.span >= self.lanes:
            return self.vector_starts, self.lanes
        width = 1 << (self.span.bit_length() - 1)
        return tuple(sorted({0, self.span - width})), width

    def lane_words(self, register: int, step: int) -> tuple[int, ...]:
        """The word of the span that each lane multiplies in step `step` of its group's words."""
        groups = self._positions[register] // self.image.group_outputs
        return tuple((groups * self.words.count + step).tolist())

    def reads(self, tiles: ColumnTiles) -> dict[int, list[tuple[int, int]]]:
        """The (column of the tile, step of a kernel row) that read each input column, counted from the tile's first."""
        window = self.image.window
        found: dict[int, list[tuple[int, int]]] = {}
        for column in range(self.tile_columns):
            for step in range(self.words.steps):
                tap = step * self.words.taps
                if tiles.inside[tap][column]:
                    at = column * window.stride[1] + tap * window.dilation[1]
                    found.setdefault(at, []).append((column, step))
        return dict(sorted(found.items()))

    @property
    def pixels(self) -> int:
        """Pixels that one tile reads in one row of the image."""
        window, words = self.image.window, self.words
        taps = [step * words.taps * window.dilation[1] for step in range(words.steps)]
        return len({column * window.stride[1] + tap for column in range(self.tile_columns) for tap in taps})

    def ones(self, step: int) -> int:
        """A word of ones, as far as it has taps of the kernel in step `step` of a row; padding is zero in the data."""
        taps = min(self.words.taps, self.image.window.kernel[1] - step * self.words.taps)
        used = TAPS if self.words.taps == 1 else taps * self.words.channels
        return int.from_bytes(bytes([1] * used + [0] * (TAPS - used)), "little")

    @property
    def rounds(self) -> tuple[tuple[int, range], ...]:
        """(word of a group, registers) whose products are added together, one after the other in each kernel row."""
        words, registers = range(self.words.count), range(self.tile_registers)
        if self.order == "words":
            return tuple((word, registers) for word in words)
        return tuple((word, range(register, register + 1)) for register in registers for word in words)

    @property
    def dots(self) -> int:
        """Dot products of one tile and kernel row, those of window sums left out."""
        return self.tile_columns * self.tile_registers * self.words.count * self.words.steps

    @property
    def largest_share(self) -> int:
        """Tiles of the thread that has most of them."""
        rows = self.image.batch * self.image.output[0]
        return largest_share(self.outer == "weights", self.threads, self.channel_tiles, rows, self.tiles_of_a_row)

    # Weights and channels.

    @cached_property
    def channels(self) -> npt.NDArray[np.int64]:
        """The output channel of each position: [channel tiles * registers * lanes]."""
        tiles = np.arange(self.channel_tiles)
        first = np.minimum(tiles * self.tile_groups, self.image.groups - self.tile_groups) * self.image.group_outputs
        return (first[:, None, None] + self._positions).reshape(-1)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """[channel tiles, KH, words of a group, steps of a kernel row, registers, bytes]."""
        reduction = (self.image.window.kernel[0], self.words.count, self.words.steps)
        return (self.channel_tiles, *reduction, self.tile_registers, self.registers.weight_bytes)

    @property
    def blocks(self) -> int:
        return self.channel_tiles

    @property
    def block_bytes(self) -> int:
        """Bytes of the weights of a tile of channels."""
        return math.prod(self.weight_shape[1:])

    @property
    def tiles_of_block(self) -> int:
        """Tiles that take the same weights."""
        return self.image.batch * self.output[0] * self.tiles_of_a_row

    @property
    def steps_of_fetch(self) -> float:
        """Kernel rows of an average tile, beside which weights can be fetched."""
        return self.image.window.kernel[0] * self.inside_share

    def weight_index(self, tile: Any, row: Any, word: int, step: int, register: int) -> Any:
        """Where an operand of weights is, counted in operands."""
        _, rows, words, steps, registers, _ = self.weight_shape
        return (tile * rows + row) * (words * steps * registers) + (word * steps + step) * registers + register

    def pack(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> npt.NDArray[np.int8]:  # noqa: ARG002
        """Weights [OC, KH, KW, C / groups] in the order of `weight_shape`, zeros where words have no tap or channel."""
        words, (rows, columns) = self.words, self.image.window.kernel
        shifted = weight.astype(np.int16) + self.weight_offset
        steps = np.pad(shifted, [(0, 0), (0, 0), (0, words.steps * words.taps - columns), (0, 0)])
        steps = steps.reshape(self.image.out_channels, rows, words.steps, words.taps * words.channels)
        steps = np.pad(steps, [(0, 0)] * 3 + [(0, words.count * TAPS - steps.shape[3])])[self.channels]
        shape = (self.channel_tiles, self.tile_registers, self.lanes, rows, words.steps, words.count, TAPS)
        return self.registers.pack(steps.reshape(shape).transpose(0, 3, 5, 4, 1, 2, 6))

    def packed_zero_point(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> int:  # noqa: ARG002
        return zero_point + self.weight_offset

    @cached_property
    def _positions(self) -> npt.NDArray[np.int64]:
        """The channel of each lane, [registers, lanes], counted from the first one of the tile."""
        return np.minimum(channel_order(self.tile_registers, self.lanes), self.tile_outputs - 1)


def grouped_form(
    image: Image, registers: Registers, config: Mapping[str, Value], offsets: tuple[int, int], threads: int
) -> GroupedForm:
    """The form of one config."""
    return GroupedForm(
        image,
        registers,
        tile_columns=int(config["tile_columns"]),
        tile_registers=int(config["tile_registers"]),
        outer=str(config["outer"]),
        border=str(config["border"]),
        order=str(config["order"]),
        fetch=str(config["fetch"]),
        data_offset=offsets[0],
        weight_offset=offsets[1],
        threads=threads,
    )
