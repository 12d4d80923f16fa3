"""conv2d and dense on ARM by blocks of channels: the form that the kernel is written for.

A product of two registers multiplies 16 channels of one column by those of one output channel: a sum of four lanes,
which are added in the end. The kernel reads a copy of the image in blocks of 16 channels, in each the columns beside
each other: so one LD1 loads the data of all columns of a tile. Where windows are some columns apart, columns with the
same remainder (a phase) are neighbours.

A tile covers `tile_columns` outputs of a row times `tile_channels` output channels. Of these, `step_channels` are
summed in registers at a time; all of a tile's sums are requantized together. The last columns of a row are a tile of
their own; the last tile of channels overlaps its neighbour.

A sum is taken in turns of some steps each, a step being a block at one tap. Its weights of -128 are split in two parts
(`schedules.arm.tiling`): the first parts of all of a tile's channels stand before the second ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.arm.tiled_image import TiledImage
from int8tune.schedules.arm.tiling import HALF_BYTES, HEADER_BYTES, LANES, REGISTER_BYTES, split_weights, tiled_channels
from int8tune.schedules.image import Image

# Channels of a block, each a byte of a register.
BLOCK = REGISTER_BYTES
PARTS = 2
# Registers of sums that leave enough of the 32 for operands and products; and for weights by fours.
MOST_BLOCK_SUMS, FEW_BLOCK_SUMS = 16, 12
# Registers that one instruction loads.
MOST_TOGETHER = 4
# Output channels of one column, and columns, whose data and weights LLVM keeps in registers.
MOST_STEP_CHANNELS, MOST_COLUMNS = 12, 3


@dataclass(frozen=True)
class BlockedForm(TiledImage):
    """An image in blocks with its register tile; everything the kernel's writer needs.

    Attributes:
        outer: `weights` keeps a tile's weights for the whole image, `image` takes all weights tile by tile; threads
            share the outer loop.
        unroll: steps of the reduction that one turn of the loop may have, a step being a block at one tap.
    """

    image: Image
    tile_columns: int
    tile_channels: int
    outer: str
    unroll: int
    threads: int = 1

    @property
    def products(self) -> str:
        return "c8"

    @property
    def step_channels(self) -> int:
        """Output channels whose sums are in registers at a time."""
        fitting = [
            channels
            for channels in range(LANES, MOST_STEP_CHANNELS + 1, LANES)
            if self.tile_channels % channels == 0 and channels * self.tile_columns <= MOST_BLOCK_SUMS
        ]
        return max(fitting, default=LANES)

    @property
    def steps_of_tile(self) -> int:
        return self.tile_channels // self.step_channels

    @property
    def weights_together(self) -> int:
        """Registers of weights that are loaded together."""
        is_small = self.sums <= FEW_BLOCK_SUMS and self.step_channels < MOST_STEP_CHANNELS
        return MOST_TOGETHER if is_small else MOST_TOGETHER // 2

    @property
    def loads_of_step(self) -> int:
        return math.ceil(self.tile_columns / MOST_TOGETHER) + math.ceil(self.step_channels / self.weights_together)

    @property
    def sums(self) -> int:
        """Registers of sums of a tile."""
        return self.tile_columns * self.step_channels

    @property
    def data_offset(self) -> int:
        return -128 if self.image.numerics.data == "u8" else 0

    @property
    def copies(self) -> bool:
        return True

    @property
    def blocks(self) -> int:
        """Blocks of a group's channels."""
        return math.ceil(self.image.group_channels / BLOCK)

    def is_half(self, block: int) -> bool:
        """Whether a block of a turn is known to have no more than half its channels."""
        left = self.image.group_channels - block * BLOCK
        return self.blocks_of_turn == self.blocks and left <= HALF_BYTES

    @property
    def rows_of_turn(self) -> int:
        """Rows of the kernel in one turn of the loop over blocks: all, or one."""
        rows, columns = self.image.window.kernel
        return rows if rows * columns <= self.unroll else 1

    @property
    def blocks_of_turn(self) -> int:
        most = self.unroll // (self.rows_of_turn * self.image.window.kernel[1])
        return max((count for count in range(1, most + 1) if self.blocks % count == 0), default=1)

    @property
    def turns(self) -> int:
        """Turns that one part of a sum takes."""
        return self.image.window.kernel[0] // self.rows_of_turn * (self.blocks // self.blocks_of_turn)

    @property
    def steps_of_turn(self) -> int:
        return self.blocks_of_turn * self.rows_of_turn * self.image.window.kernel[1]

    @property
    def begins_sums(self) -> bool:
        """Whether a sum's first turn is written once more, for itself, which spares the sum its zero.

        By trial: with two copies of other turns, LLVM keeps what one hands over to the next in memory.
        """
        return self.turns == 1 and not 4 < self.steps_of_turn < 9

    @property
    def step_bytes(self) -> int:
        """Memory of the weights of one step."""
        return self.step_channels * BLOCK

    @property
    def turn_bytes(self) -> int:
        """Memory of the weights of one turn."""
        return self.steps_of_turn * self.step_bytes

    @property
    def part_bytes(self) -> int:
        """Memory of one part of a tile's weights."""
        return self.steps_of_tile * self.turns * self.turn_bytes

    @property
    def tile_bytes(self) -> int:
        return HEADER_BYTES + PARTS * self.part_bytes

    @property
    def weight_length(self) -> int:
        return self.image.groups * self.channel_tiles * self.tile_bytes

    @property
    def border_taps(self) -> npt.NDArray[np.bool_]:
        return np.ones((1, math.prod(self.image.window.kernel)), bool)

    @cached_property
    def channels(self) -> npt.NDArray[np.int64]:
        """The output channel of each position: [groups * channel tiles * tile channels]."""
        return tiled_channels(self.image.groups, self.image.group_outputs, self.tile_channels)

    @property
    def is_pointwise(self) -> bool:
        """Whether windows are single pixels: no two tiles share one, so each tile has its data in one piece."""
        return self.image.window.kernel == (1, 1) and not any(self.image.window.padding)

    @property
    def row_step(self) -> int:
        """Rows of the image from one row of the copy to the next; between them are none that the kernel reads."""
        return self.image.window.stride[0] if self.image.window.kernel[0] == 1 else 1

    @property
    def rows(self) -> int:
        """Rows of the copy, of one image."""
        window = self.image.window
        span = (self.image.output[0] - 1) * window.stride[0] + (window.kernel[0] - 1) * window.dilation[0]
        return span // self.row_step + 1

    @property
    def phases(self) -> tuple[int, ...]:
        """Remainders of the columns that the kernel reads."""
        window = self.image.window
        return tuple(sorted({tap * window.dilation[1] % window.stride[1] for tap in range(window.kernel[1])}))

    @property
    def columns(self) -> int:
        """Columns of one phase in a row of the copy."""
        window = self.image.window
        return self.image.output[1] + (window.kernel[1] - 1) * window.dilation[1] // window.stride[1]

    @property
    def row_bytes(self) -> int:
        """Memory of a row of the copy: of all blocks of its pixels, or of one block."""
        return len(self.phases) * self.columns * BLOCK * (self.blocks if self.is_pointwise else 1)

    @property
    def group_bytes(self) -> int:
        """Memory of one group of an image's channels."""
        return self.rows * len(self.phases) * self.columns * BLOCK * self.blocks

    @property
    def column_bytes(self) -> int:
        """From a tile's first column to that of its neighbour, for each column of it."""
        return BLOCK * (self.blocks if self.is_pointwise else 1)

    def block_bytes(self, tile_columns: int) -> int:
        """From a block of a tile's data to the next one."""
        return tile_columns * BLOCK if self.is_pointwise else self.rows * self.row_bytes

    def tap_at(self, row: Any, column: int) -> Any:
        """Where the data of a tap begins, from where that of the first tap does."""
        window = self.image.window
        place, phase = divmod(column * window.dilation[1], window.stride[1])
        return row * window.dilation[0] * self.row_bytes + (self.phases.index(phase) * self.columns + place) * BLOCK

    def pack(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> npt.NDArray[np.int8]:
        """Weights [OC, KH, KW, C / groups] or [OC, K]: tiles, each of a header, then all steps in order."""
        values = weight.astype(np.int16) - np.int16(zero_point)
        (rows, columns), channels = self.image.window.kernel, self.image.group_channels
        taps = values.reshape(self.image.out_channels, rows, columns, channels)
        padded = np.pad(taps, [(0, 0), (0, 0), (0, 0), (0, self.blocks * BLOCK - channels)])
        of_rows = rows // self.rows_of_turn, self.rows_of_turn
        sums = self.steps_of_tile, self.step_channels
        tiles = padded[self.channels].reshape(-1, *sums, *of_rows, columns, self.blocks, BLOCK)
        # The loop over rows, blocks, rows and columns of a turn, output channels.
        steps = tiles.transpose(0, 1, 3, 6, 4, 5, 2, 7)
        return split_weights(steps.reshape(len(steps), -1))

    def packed_zero_point(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> int:  # noqa: ARG002
        """Nothing is left of it: packed weights are without."""
        return 0
