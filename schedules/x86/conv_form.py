"""conv2d and dense on x86: the form that the kernel is written for, and its space.

A register tile covers `tile_columns` outputs of one row times `tile_registers` registers of output channels. Where a
tile does not divide its axis, the last one starts earlier and overlaps its neighbour: the same values are computed and
stored twice, and no code for tails is needed. A layer with fewer channels than a tile has leaves the others zero.

The border of a padded image is skipped (taps outside the image are not multiplied, so that outputs near the border
have a bias of their own) or copied (the image is copied into a larger one). With few channels, a dot product's four
taps don't divide a row of the kernel. Then zeros fill up each row's last dot product, or what is left of all rows is
gathered into words of their own.

A 1x1 convolution and a dense layer are an image of one row (`schedules.direct.image_of`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from schedules.arguments import has_weight_zero_point
from schedules.direct import Image
from schedules.space import Config, ConfigSpace, Constraint, Knob, Value
from schedules.tiles import tile_sizes
from schedules.x86.channels import channel_order
from schedules.x86.registers import TAPS, Registers

MAX_TILE_COLUMNS = 28
MAX_TILE_REGISTERS = 6
# Accumulators of a tile with one output: nothing is reused but the broadcast, so many registers hide the latency.
MAX_ROW_REGISTERS = 16
# Of `estimated_cycles`: of a tile, of an accumulator's way to memory, of the short loops at an edge of the image; bytes
# that are copied in a cycle.
TILE_CYCLES, STORE_CYCLES, EDGE_CYCLES, COPIED_BYTES = 20, 1.3, 20, 16
# Registers that the addition of a residual takes beside the sums.
ADDITION_REGISTERS = 8
# Different columns of tiles near the border, each with code of its own: beyond, the border is copied.
MAX_EDGE_TILES = 6


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
        data_offset, weight_offset: what turns the types into those that the dot product takes.
    """

    image: Image
    registers: Registers
    tile_columns: int
    tile_registers: int
    outer: str
    border: str
    unroll: int
    data_offset: int = 0
    weight_offset: int = 0
    threads: int = 1

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

    @cached_property
    def row_classes(self) -> tuple[tuple[int, ...], npt.NDArray[np.bool_]]:
        """For each output row its class, and for each class which taps are inside the image."""
        return self._classes(0)

    @cached_property
    def column_classes(self) -> tuple[tuple[int, ...], npt.NDArray[np.bool_]]:
        return self._classes(1)

    @cached_property
    def column_tiles(self) -> tuple[ColumnTiles, ...]:
        """The tiles of a row, neighbours of the same code together."""
        width = self.image.output[1]
        starts = [min(tile * self.tile_columns, width - self.tile_columns) for tile in range(self._tiles_of_a_row)]
        classes, inside = self.column_classes

        def code(start: int) -> tuple[int, ...]:
            return classes[start : start + self.tile_columns]

        return tuple(
            ColumnTiles(same[0], same[-1], len(same), tuple(map(tuple, inside[list(key)].T.tolist())), key)
            for key, same in ((key, list(group)) for key, group in itertools.groupby(starts, code))
        )

    @property
    def largest_share(self) -> int:
        """Tiles of the thread that has most of them."""
        channels = self.image.groups * self.channel_tiles
        rows, columns = self.image.batch * self.image.output[0], self._tiles_of_a_row
        if self.outer == "weights":
            return math.ceil(channels / self.threads) * rows * columns
        if rows > 1:
            return math.ceil(rows / self.threads) * columns * channels
        return math.ceil(columns / self.threads) * channels

    @property
    def inside_share(self) -> float:
        """Share of the taps that are inside the image, the only ones to be multiplied."""
        rows, inside = self.row_classes
        columns = sum(tiles.count * float(np.mean(tiles.inside)) for tiles in self.column_tiles)
        return float(inside[list(rows)].mean()) * columns / self._tiles_of_a_row

    @property
    def border_taps(self) -> npt.NDArray[np.bool_]:
        """[row classes * column classes, taps]."""
        rows, columns = self.row_classes[1], self.column_classes[1]
        both = rows[:, None, :, None] & columns[None, :, None, :]
        return both.reshape(len(rows) * len(columns), -1)

    @cached_property
    def channels(self) -> npt.NDArray[np.int64]:
        """The output channel of each position: [groups * channel tiles * registers * lanes]."""
        outputs = self.image.group_outputs
        first = np.minimum(np.arange(self.channel_tiles) * self.tile_outputs, outputs - self.tile_outputs)
        within = np.minimum(first[:, None, None] + self._order, outputs - 1)
        return (np.arange(self.image.groups)[:, None, None, None] * outputs + within).reshape(-1)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """[groups * channel tiles, steps, registers, bytes]; steps by kernel row and run, then the gathered ones."""
        tiles = self.image.groups * self.channel_tiles
        return (tiles, self.reduction_steps, self.tile_registers, self.registers.weight_bytes)

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

    @property
    def _order(self) -> npt.NDArray[np.int64]:
        return channel_order(self.tile_registers, self.lanes)

    @property
    def _tiles_of_a_row(self) -> int:
        return math.ceil(self.image.output[1] / self.tile_columns)

    def _classes(self, axis: int) -> tuple[tuple[int, ...], npt.NDArray[np.bool_]]:
        window, extent = self.image.window, (self.image.height, self.image.width)[axis]
        first = np.arange(self.image.output[axis]) * window.stride[axis] - window.padding[axis]
        taps = first[:, None] + np.arange(window.kernel[axis]) * window.dilation[axis]
        inside = (taps >= 0) & (taps < extent) if self.border == "skip" else np.ones_like(taps, bool)
        changes = np.r_[False, (inside[1:] != inside[:-1]).any(axis=1)]
        classes = np.cumsum(changes)
        return tuple(classes.tolist()), inside[np.r_[True, changes[1:]]]


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
        data_offset=offsets[0],
        weight_offset=offsets[1],
        threads=threads,
    )


def conv_space(image: Image, registers: Registers, offsets: tuple[int, int], threads: int) -> ConfigSpace:
    """The decisions of a convolution."""
    needed = math.ceil(image.group_outputs / registers.lanes)
    columns = tile_sizes(image.output[1], MAX_TILE_COLUMNS)
    most = min(needed, MAX_ROW_REGISTERS if columns[-1] == 1 else MAX_TILE_REGISTERS)
    knobs = (
        Knob("tile_columns", columns),
        Knob("tile_registers", tuple(range(1, most + 1))),
        Knob("outer", ("weights", "image")),
        Knob("border", _borders(image, offsets)),
        Knob("unroll", (1, 2, 4)),
    )

    def form(config: Mapping[str, Value]) -> ConvForm:
        return conv_form(image, registers, config, offsets, threads)

    def fits(config: Mapping[str, Value]) -> bool:
        columns, rows = int(config["tile_columns"]), int(config["tile_registers"])
        # One operand is kept for each of the shorter side; of more than three, some are operands in memory.
        operands = registers.parts * (1 + min(columns, rows, 3))
        addition = ADDITION_REGISTERS if image.numerics.residual else 0
        return columns * rows + operands + addition + registers.scratch <= registers.count or columns == rows == 1

    def few_edges(config: Mapping[str, Value]) -> bool:
        return config["border"] != "skip" or len(form(config).column_tiles) <= MAX_EDGE_TILES + 1

    constraints = (
        Constraint(f"the tile fits {registers.count} vector registers", fits),
        Constraint(f"at most {MAX_EDGE_TILES} tiles of a row lie at the border", few_edges),
    )
    return ConfigSpace(
        knobs=knobs,
        constraints=constraints,
        default=_default(knobs, constraints, form, registers.unroll),
        features=lambda config: _features(form(config)),
    )


def _borders(image: Image, offsets: tuple[int, int]) -> tuple[str, ...]:
    """What can be done with the border; an image without one is read in place, which is called `skip`."""
    if image.run_length % TAPS and image.runs == image.groups == 1 and image.window.kernel[0] > 1:
        return ("copy", "gather")
    if image.run_length % TAPS or image.group_channels % TAPS or offsets[0]:
        return ("copy",)
    return ("skip", "copy") if any(image.window.padding) else ("skip",)


def _default(
    knobs: tuple[Knob, ...], constraints: tuple[Constraint, ...], form: Callable[[Config], ConvForm], unroll: int
) -> Config:
    """The config with the fewest estimated cycles; of equal ones the first."""
    choices = {knob.name: knob.choices for knob in knobs} | {"unroll": (unroll,)}
    configs = [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]
    valid = [config for config in configs if all(constraint.holds(config) for constraint in constraints)]
    return min(valid, key=lambda config: estimated_cycles(form(config)))


def estimated_cycles(form: ConvForm) -> float:
    """A rough count, of the thread with the largest share."""
    image, registers = form.image, form.registers
    tile = form.tile_columns * form.tile_registers
    loads = form.tile_columns + form.tile_registers * registers.parts
    dots = tile * registers.dot_cycles + form.tile_columns * registers.data_cycles
    per_step = max(dots, loads / registers.loads_per_cycle, registers.dot_latency)
    operands = registers.parts * (1 + min(form.tile_columns, form.tile_registers)) + registers.scratch
    spilled = max(0, tile + operands - registers.count)
    overhead = TILE_CYCLES + STORE_CYCLES * tile + EDGE_CYCLES * (len(form.column_tiles) - 1)
    copied = image.batch * image.height * image.width * image.channels / COPIED_BYTES if form.copies else 0
    steps = form.reduction_steps * form.inside_share
    return form.largest_share * (steps * (per_step + spilled) + overhead) + copied / form.threads


def _features(form: ConvForm) -> dict[str, float]:
    """What a cost model can know before anything is built; bytes and counts, not times."""
    image = form.image
    rows, width = image.output
    reduction = form.reduction_steps
    accumulators = form.tile_columns * form.tile_registers
    weight_tile = reduction * form.tile_registers * form.registers.weight_bytes
    weight_bytes = weight_tile * form.channel_tiles * image.groups
    image_bytes = image.batch * image.height * image.width * image.channels
    span = ((form.tile_columns - 1) * image.window.stride[1] + image.window.kernel[1]) * image.channels
    tiles_of_a_row = form._tiles_of_a_row
    image_outer = form.outer == "image"
    # The operand that the inner loop over tiles reads again for each step of the outer one.
    passes = rows * tiles_of_a_row if image_outer else form.channel_tiles
    streamed_bytes = passes * (weight_bytes if image_outer else image_bytes)
    waste_columns = tiles_of_a_row * form.tile_columns / width
    waste_channels = form.channel_tiles * form.tile_registers * form.lanes / image.group_outputs
    return {
        "estimated_cycles": estimated_cycles(form),
        "accumulators": accumulators,
        "loads_per_dot": form.registers.parts / form.tile_columns + 1 / form.tile_registers,
        "waste": waste_columns
        * waste_channels
        * reduction
        * TAPS
        / image.run_length
        / image.window.kernel[0]
        / image.runs,
        "reduction_steps": reduction,
        "unrolled_dots": accumulators * form.unroll,
        "weight_tile_bytes": weight_tile,
        "weight_bytes": weight_bytes,
        "data_tile_bytes": span * image.window.kernel[0],
        "image_bytes": image_bytes,
        "streamed_bytes": streamed_bytes,
        "column_stride_bytes": image.window.stride[1] * image.channels,
        "tiles": tiles_of_a_row * form.channel_tiles * rows * image.batch * image.groups,
        "edge_tiles": len(form.column_tiles) - 1,
        "weights_outer": float(not image_outer),
        "copies": float(form.copies),
        "gathered_steps": form.tail_steps,
    }
