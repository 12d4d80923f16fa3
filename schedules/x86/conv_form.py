"""conv2d and dense on x86: the form that the kernel is written for.

A register tile covers `tile_columns` outputs of one row times `tile_registers` registers of output channels. Where a
tile does not divide its axis, the last one starts earlier and overlaps its neighbour: the same values are computed and
stored twice, and no code for tails is needed. The last tile of a row may be narrower instead, which is code of its own.
A layer with fewer channels than a tile has leaves the others zero.

The border of a padded image is skipped (taps outside the image are not multiplied, so that outputs near the border
have a bias of their own) or copied (the image is copied into a larger one). With few channels, a dot product's four
taps don't divide a row of the kernel. Then zeros fill up each row's last dot product, or what is left of all rows is
gathered into words of their own.

A 1x1 convolution and a dense layer are an image of one row (`schedules.image.image_of`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.arguments import has_weight_zero_point
from int8tune.schedules.border import BorderClasses, Classes, axis_classes, one_class, taps_of_both
from int8tune.schedules.image import Image
from int8tune.schedules.space import Value
from int8tune.schedules.tiles import largest_share
from int8tune.schedules.x86.channels import PACKED_REGISTERS, register_groups, tiled_channels
from int8tune.schedules.x86.registers import TAPS, Registers

# Steps of a reduction between two parts of the last tile that are stored beside it, at most.
MAX_STORE_STEPS = 3


@dataclass(frozen=True, slots=True)
class ColumnTiles:
    """Tiles of one row that run the same code: `count` of them from column `first` on, none beyond `last`.

    Attributes:
        inside: for each tap of a row, which columns of the tile read the image there and not the border.
        classes: for each column of the tile, which bias it takes.
    """

    first: int
    last: int
    count: int
    inside: tuple[tuple[bool, ...], ...]
    classes: tuple[int, ...]

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return len(self.classes)

    @property
    def all_inside(self) -> bool:
        return all(map(all, self.inside))


@dataclass(frozen=True)
class ConvForm:
    """An image with its register tile; everything the kernel's writer needs.

    Attributes:
        registers: of the instruction set.
        outer: `weights` keeps a tile's weights for the whole image, `image` takes all weights tile by tile; threads
            share the outer loop.
        border: `skip`, `copy` or `gather`.
        unroll: steps of the reduction in one turn of the loop.
        store: a tile's sums `after` its reduction, or `beside` that of the next tile, some columns in each turn of its
            loop.
        fetch: weights on `demand`, or by instructions: those that are used once `ahead`, those of the `next` block
            while the tiles of this one are computed, where weights are outside.
        last_tile: of a row that tiles do not divide, `overlapping` or `narrower`.
        data_offset, weight_offset: what turns the types into those that the dot product takes.
    """

    image: Image
    registers: Registers
    tile_columns: int
    tile_registers: int
    outer: str
    border: str
    unroll: int
    store: str = "after"
    fetch: str = "demand"
    last_tile: str = "overlapping"
    data_offset: int = 0
    weight_offset: int = 0
    threads: int = 1

    @property
    def output(self) -> tuple[int, int]:
        return self.image.output

    @property
    def lanes(self) -> int:
        return self.registers.lanes

    @property
    def tile_outputs(self) -> int:
        """Output channels of one tile."""
        return min(self.tile_registers * self.lanes, self.image.group_outputs)

    @property
    def channel_tiles(self) -> int:
        """Tiles of one group's output channels."""
        return math.ceil(self.image.group_outputs / self.tile_outputs)

    @property
    def steps(self) -> int:
        """Dot products that cover one run, but for what is gathered."""
        return math.ceil((self.image.run_length - self.tail) / TAPS)

    @property
    def tail(self) -> int:
        """Values at the end of each run that are gathered."""
        return self.image.run_length % TAPS if self.border == "gather" else 0

    @property
    def tail_steps(self) -> int:
        """Dot products of gathered values."""
        return math.ceil(self.image.window.kernel[0] * self.tail / TAPS)

    @property
    def reduction_steps(self) -> int:
        """All dot products of one sum."""
        return self.image.window.kernel[0] * self.image.runs * self.steps + self.tail_steps

    @property
    def tile_rows(self) -> int:
        return 1

    @property
    def accumulators(self) -> int:
        return self.tile_columns * self.tile_registers

    def packs(self, columns: int) -> int:
        """Registers of bytes that so many columns of a tile become, full ones or not."""
        return sum(math.ceil(columns * size / PACKED_REGISTERS) for size in register_groups(self.tile_registers))

    @property
    def pipelined(self) -> bool:
        return self.store == "beside"

    @property
    def store_columns(self) -> int:
        """Columns of a waiting tile that are stored together: what fills the registers that are packed."""
        return math.gcd(self.tile_columns, PACKED_REGISTERS // register_groups(self.tile_registers)[-1])

    @property
    def store_turns(self) -> int:
        return self.tile_columns // self.store_columns

    @property
    def steps_of_store_turn(self) -> int:
        """Steps of the next tile's reduction before each part that is stored beside them."""
        certain = self.image.window.kernel[0] * self.steps
        if self.border == "skip" and any(self.image.window.padding):
            # Of one tap: others may be outside the image, of some outputs all.
            certain = self.image.group_channels // TAPS if self.border_taps.any(axis=1).all() else 0
        if certain < self.store_turns:
            return 0
        # Half of the reduction is left for what the core looks ahead.
        return max(1, min(certain // 2 // self.store_turns, MAX_STORE_STEPS))

    @property
    def blocks(self) -> int:
        """Tiles of channels, of all groups."""
        return self.image.groups * self.channel_tiles

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
        """Steps of an average tile beside which weights can be fetched."""
        beside = self.store_turns * self.steps_of_store_turn if self.pipelined else 0
        return max(1, self.reduction_steps * self.inside_share - beside)

    @property
    def slack(self) -> int:
        """Values that the last dot product of a run reads beyond it."""
        return self.steps * TAPS + self.tail - self.image.run_length

    @property
    def copies(self) -> bool:
        """Whether the kernel reads a copy of the image."""
        changes = any(self.image.window.padding) or self.slack > 0 or self.data_offset != 0
        return self.border != "skip" and changes

    @property
    def has_window_sum(self) -> bool:
        return has_weight_zero_point(self.image.numerics, self.weight_offset)

    @property
    def row_classes(self) -> BorderClasses:
        """For each output row its class, and for each class which taps are inside the image."""
        return border_classes(self.image, 0, self.border == "skip")

    @property
    def column_classes(self) -> BorderClasses:
        return border_classes(self.image, 1, self.border == "skip")

    @property
    def column_tiles(self) -> tuple[ColumnTiles, ...]:
        """The tiles of a row, neighbours of the same code together."""
        return tiles_of_row(self.image, self.tile_columns, self.border == "skip", self.narrow_columns)

    @property
    def narrow_columns(self) -> int:
        """Columns of a row's last tile if it is narrower than the others, else 0."""
        return self.image.output[1] % self.tile_columns if self.last_tile == "narrower" else 0

    @property
    def largest_share(self) -> int:
        """Tiles of the thread that has most of them."""
        rows = self.image.batch * self.image.output[0]
        return largest_share(self.outer == "weights", self.threads, self.blocks, rows, self.tiles_of_a_row)

    @property
    def inside_share(self) -> float:
        """Share of the taps that are inside the image, the only ones to be multiplied."""
        return inside_share(self.image, self.tile_columns, self.border == "skip", self.narrow_columns)

    @property
    def border_taps(self) -> npt.NDArray[np.bool_]:
        """[row classes * column classes, taps]."""
        return taps_of_both(self.row_classes[1], self.column_classes[1])

    @cached_property
    def channels(self) -> npt.NDArray[np.int64]:
        """The output channel of each position: [groups * channel tiles * registers * lanes]."""
        return tiled_channels(self.image.groups, self.image.group_outputs, self.tile_registers, self.lanes)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """[groups * channel tiles, steps, registers, bytes]; steps by kernel row and run, then the gathered ones."""
        return (self.blocks, self.reduction_steps, self.tile_registers, self.registers.weight_bytes)

    def pack(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> npt.NDArray[np.int8]:  # noqa: ARG002
        """Weights [OC, KH, KW, C / groups] or [OC, K] in the order of `weight_shape`, zeros behind each run."""
        channels, whole = self.image.out_channels, self.image.run_length - self.tail
        rows = (weight.astype(np.int16) + self.weight_offset).reshape(channels, -1, self.image.run_length)
        runs = np.pad(rows[:, :, :whole], [(0, 0), (0, 0), (0, self.slack)]).reshape(channels, -1)
        tails = rows[:, :, whole:].reshape(channels, -1)
        tails = np.pad(tails, [(0, 0), (0, self.tail_steps * TAPS - tails.shape[1])])
        tiles, steps, registers, _ = self.weight_shape
        split = np.concatenate([runs, tails], axis=1)[self.channels].reshape(tiles, registers, self.lanes, steps, TAPS)
        return self.registers.pack(split.transpose(0, 3, 1, 2, 4))

    def packed_zero_point(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> int:  # noqa: ARG002
        return zero_point + self.weight_offset

    @property
    def tiles_of_a_row(self) -> int:
        return math.ceil(self.image.output[1] / self.tile_columns)


@lru_cache(maxsize=64)
def border_classes(image: Image, axis: int, skip: bool) -> BorderClasses:
    """For each output row or column its class, and for each class which taps are inside the image, or in its copy."""
    extent, outputs = (image.height, image.width)[axis], image.output[axis]
    if skip:
        return axis_classes(image.window, axis, extent, outputs)
    return one_class(image.window.kernel[axis], outputs)


@lru_cache(maxsize=256)
def tiles_of_row(image: Image, columns: int, skip: bool, narrow: int) -> tuple[ColumnTiles, ...]:
    """Tiles of so many columns, the last of which is narrower or overlaps its neighbour."""
    classes, inside = border_classes(image, 1, skip)
    width = image.output[1]
    whole, last = (width // columns, width - narrow) if narrow else (math.ceil(width / columns), width - columns)

    def tiles(first: int, last: int, count: int, key: tuple[int, ...]) -> ColumnTiles:
        return ColumnTiles(first, last, count, tuple(map(tuple, inside[list(key)].T.tolist())), key)

    if len(inside) == 1:
        before = columns * (whole - 1) if narrow else last
        narrower = (tiles(last, last, 1, (0,) * narrow),) if narrow else ()
        return (tiles(0, before, whole, (0,) * columns), *narrower)
    count = whole + bool(narrow)

    def first_of(tile: int) -> int:
        return min(tile * columns, last)

    def key_of(tile: int) -> tuple[int, ...]:
        return classes.of(first_of(tile), min(columns, width - first_of(tile)))

    firsts = [next(same) for _, same in itertools.groupby(_tiles_that_may_differ(classes, columns, count), key_of)]
    return tuple(
        tiles(first_of(tile), first_of(behind - 1), behind - tile, key_of(tile))
        for tile, behind in zip(firsts, [*firsts[1:], count], strict=True)
    )


def _tiles_that_may_differ(classes: Classes, columns: int, count: int) -> list[int]:
    """The tiles whose columns may be of other classes than those of the tile before: near changes, and at the end."""
    near = {change // columns + step for change in classes.changes for step in (0, 1)}
    return sorted(tile for tile in {0, count - 1, *near} if 0 <= tile < count)


@lru_cache(maxsize=256)
def inside_share(image: Image, columns: int, skip: bool, narrow: int) -> float:
    """Share of the taps that are inside the image, of all columns of all tiles."""
    rows, inside = border_classes(image, 0, skip)
    tiles = tiles_of_row(image, columns, skip, narrow)
    shares = np.average([np.mean(each.inside) for each in tiles], weights=[each.count * each.width for each in tiles])
    return float(np.average(inside.mean(axis=1), weights=rows.counts)) * float(shares)


def largest_divisor(count: int, limit: int) -> int:
    """The largest divisor up to a limit."""
    return next(divisor for divisor in range(min(count, limit), 0, -1) if count % divisor == 0)


def conv_form(
    image: Image, registers: Registers, config: Mapping[str, Value], offsets: tuple[int, int], threads: int
) -> ConvForm:
    """The form of one config."""
    return ConvForm(
        image,
        registers,
        tile_columns=int(config["tile_columns"]),
        tile_registers=int(config["tile_registers"]),
        outer=str(config["outer"]),
        border=str(config["border"]),
        unroll=int(config["unroll"]),
        store=str(config["store"]),
        fetch=str(config["fetch"]),
        last_tile=str(config["last_tile"]),
        data_offset=offsets[0],
        weight_offset=offsets[1],
        threads=threads,
    )
