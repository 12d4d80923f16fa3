"""First layers on a GPU, of few channels: the form that the kernel is written for.

A block has a tile of outputs. The part of the image that their windows read lies in shared memory as it is, row by row,
zeros where it is outside. It is copied there 16, 8 or 4 bytes at a time where no such piece is partly outside, else put
together from words around it. A row of a window is one run of bytes there, with three channels at any place of a
word: a thread loads the words around it and shifts them (PRMT), and has in its registers what tensor cores take for
data, without any copy of windows.

The depth of a product is a matter of who has it: the four threads that share an output's row have every fourth row of
its window each, filled up to whole words, and the weights are packed in that order. What is read beyond a row of a
window, or instead of a row that does not exist, meets weights that are zero.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.cuda.channel_order import WARP_CHANNELS, packed, row_of_channel
from int8tune.schedules.cuda.factors import factor_rows, factor_words
from int8tune.schedules.cuda.image_form import ImageForm
from int8tune.schedules.gpus import WARP, WORD_BYTES
from int8tune.schedules.image import Image
from int8tune.schedules.space import Value

# Bytes of the depth, and outputs, of one product; the outputs of a lane.
MATRIX_BYTES, MATRIX_OUTPUTS, LANE_OUTPUTS = 32, 16, 2
# Lanes that share the depth of an output.
SHARING = 4
# Words between rows of the image in shared memory, of 32 banks: so that four rows begin in banks of their own.
BANKS, ROW_BANKS = 32, 8


@dataclass(frozen=True)
class FirstForm(ImageForm):
    """An image of few channels with a block's tile; everything the kernel's writer needs.

    Attributes:
        products: `mma`, matrices of a warp; `wgmma`, of four warps.
        tile_rows, tile_columns: of a block's outputs.
        bands: of 16 outputs beside each other, which a warp multiplies together.
        block_channels: of a block.
    """

    image: Image
    products: str
    tile_rows: int
    tile_columns: int
    bands: int
    block_channels: int
    threads: int
    data_offset: int = 0

    @property
    def warps(self) -> int:
        return self.threads // WARP

    @property
    def turns(self) -> int:
        """How often a warp multiplies."""
        return self.tile_rows * self.tile_columns // (MATRIX_OUTPUTS * self.warps * self.bands)

    @property
    def pixel_bytes(self) -> int:
        """From one output's window to the next one's."""
        return self.image.window.stride[1] * self.image.channels

    @property
    def copied_bytes(self) -> int:
        """Bytes that are copied to shared memory at once, as they lie in memory; 1 where these are put together."""
        lengths = self.image.width * self.image.channels, MATRIX_OUTPUTS * self.pixel_bytes
        return next((size for size in (16, 8, 4) if not any(length % size for length in lengths)), 1)

    @property
    def phase(self) -> int:
        """Bytes before the window of a tile's first output, in its row in shared memory."""
        return -self.image.window.padding[1] * self.image.channels % self.copied_bytes

    @property
    def is_aligned(self) -> bool:
        """Whether the window of each output begins with a word."""
        return self.pixel_bytes % WORD_BYTES == 0 and self.phase % WORD_BYTES == 0

    @property
    def row_bytes(self) -> int:
        """Bytes of a window's row."""
        return self.image.window.kernel[1] * self.image.channels

    @property
    def row_words(self) -> int:
        return math.ceil(self.row_bytes / WORD_BYTES)

    @property
    def lane_rows(self) -> int:
        """Rows of a window that a lane has."""
        return math.ceil(self.image.window.kernel[0] / SHARING)

    @property
    def lane_words(self) -> int:
        return self.lane_rows * self.row_words

    @property
    def matrices(self) -> int:
        """Products that the depth takes: two words of each lane."""
        return math.ceil(self.lane_words / 2)

    @property
    def depth(self) -> int:
        """Bytes of the depth, with what fills it up."""
        return self.matrices * MATRIX_BYTES

    @property
    def block_depth(self) -> int:
        """Bytes of weights that lie beside each other in shared memory."""
        return MATRIX_BYTES * math.gcd(self.matrices, 4)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights of a block's channels."""
        return self.block_channels * self.depth

    @property
    def patch_rows(self) -> int:
        """Rows of the image that a block reads."""
        window = self.image.window
        return (self.tile_rows - 1) * window.stride[0] + (window.kernel[0] - 1) * window.dilation[0] + 1

    @property
    def patch_words(self) -> int:
        """Words of each row that a block reads: one more than a window has, where windows begin within words."""
        last = ((self.tile_columns - 1) * self.pixel_bytes + self.phase) // WORD_BYTES
        words, unit = last + self.row_words + (not self.is_aligned), max(1, self.copied_bytes // WORD_BYTES)
        return math.ceil(words / unit) * unit

    @property
    def pitch_words(self) -> int:
        """Words from a row of the image to the next one in shared memory: those of four lanes begin in other banks."""
        return next(
            words for words in itertools.count(self.patch_words) if words % BANKS in (ROW_BANKS, BANKS - ROW_BANKS)
        )

    @property
    def factors_at(self) -> int:
        """Where biases and rescale values begin in shared memory, in bytes: behind weights and image."""
        return self.weight_bytes + self.patch_rows * self.pitch_words * WORD_BYTES

    @property
    def shared_bytes(self) -> int:
        words = factor_words(self.image.numerics, self.border_classes, self.block_channels)
        return self.factors_at + words * WORD_BYTES

    @property
    def reads_words(self) -> bool:
        """Whether the image is read as words: not where its last one is cut off."""
        return self.image_bytes % WORD_BYTES == 0

    @property
    def row_tiles(self) -> int:
        return math.ceil(self.image.output[0] / self.tile_rows)

    @property
    def column_tiles(self) -> int:
        return math.ceil(self.image.output[1] / self.tile_columns)

    @property
    def tiles(self) -> int:
        """Tiles of all outputs."""
        return self.image.batch * self.row_tiles * self.column_tiles

    @property
    def channel_tiles(self) -> int:
        return math.ceil(self.image.out_channels / self.block_channels)

    @property
    def blocks(self) -> int:
        return self.tiles * self.channel_tiles

    def grid(self, multiprocessors: int) -> tuple[int, ...]:  # noqa: ARG002
        """Blocks along each axis: one for each tile of outputs and of channels."""
        return self.tiles, self.channel_tiles

    @property
    def thread_channels(self) -> int:
        return self.block_channels // WARP_CHANNELS

    @property
    def run(self) -> int:
        """Neighbouring channels of a thread: as many as it stores at once."""
        return self.items_at_once(self.thread_channels, are_sums=False)

    @property
    def store_width(self) -> int:
        """Neighbouring outputs that are stored at once."""
        return math.gcd(self.image.out_channels, self.run)

    @property
    def registers(self) -> int:
        """About as many as a thread needs: sums, words of data, a row's values for the epilogue, and addresses."""
        data = 4 * self.matrices * self.bands
        weights = self.thread_channels if self.products == "mma" else 0
        own = (LANE_OUTPUTS * self.bands + factor_rows(self.image.numerics)) * self.thread_channels
        return own + max(data + weights, 2 * self.run) + 40

    @cached_property
    def channels(self) -> npt.NDArray[np.int64]:
        """The output channel of each position, the last one repeated."""
        return np.minimum(np.arange(self.channel_tiles * self.block_channels), self.image.out_channels - 1)

    @property
    def weight_length(self) -> int:
        return len(self.channels) * self.depth

    @property
    def weight_order(self) -> tuple[Any, ...]:
        """Forms of a layer for which this is the same pack weights the same way."""
        return (self.block_channels,)

    def pack(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> npt.NDArray[np.int8]:  # noqa: ARG002
        """Weights [OC, KH, KW, C] as [channel tiles, steps, rows, chunks, 16], in the order of lanes' words."""
        rows = weight.reshape(len(weight), self.image.window.kernel[0], self.row_bytes)
        missing = self.lane_rows * SHARING - rows.shape[1], self.row_words * WORD_BYTES - self.row_bytes
        filled = np.pad(rows, [(0, 0), (0, missing[0]), (0, missing[1])])
        # A lane's words are its rows' one after the other; two of them go into each product.
        of_lanes = filled.reshape(len(rows), self.lane_rows, SHARING, -1).transpose(0, 2, 1, 3)
        lanes = of_lanes.reshape(len(rows), SHARING, -1)
        lanes = np.pad(lanes, [(0, 0), (0, 0), (0, self.matrices * 2 * WORD_BYTES - lanes.shape[2])])
        words = lanes.reshape(len(rows), SHARING, self.matrices, 2, WORD_BYTES).transpose(0, 2, 3, 1, 4)
        deep = words.reshape(len(rows), self.depth)[self.channels]
        return packed(deep, self.block_channels, self.block_depth, self._row_of_channel)

    def _row_of_channel(self, channel: int) -> int:
        return row_of_channel(channel, self.thread_channels, self.run)


def first_form(image: Image, config: Mapping[str, Value]) -> FirstForm:
    """The form of one config."""
    sizes = (int(config[name]) for name in ("tile_rows", "tile_columns", "bands", "block_channels", "threads"))
    return FirstForm(image, str(config["products"]), *sizes)
