"""Direct convolution on any CPU: the form in which conv2d and dense are computed.

A register tile covers `tile_columns` outputs of one row times `tile_blocks` blocks of `lanes` output channels, one tap
at a time. Where a tile does not divide its axis, the last one starts earlier and overlaps its neighbour: the same
values are computed and stored twice, and no code for tails is needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.generic.image_copy import ImageCopy
from int8tune.schedules.image import Image
from int8tune.schedules.layout import PlainLayout
from int8tune.schedules.space import Config, ConfigSpace, Constraint, Knob, Value
from int8tune.schedules.template import Kernel
from int8tune.schedules.tiles import nearest_tile, tile_sizes

MAX_TILE_COLUMNS = 28
MAX_TILE_BLOCKS = 6
# Accumulators of a tile with one row: nothing is reused but the broadcast, so many blocks hide the latency.
MAX_ROW_BLOCKS = 16


@dataclass(frozen=True, slots=True)
class DirectForm(PlainLayout):
    """An image with its register tile; everything the compute definition needs.

    Attributes:
        lanes: int32 accumulators in one register.
    """

    image: Image
    lanes: int
    tile_columns: int
    tile_blocks: int

    @property
    def problem(self) -> Image:
        return self.image

    @property
    def tile_outputs(self) -> int:
        """Output channels of one tile."""
        return self.tile_blocks * self.lanes

    @property
    def column_tiles(self) -> int:
        return math.ceil(self.image.output[1] / self.tile_columns)

    @property
    def channel_tiles(self) -> int:
        """Tiles of one group's output channels."""
        return math.ceil(self.image.group_outputs / self.tile_outputs)

    @property
    def copy(self) -> ImageCopy:
        """The copy of the data with a border."""
        image = self.image
        top, left, bottom, right = image.window.padding
        return ImageCopy(
            batch=image.batch,
            height=image.height,
            row_length=image.width * image.channels,
            padded_height=image.height + top + bottom,
            used_row_length=(image.width + left + right) * image.channels,
            top=top,
            left=left * image.channels,
        )

    @property
    def has_window_sum(self) -> bool:
        return self.image.numerics.weight_zero_point

    @property
    def waste(self) -> float:
        """Multiplications done over multiplications needed."""
        columns = self.column_tiles * self.tile_columns / self.image.output[1]
        channels = self.channel_tiles * self.tile_outputs / self.image.group_outputs
        return columns * channels

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """[groups, channel tiles, KH, runs, taps of a run, blocks, lanes]."""
        kernel_rows = self.image.window.kernel[0]
        tiles = (self.image.groups, self.channel_tiles, kernel_rows, self.image.runs)
        return (*tiles, self.image.run_length, self.tile_blocks, self.lanes)

    def pack(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> npt.NDArray[np.integer[Any]]:  # noqa: ARG002
        """Weights [OC, KH, KW, C / groups] or [OC, K] in the order of `weight_shape`."""
        image = self.image
        rows = weight.reshape(image.groups, image.group_outputs, -1)
        first = np.minimum(np.arange(self.channel_tiles) * self.tile_outputs, image.group_outputs - self.tile_outputs)
        channels = first[:, None] + np.arange(self.tile_outputs)
        tiled = rows[:, channels].reshape(image.groups, self.channel_tiles, self.tile_blocks, self.lanes, -1)
        return np.ascontiguousarray(tiled.transpose(0, 1, 4, 2, 3).reshape(self.weight_shape))


def direct_space(image: Image, lanes: int, registers: int) -> ConfigSpace:
    """The decisions of a direct convolution: the register tile, the order of the tiles, the unrolling.

    A tile needs a register per accumulator, one per channel block for the weights and one for the data.
    """
    most_blocks = image.group_outputs // lanes
    width = image.output[1]
    column_choices = tile_sizes(width, MAX_TILE_COLUMNS)
    limit = MAX_ROW_BLOCKS if width == 1 else MAX_TILE_BLOCKS
    block_choices = tuple(blocks for blocks in range(1, limit + 1) if blocks <= most_blocks)

    def fits(config: Mapping[str, Value]) -> bool:
        columns, blocks = int(config["tile_columns"]), int(config["tile_blocks"])
        return columns * blocks + min(blocks, 2) + 1 <= registers

    def features(config: Mapping[str, Value]) -> dict[str, float]:
        return _features(direct_form(image, lanes, config), config)

    return ConfigSpace(
        knobs=(
            Knob("tile_columns", column_choices),
            Knob("tile_blocks", block_choices),
            Knob("outer", ("weights", "image")),
            Knob("unroll", tuple(factor for factor in (1, 2, 4) if image.run_length % factor == 0)),
        ),
        constraints=(Constraint(f"the tile fits {registers} vector registers", fits),),
        default=_default(column_choices, block_choices, fits),
        features=features,
    )


def direct_form(image: Image, lanes: int, config: Mapping[str, Value]) -> DirectForm:
    return DirectForm(image, lanes, int(config["tile_columns"]), int(config["tile_blocks"]))


def direct_kernel(form: DirectForm, function: Any) -> Kernel:
    """The scheduled function with the shapes of its data and output."""
    image = form.image
    data_shape = (image.batch, image.height, image.width * image.channels)
    return Kernel(function, form, data_shape, (image.batch, *image.output, image.out_channels))


def _default(columns: tuple[int, ...], blocks: tuple[int, ...], fits: Any) -> Config:
    """What an expert would type without measuring: about eight columns and two blocks."""
    block = 2 if 2 in blocks else blocks[0]
    candidates = [size for size in columns if fits({"tile_columns": size, "tile_blocks": block})]
    return {"tile_columns": nearest_tile(candidates, 8), "tile_blocks": block, "outer": "weights", "unroll": 1}


def _features(form: DirectForm, config: Mapping[str, Value]) -> dict[str, float]:
    """What a cost model can know before anything is built; bytes and counts, not times."""
    image = form.image
    rows, width = image.output
    reduction = image.window.kernel[0] * image.runs * image.run_length
    accumulators = form.tile_columns * form.tile_blocks
    weight_tile = reduction * form.tile_outputs
    image_bytes = image.batch * form.copy.padded_height * form.copy.padded_row_length
    weight_bytes = weight_tile * form.channel_tiles * image.groups
    tile_span = ((form.tile_columns - 1) * image.window.stride[1] + image.window.kernel[1]) * image.channels
    tiles = form.column_tiles * form.channel_tiles * rows * image.batch * image.groups
    # The operand that the inner loop over tiles reads again for each step of the outer one.
    passes = rows * form.column_tiles if config["outer"] == "image" else form.channel_tiles
    streamed_bytes = passes * (weight_bytes if config["outer"] == "image" else image_bytes)
    ops = 2 * image.batch * rows * width * image.out_channels * reduction
    return {
        "accumulators": accumulators,
        "tile_columns": form.tile_columns,
        "tile_blocks": form.tile_blocks,
        "loads_per_dot": 1 / form.tile_columns + 1 / form.tile_blocks,
        "waste": form.waste,
        "reduction_steps": reduction,
        "dots_per_tile": reduction * accumulators,
        "unrolled_dots": accumulators * int(config["unroll"]),
        "weight_tile_bytes": weight_tile,
        "weight_bytes": weight_bytes,
        "data_tile_bytes": tile_span * image.window.kernel[0],
        "image_bytes": image_bytes,
        "streamed_bytes": streamed_bytes,
        "ops_per_streamed_byte": ops / streamed_bytes,
        "tiles": tiles,
        "output_bytes_per_dot": form.lanes / reduction,
        "columns": width,
        "weights_outer": float(config["outer"] == "weights"),
    }
