"""conv2d and dense on the tile registers of AMX: the form that the kernel is written for.

A data register has up to 16 outputs' data in its rows, up to 64 values of one run each; a weight register has as many
values' weights for 16 output channels; their product is added to a register of 16 x 16 sums. A block is the sums that
are computed together: those of `tile_columns` columns in `tile_rows` rows of the image and of `tile_registers` times 16
channels, in at most eight registers with their operands.

A row of a data register lies in memory as it is, so registers of a block read an image, or a copy of it with a border,
in place. With rows `apart`, each register has columns of one row. Rows that are `joined` are one row with the border
between them: registers are full whatever the width, and the sums of the border are dropped. With a stride, that needs
a copy in which the columns and rows of each phase are neighbours (space to depth): there it is a stride of one.

A kernel of one row has a border beside the image alone. In a copy whose rows and columns are exchanged, with rows that
are `turned`, that border is above and below: all columns of the image are one row in which nothing is dropped. Where
the values of a tap leave its last step half empty or more, each pixel of that copy also has the last values of the next
taps' pixels behind its own: one step multiplies those of several taps. A kernel of one column reads such pixels in rows
that are `widened`, not turned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.arguments import has_weight_zero_point
from int8tune.schedules.image import Image, in_one_row, turned
from int8tune.schedules.layout import PlainLayout
from int8tune.schedules.x86.channels import PACKED_REGISTERS, register_groups, tiled_channels
from int8tune.schedules.x86.conv_form import ColumnTiles
from int8tune.schedules.x86.registers import TAPS

TILE_REGISTERS, REGISTER_ROWS, ROW_BYTES, LANES = 8, 16, 64, 16
# Copying what more taps share takes longer than the products that it spares, as it does where no tap fills a step.
MAX_SHARED_TAPS = 4


@dataclass(frozen=True)
class AmxForm(PlainLayout):
    """An image with its block; everything the kernel's writer needs. Tiles are multiplied with their own signs.

    Attributes:
        layer: the image as it is in memory.
        rows: of the image, `apart`, `joined`, `turned` or `widened`.
        outer, fetch: as in `schedules.x86.conv_form.ConvForm`.
        store: a block's sums `after` its products, or `beside` those of the next block.
    """

    layer: Image
    tile_columns: int
    tile_rows: int
    tile_registers: int
    rows: str
    outer: str
    fetch: str
    store: str
    threads: int = 1

    @cached_property
    def image(self) -> Image:
        """The image whose sums are computed: one long row where that is the same."""
        return in_one_row(self.copied_layer)

    @cached_property
    def copied_layer(self) -> Image:
        """The layer's image with the rows of what is read."""
        return turned(self.layer) if self.turned else self.layer

    @property
    def problem(self) -> Image:
        return self.image

    @property
    def tile_outputs(self) -> int:
        """Output channels of one block."""
        return min(self.tile_registers * LANES, self.image.out_channels)

    @property
    def channel_tiles(self) -> int:
        return math.ceil(self.image.out_channels / self.tile_outputs)

    @property
    def joined(self) -> bool:
        return self.rows == "joined"

    @property
    def turned(self) -> bool:
        return self.rows == "turned"

    @property
    def widened(self) -> bool:
        return self.rows == "widened"

    @property
    def by_pixels(self) -> bool:
        """Whether the kernel reads one long row that is copied pixel by pixel."""
        return self.turned or self.widened

    @property
    def phases(self) -> tuple[int, int]:
        """Rows and columns from one of the same phase to the next in the image; (1, 1) where it is not split."""
        return self.image.window.stride if self.joined else (1, 1)

    @property
    def split(self) -> bool:
        """Whether phases of the image are apart in the copy that is read."""
        return self.phases != (1, 1)

    @property
    def strides(self) -> tuple[int, int]:
        """Rows and columns from one output's data to the next one's, in the image that is read."""
        return (1, 1) if self.joined else self.image.window.stride

    @property
    def output(self) -> tuple[int, int]:
        """Rows and columns of sums; those of joined rows count what is between them."""
        height, width = self.image.output
        return (1, (height - 1) * self.image_columns + width) if self.joined else (height, width)

    @property
    def runs(self) -> int:
        """Runs of adjacent values in one kernel row."""
        return self.image.window.kernel[1] if self.split else self.image.runs

    @property
    def run_length(self) -> int:
        if self.by_pixels:
            return self.pixel_bytes
        return self.image.channels if self.split else self.image.run_length

    @property
    def rest(self) -> int:
        """Values of a pixel that fill no step."""
        return self.image.channels % ROW_BYTES

    @property
    def shared_taps(self) -> int:
        """Taps of which one step multiplies what is left behind whole steps; window sums want each value once."""
        whole = self.image.channels - self.rest
        if not self.by_pixels or not whole or not self.rest or self.has_window_sum:
            return 1
        return min(MAX_SHARED_TAPS, ROW_BYTES // self.rest, self.runs)

    @property
    def pixel_bytes(self) -> int:
        """From one pixel of the image that is read to the next."""
        return self.image.channels + (self.shared_taps - 1) * self.rest

    @property
    def step_bytes(self) -> int:
        """Values of a run that are multiplied at once; runs of fewer than a register's are filled up to whole words."""
        return min(ROW_BYTES, math.ceil(self.run_length / TAPS) * TAPS)

    @property
    def run_steps(self) -> int:
        return math.ceil(self.run_length / self.step_bytes)

    def step_start(self, step: int) -> int:
        """Where a step's values begin in their run; the last one may overlap its neighbour."""
        return min(step * self.step_bytes, max(0, self.run_length - self.step_bytes))

    @property
    def row_steps(self) -> int:
        """Steps of one kernel row; where taps share steps, all that are a tap's own come before the shared ones."""
        if self.shared_taps == 1:
            return self.runs * self.run_steps
        return self.own_steps + math.ceil(self.runs / self.shared_taps)

    @property
    def own_steps(self) -> int:
        """Steps of one kernel row that no taps share."""
        return self.runs * (self.run_steps - (self.shared_taps > 1))

    @property
    def steps(self) -> int:
        """All steps of a sum."""
        return self.image.window.kernel[0] * self.row_steps

    @property
    def slack(self) -> int:
        """Values that a step reads beyond its run."""
        return max(0, self.step_bytes - self.run_length)

    @property
    def copies(self) -> bool:
        """Whether the kernel reads a copy of the image."""
        return any(self.image.window.padding) or self.slack > 0 or self.split or self.by_pixels

    @property
    def own_copies(self) -> bool:
        """Whether each thread copies what it reads: more bytes in all, but none comes from another core's cache.

        Window sums are those of all threads, and so is the copy that they are made of.
        """
        return self.copies and self.threads > 1 and not self.has_window_sum

    @property
    def image_rows(self) -> int:
        """Rows of the image that is read, or of each of its phases."""
        top, _, bottom, _ = self.image.window.padding
        return math.ceil((self.image.height + top + bottom) / self.phases[0])

    @property
    def image_columns(self) -> int:
        """Columns of the image that is read, or of each of its phases."""
        _, left, _, right = self.image.window.padding
        return math.ceil((self.image.width + left + right) / self.phases[1])

    @property
    def copied_rows(self) -> tuple[int, int]:
        """How many rows a copy is made of, and their columns: its own, or those that are one long row in it."""
        if self.by_pixels:
            return self.image_columns // self.copied_layer.width, self.copied_layer.width
        return self.image_rows, self.image_columns

    @property
    def rows_below(self) -> int:
        """Rows of a copy that outputs read below their own."""
        window = self.copied_layer.window
        return (window.kernel[0] - 1) * window.dilation[0] // self.phases[0]

    @property
    def row_bytes(self) -> int:
        """From one row of the image that is read to the next."""
        used = self.image_columns * self.pixel_bytes
        if not self.copies or self.joined:
            return used
        return math.ceil((used + self.slack) / ROW_BYTES) * ROW_BYTES

    @property
    def columns_of_register(self) -> int:
        """Columns in one data register."""
        return math.ceil(self.tile_columns / math.ceil(self.tile_columns / REGISTER_ROWS))

    @property
    def data_tiles(self) -> tuple[tuple[int, int], ...]:
        """(row, column) of the block where each data register begins; the last ones may overlap their neighbours."""
        columns = self.columns_of_register
        return tuple(
            (row, min(column, self.tile_columns - columns))
            for row in range(self.tile_rows)
            for column in range(0, self.tile_columns, columns)
        )

    @property
    def keeps_weights(self) -> bool:
        """Whether weights stay in their registers for all data of a step, or data for all weights."""
        return self.tile_registers < len(self.data_tiles)

    @property
    def used_registers(self) -> int:
        """Registers of sums and operands."""
        data = len(self.data_tiles)
        return data * self.tile_registers + min(data, self.tile_registers) + 1

    def outputs_before(self, column: Any, least: Callable[[Any, Any], Any] = min) -> Any:
        """How many outputs joined rows have before a column; columns between two rows are no outputs."""
        return _outputs_before(column, self.image_columns, self.image.output[1], least)

    @property
    def fewest_outputs(self) -> int:
        """Outputs of the block that has the fewest."""
        if not self.joined:
            return self.tile_columns
        return _fewest_outputs(self.output[1], self.tile_columns, self.image_columns, self.image.output[1])

    @property
    def stored_pixels(self) -> int:
        """Neighbouring pixels that become bytes together: as many as fill the registers that are packed."""
        return min(self.fewest_outputs, PACKED_REGISTERS // register_groups(self.tile_registers)[-1])

    @property
    def parts_of_row(self) -> int:
        return math.ceil(self.tile_columns / self.stored_pixels)

    @property
    def parts(self) -> int:
        """Parts in which a block is stored, at most."""
        return self.tile_rows * self.parts_of_row

    @property
    def pipelined(self) -> bool:
        return self.store == "beside"

    @property
    def has_window_sum(self) -> bool:
        return has_weight_zero_point(self.image.numerics, 0)

    @property
    def column_tiles(self) -> tuple[ColumnTiles, ...]:
        """All blocks of a row run the same code: borders are in memory."""
        last, taps = self.output[1] - self.tile_columns, self.image.window.kernel[1]
        inside = ((True,) * self.tile_columns,) * taps
        return (ColumnTiles(0, last, self.tiles_of_a_row, inside, (0,) * self.tile_columns),)

    @property
    def tiles_of_a_row(self) -> int:
        return math.ceil(self.output[1] / self.tile_columns)

    @cached_property
    def channels(self) -> npt.NDArray[np.int64]:
        """The output channel of each position: [channel tiles * registers * lanes]."""
        return tiled_channels(1, self.image.out_channels, self.tile_registers, LANES)

    @property
    def weight_bytes(self) -> int:
        """Bytes of one weight register."""
        return self.step_bytes * LANES

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """[channel tiles, steps, registers, words, lanes, bytes]; steps by kernel row, run, and within the run."""
        words = self.step_bytes // TAPS
        return (self.channel_tiles, self.steps, self.tile_registers, words, LANES, TAPS)

    def pack(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> npt.NDArray[np.int8]:  # noqa: ARG002
        """Weights [OC, KH, KW, C] or [OC, K] in the order of `weight_shape`; values of two steps only in the first."""
        tiles, steps, registers, words, _, _ = self.weight_shape
        packed = self._shared_steps(weight) if self.shared_taps > 1 else self._run_steps(weight)
        split = packed[self.channels].reshape(tiles, registers, LANES, steps, words, TAPS)
        return np.ascontiguousarray(split.transpose(0, 3, 1, 4, 2, 5)).view(np.int8).reshape(-1)

    def _run_steps(self, weight: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.integer[Any]]:
        """Weights [OC, runs, steps of a run, bytes]."""
        channels, length = self.image.out_channels, self.run_length
        runs = weight.reshape(channels, -1, length)
        packed = np.zeros((*runs.shape[:2], self.run_steps, self.step_bytes), weight.dtype)
        done = 0
        for step in range(self.run_steps):
            start = self.step_start(step)
            end = min(start + self.step_bytes, length)
            packed[:, :, step, done - start : end - start] = runs[:, :, done:end]
            done = end
        return packed

    def _shared_steps(self, weight: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.integer[Any]]:
        """Weights [OC, steps, bytes], of which the last steps are those that taps share."""
        taps = weight.reshape(self.image.out_channels, self.runs, self.image.channels)
        whole, shared = self.image.channels - self.rest, self.row_steps - self.own_steps
        rests = np.pad(taps[:, :, whole:], [(0, 0), (0, shared * self.shared_taps - self.runs), (0, 0)])
        packed = np.zeros((len(taps), self.row_steps, self.step_bytes), weight.dtype)
        packed[:, : self.own_steps] = taps[:, :, :whole].reshape(len(taps), self.own_steps, self.step_bytes)
        first = whole - self.step_start(self.run_steps - 1)
        packed[:, self.own_steps :, first : first + self.shared_taps * self.rest] = rests.reshape(len(taps), shared, -1)
        return packed


def _outputs_before(column: Any, pitch: int, width: int, least: Callable[[Any, Any], Any]) -> Any:
    return column // pitch * width + least(column % pitch, width)


@lru_cache(maxsize=1024)
def _fewest_outputs(columns: int, tile_columns: int, pitch: int, width: int) -> int:
    """The fewest outputs of a tile of joined rows, the last of which may overlap its neighbour."""
    counts = []
    for start in range(0, columns, tile_columns):
        first = min(start, columns - tile_columns)
        before, behind = (_outputs_before(column, pitch, width, min) for column in (first, first + tile_columns))
        counts.append(int(behind - before))
    return min(counts)
