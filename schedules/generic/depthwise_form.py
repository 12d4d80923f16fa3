"""Depthwise convolution on any CPU: the form in which it is computed.

Lanes run over output channels. A register tile covers `tile_columns` outputs times `tile_blocks` blocks of `lanes`
channels, one tap at a time; the last tile of an axis overlaps its neighbour, as in `direct_form`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.generic.image_copy import ImageCopy
from int8tune.schedules.layout import PlainLayout
from int8tune.schedules.space import ConfigSpace, Constraint, Knob, Value
from int8tune.schedules.template import Kernel
from int8tune.schedules.tiles import nearest_tile, tile_sizes
from int8tune.schedules.workload import DepthwiseConv2d

MAX_TILE_COLUMNS = 16
MAX_TILE_BLOCKS = 4


@dataclass(frozen=True, slots=True)
class DepthwiseForm(PlainLayout):
    """A depthwise layer with its register tile; everything the compute definition needs."""

    workload: DepthwiseConv2d
    lanes: int
    tile_columns: int
    tile_blocks: int

    @property
    def problem(self) -> DepthwiseConv2d:
        return self.workload

    @property
    def output(self) -> tuple[int, int]:
        return self.workload.window.output_size(self.workload.height, self.workload.width)

    @property
    def tile_outputs(self) -> int:
        """Output channels of one tile."""
        return self.tile_blocks * self.lanes

    @property
    def column_tiles(self) -> int:
        return math.ceil(self.output[1] / self.tile_columns)

    @property
    def channel_tiles(self) -> int:
        return math.ceil(self.workload.out_channels / self.tile_outputs)

    @property
    def padded_size(self) -> tuple[int, int]:
        """Rows and columns of the image with its border."""
        top, left, bottom, right = self.workload.window.padding
        return self.workload.height + top + bottom, self.workload.width + left + right

    @property
    def copy(self) -> ImageCopy:
        """The copy of the data, with one channel for each output channel."""
        work = self.workload
        rows, columns = self.padded_size
        return ImageCopy(
            batch=work.batch,
            height=work.height,
            row_length=work.width * work.out_channels,
            padded_height=rows,
            used_row_length=columns * work.out_channels,
            top=work.window.padding[0],
            left=work.window.padding[1] * work.out_channels,
            repeats=work.multiplier,
        )

    @property
    def waste(self) -> float:
        """Multiplications done over multiplications needed."""
        columns = self.column_tiles * self.tile_columns / self.output[1]
        channels = self.channel_tiles * self.tile_outputs / self.workload.out_channels
        return columns * channels

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """[channel tiles, KH, KW, blocks, lanes]."""
        return (self.channel_tiles, *self.workload.window.kernel, self.tile_blocks, self.lanes)

    def pack(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> npt.NDArray[np.integer[Any]]:  # noqa: ARG002
        """Weights [OC, KH, KW] in the order of `weight_shape`."""
        last = self.workload.out_channels - self.tile_outputs
        first = np.minimum(np.arange(self.channel_tiles) * self.tile_outputs, last)
        tiled = weight[first[:, None] + np.arange(self.tile_outputs)]
        return np.ascontiguousarray(tiled.transpose(0, 2, 3, 1).reshape(self.weight_shape))


def depthwise_space(
    workload: DepthwiseConv2d, lanes: int, registers: int, form: Callable[[Mapping[str, Value]], DepthwiseForm]
) -> ConfigSpace:
    """The decisions of a depthwise convolution: the register tile and the order of the tiles."""
    width = workload.window.output_size(workload.height, workload.width)[1]
    most_blocks = min(MAX_TILE_BLOCKS, workload.out_channels // lanes)
    columns = tile_sizes(width, MAX_TILE_COLUMNS)

    def fits(config: Mapping[str, Value]) -> bool:
        return int(config["tile_columns"]) * int(config["tile_blocks"]) + 2 <= registers

    return ConfigSpace(
        knobs=(
            Knob("tile_columns", columns),
            Knob("tile_blocks", tuple(range(1, most_blocks + 1))),
            Knob("outer", ("channels", "image")),
        ),
        constraints=(Constraint(f"the tile fits {registers} vector registers", fits),),
        default={"tile_columns": nearest_tile(columns, 4), "tile_blocks": 1, "outer": "image"},
        features=lambda config: _features(form(config), config),
    )


def depthwise_kernel(form: DepthwiseForm, function: Any) -> Kernel:
    """The scheduled function with the shapes of its data and output."""
    batch, height, width, channels = form.workload.data_shape
    return Kernel(function, form, (batch, height, width * channels), form.workload.output_shape)


def _features(form: DepthwiseForm, config: Mapping[str, Value]) -> dict[str, float]:
    """What a cost model can know before anything is built; bytes and counts, not times."""
    window = form.workload.window
    rows, width = form.output
    padded_rows, padded_columns = form.padded_size
    columns_read = (form.tile_columns - 1) * window.stride[1] + (window.kernel[1] - 1) * window.dilation[1] + 1
    accumulators = form.tile_columns * form.tile_blocks
    return {
        "accumulators": accumulators,
        "tile_columns": form.tile_columns,
        "tile_blocks": form.tile_blocks,
        "registers": accumulators + columns_read * form.tile_blocks * window.kernel[0],
        "columns_per_output": columns_read / form.tile_columns,
        "waste": form.waste,
        "reduction_steps": math.prod(window.kernel),
        "image_bytes": form.workload.batch * padded_rows * padded_columns * form.workload.out_channels,
        "row_bytes": padded_columns * form.workload.out_channels,
        "tiles": form.column_tiles * form.channel_tiles * rows * form.workload.batch,
        "columns": width,
        "channels_outer": float(config["outer"] == "channels"),
    }
