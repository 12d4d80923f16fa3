"""Depthwise convolution on ARM: the form that the kernel is written for.

Lanes are channels. A register tile covers `tile_columns` outputs of one row times 8 or 16 channels; the last tile of an
axis overlaps its neighbour. The products of two taps share 16 bits before they are added to sums of 32 (`pairs`), with
weights of -128 in two parts as in `schedules.arm.conv_form`; or weights and data have 16 bits (`wide`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.arm.tiling import HEADER_BYTES, LANES, split_weights, tiled_channels, with_headers
from int8tune.schedules.image import Image
from int8tune.schedules.space import Value
from int8tune.schedules.tiles import largest_share
from int8tune.schedules.workload import DepthwiseConv2d

# Multiplications of a tile that are written one after the other; of more of them, the kernel's rows are a loop.
MAX_UNROLLED = 320


@dataclass(frozen=True)
class DepthwiseForm:
    """A depthwise layer with its register tile; everything the kernel's writer needs.

    Attributes:
        products: `pairs` or `wide`.
        outer: `channels` keeps a tile's channels for the whole image, `image` takes all channels tile by tile; threads
            share the outer loop.
    """

    workload: DepthwiseConv2d
    tile_columns: int
    tile_channels: int
    products: str
    outer: str
    threads: int = 1

    @property
    def image(self) -> Image:
        """What is copied where the kernel needs a copy."""
        work = self.workload
        shape = work.batch, work.height, work.width, work.channels, work.out_channels
        return Image(*shape, work.window, 1, work.numerics)

    @property
    def is_paired(self) -> bool:
        return self.products == "pairs"

    @property
    def data_offset(self) -> int:
        return -128 if self.workload.numerics.data == "u8" and self.is_paired else 0

    @property
    def slack(self) -> int:
        """Values that are read beyond a pixel's channels."""
        return max(0, self.tile_channels - self.workload.channels)

    @property
    def copies(self) -> bool:
        """Whether the kernel reads a copy of the image."""
        return any(self.workload.window.padding) or self.slack > 0 or self.data_offset != 0

    @property
    def accumulators(self) -> int:
        """Registers of sums of one column."""
        return self.tile_channels // LANES

    @property
    def sums(self) -> int:
        """Registers of sums of a tile."""
        return self.tile_columns * self.accumulators

    @property
    def columns_read(self) -> int:
        """Columns of the image that a tile reads."""
        window = self.workload.window
        span = (self.tile_columns - 1) * window.stride[1] + (window.kernel[1] - 1) * window.dilation[1] + 1
        return min(span, self.tile_columns * window.kernel[1])

    @property
    def largest_share(self) -> int:
        """Tiles of the thread that has most of them."""
        rows = self.workload.batch * self.output[0]
        return largest_share(self.outer == "channels", self.threads, self.channel_tiles, rows, self.tiles_of_a_row)

    @property
    def taps(self) -> int:
        return math.prod(self.workload.window.kernel)

    @property
    def loops_over_rows(self) -> bool:
        """Whether the rows of the kernel are a loop."""
        rows = self.workload.window.kernel[0]
        return rows > 1 and self.taps * self.tile_columns * self.tile_channels // 8 > MAX_UNROLLED

    @property
    def tile_outputs(self) -> int:
        """Channels of one tile that exist."""
        return min(self.tile_channels, self.workload.channels)

    @property
    def channel_tiles(self) -> int:
        return math.ceil(self.workload.channels / self.tile_outputs)

    @property
    def output(self) -> tuple[int, int]:
        return self.workload.window.output_size(self.workload.height, self.workload.width)

    @property
    def tiles_of_a_row(self) -> int:
        return math.ceil(self.output[1] / self.tile_columns)

    @property
    def border_taps(self) -> npt.NDArray[np.bool_]:
        return np.ones((1, self.taps), bool)

    @cached_property
    def channels(self) -> npt.NDArray[np.int64]:
        """The channel of each position: [channel tiles * tile channels]."""
        return tiled_channels(1, self.workload.channels, self.tile_channels)

    @property
    def tap_bytes(self) -> int:
        """Memory of the weights of one tap."""
        return self.tile_channels * (1 if self.is_paired else 2)

    @property
    def part_bytes(self) -> int:
        return self.taps * self.tap_bytes

    @property
    def tile_bytes(self) -> int:
        return HEADER_BYTES + (2 if self.is_paired else 1) * self.part_bytes

    @property
    def weight_length(self) -> int:
        return self.channel_tiles * self.tile_bytes

    def pack(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> npt.NDArray[np.int8]:
        """Weights [C, KH, KW]: tiles, each of a header and its taps, each of its channels."""
        values = (weight.astype(np.int16) - np.int16(zero_point)).reshape(self.workload.channels, self.taps)
        tiles = values[self.channels].reshape(self.channel_tiles, self.tile_channels, self.taps).swapaxes(1, 2)
        if self.is_paired:
            return split_weights(tiles.reshape(len(tiles), -1))
        wide = np.ascontiguousarray(tiles.reshape(len(tiles), -1)).astype("<i2").view(np.int8)
        return with_headers(wide, np.zeros(len(tiles), np.int8))

    def packed_zero_point(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> int:  # noqa: ARG002
        """Nothing is left of it: packed weights are without."""
        return 0


def depthwise_form(workload: DepthwiseConv2d, config: Mapping[str, Value], threads: int) -> DepthwiseForm:
    """The form of one config."""
    return DepthwiseForm(
        workload,
        tile_columns=int(config["tile_columns"]),
        tile_channels=int(config["tile_channels"]),
        products=str(config["products"]),
        outer=str(config["outer"]),
        threads=threads,
    )
