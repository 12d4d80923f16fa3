"""Depthwise convolutions on a GPU: the form that the kernel is written for.

A thread has a tile of `tile_rows` x `tile_columns` outputs of four neighbouring channels. It goes through the columns
of the image that the tile reads. Of a column it loads a word of four channels from each row, and turns four such words
into one word of four rows for each channel (PRMT). Such a word is multiplied (DP4A) for each output that reads it, with
weights that are zero for the rows which that output does not read. So a word serves the outputs beside each other and,
where rows are left, those below each other.

Where the weights and the stride let it, a tile may go down the image, two rows of the image a step, and load the next
two while it multiplies: half of a step's words it has already (`depthwise_walk_kernel`). What lies in the border then
has the value of a zero, so that all outputs have the same bias.

Tiles that do not divide an image overlap at its end: a few outputs are computed and stored twice.
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

from int8tune.schedules.border import BorderClasses, axis_classes, taps_of_both
from int8tune.schedules.space import Value
from int8tune.schedules.workload import DepthwiseConv2d

CHANNELS = 4
WORD_ROWS = 4


@dataclass(frozen=True)
class DepthwiseForm:
    """A layer with its tile; everything the kernel's writer needs."""

    workload: DepthwiseConv2d
    tile_rows: int
    tile_columns: int
    threads: int
    steps: int = 1
    data_offset: int = 0

    @property
    def output(self) -> tuple[int, int]:
        return self.workload.window.output_size(self.workload.height, self.workload.width)

    @property
    def tile(self) -> list[tuple[int, int]]:
        """Rows and columns of the tile's outputs."""
        return list(itertools.product(range(self.tile_rows), range(self.tile_columns)))

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """Rows of the image that a tile reads, counted from its first one."""
        return self._read(0, self.tile_rows)

    @cached_property
    def columns(self) -> tuple[int, ...]:
        return self._read(1, self.tile_columns)

    def _read(self, axis: int, outputs: int) -> tuple[int, ...]:
        window = self.workload.window
        taps = range(window.kernel[axis])
        return tuple(
            sorted({i * window.stride[axis] + k * window.dilation[axis] for i in range(outputs) for k in taps})
        )

    @property
    def words(self) -> tuple[tuple[int, ...], ...]:
        """The rows of each word."""
        return tuple(self.rows[at : at + WORD_ROWS] for at in range(0, len(self.rows), WORD_ROWS))

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Output rows of the tile and the words that they read."""
        return tuple(
            (row, at) for row in range(self.tile_rows) for at in range(len(self.words)) if any(self.mask(row, at))
        )

    def taps_of(self, row: int, word: int) -> tuple[int | None, ...]:
        """The row of the kernel by which an output row multiplies each row of a word."""
        window = self.workload.window
        taps = {row * window.stride[0] + k * window.dilation[0]: k for k in range(window.kernel[0])}
        return tuple(taps.get(read) for read in self.words[word])

    def mask(self, row: int, word: int) -> tuple[bool, ...]:
        """Which rows of a word an output row reads."""
        return tuple(tap is not None for tap in self.taps_of(row, word))

    def outputs_of(self, column: int) -> list[tuple[int, int]]:
        """The output columns of the tile that read a column, and their columns of the kernel."""
        window = self.workload.window
        return [
            (x, k)
            for x in range(self.tile_columns)
            for k in range(window.kernel[1])
            if x * window.stride[1] + k * window.dilation[1] == column
        ]

    @property
    def gathers(self) -> bool:
        """Whether the channels of a word do not lie in memory as one."""
        return self.workload.channels % CHANNELS != 0 or self.workload.multiplier > 1

    @property
    def has_window_sum(self) -> bool:
        return self.workload.numerics.weight_zero_point

    @property
    def quads(self) -> int:
        """Words of output channels."""
        return math.ceil(self.workload.out_channels / CHANNELS)

    @property
    def walks(self) -> bool:
        """Whether a tile goes down the image."""
        return self.steps > 1

    @property
    def walked_rows(self) -> int:
        """Output rows of all steps of a tile."""
        return self.steps * self.tile_rows

    @property
    def row_tiles(self) -> int:
        return math.ceil(self.output[0] / self.walked_rows)

    @property
    def column_tiles(self) -> int:
        return math.ceil(self.output[1] / self.tile_columns)

    @property
    def tiles(self) -> int:
        """Tiles of all channels, one for each thread."""
        return self.workload.batch * self.row_tiles * self.column_tiles * self.quads

    def grid(self, multiprocessors: int) -> tuple[int, ...]:  # noqa: ARG002
        """Blocks along each axis: of as many threads as there are tiles."""
        return (math.ceil(self.tiles / self.threads),)

    @property
    def shared_bytes(self) -> int:
        return 0

    @property
    def weight_order(self) -> tuple[Any, ...]:
        """Forms of a layer for which this is the same pack weights the same way."""
        return self.tile_rows, self.walks

    @property
    def weight_words(self) -> int:
        """Words of a channel's weights."""
        return len(self.pairs) * self.workload.window.kernel[1]

    @property
    def registers(self) -> int:
        """About as many as a thread needs: sums, weights, a column, and what addresses take."""
        sums = self.tile_rows * self.tile_columns * CHANNELS * (1 + self.has_window_sum)
        if self.walks:
            return sums + self.weight_words * CHANNELS + 5 * len(self.columns) + 2 * CHANNELS + 24
        return sums + self.weight_words * CHANNELS + len(self.rows) + CHANNELS * len(self.words) + 40

    @property
    def instructions(self) -> int:
        """About as many as a thread runs."""
        dots = self.weight_words * self.tile_columns * CHANNELS * (1 + self.has_window_sum)
        if self.walks:
            step = dots + 8 * len(self.columns) + 5 * self.tile_rows * self.tile_columns * CHANNELS + 10
            return self.steps * step + self.weight_words + 4 * len(self.columns) + 60
        read = len(self.columns) * (len(self.rows) * (12 if self.gathers else 3) + 8 * len(self.words))
        return dots + read + self.weight_words + 9 * self.tile_rows * self.tile_columns * CHANNELS + 40

    @property
    def rows_read(self) -> int:
        """Rows of the image that a thread loads."""
        return (self.steps + 1) * WORD_ROWS // 2 if self.walks else len(self.rows)

    @property
    def row_classes(self) -> BorderClasses:
        return axis_classes(self.workload.window, 0, self.workload.height, self.output[0])

    @property
    def column_classes(self) -> BorderClasses:
        return axis_classes(self.workload.window, 1, self.workload.width, self.output[1])

    @property
    def border_taps(self) -> npt.NDArray[np.bool_]:
        of_classes = taps_of_both(self.row_classes[1], self.column_classes[1])
        return np.ones_like(of_classes[:1]) if self.walks else of_classes

    @cached_property
    def channels(self) -> npt.NDArray[np.int64]:
        """The output channel of each position, the last one repeated where words are not full."""
        return np.minimum(np.arange(self.quads * CHANNELS), self.workload.out_channels - 1)

    @property
    def weight_length(self) -> int:
        return self.quads * self.weight_words * CHANNELS * WORD_ROWS

    def pack(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> npt.NDArray[np.int8]:  # noqa: ARG002
        """Weights [OC, KH, KW] as words [quads, pairs, KW, 4 channels, 4 rows]."""
        columns = self.workload.window.kernel[1]
        packed = np.zeros((len(self.channels), len(self.pairs), columns, WORD_ROWS), weight.dtype)
        for index, (row, word) in enumerate(self.pairs):
            for place, tap in enumerate(self.taps_of(row, word)):
                if tap is not None:
                    packed[:, index, :, place] = weight[self.channels, tap]
        quads = packed.reshape(self.quads, CHANNELS, len(self.pairs), columns, WORD_ROWS).transpose(0, 2, 3, 1, 4)
        return np.ascontiguousarray(quads).reshape(-1).view(np.int8)

    def packed_zero_point(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> int:  # noqa: ARG002
        return zero_point


def can_walk(workload: DepthwiseConv2d, tile_rows: int) -> bool:
    """Whether tiles of so many rows may go down the image: a word has all that they read, half of it the next step."""
    window = workload.window
    reads = (tile_rows - 1) * window.stride[0] + window.kernel[0]
    has_words = workload.channels % CHANNELS == 0 and workload.multiplier == 1
    is_half = window.dilation[0] == 1 and reads <= WORD_ROWS and tile_rows * window.stride[0] == WORD_ROWS // 2
    return is_half and has_words and not workload.numerics.weight_zero_point


def depthwise_form(workload: DepthwiseConv2d, config: Mapping[str, Value]) -> DepthwiseForm:
    """The form of one config."""
    sizes = (int(config[name]) for name in ("tile_rows", "tile_columns", "threads", "steps"))
    return DepthwiseForm(workload, *sizes)
