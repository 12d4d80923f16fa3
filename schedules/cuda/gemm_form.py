"""conv2d and dense on a GPU: the form that the kernel is written for, a product of matrices that are not there.

Rows of the first matrix are outputs (images, rows and columns of all), its columns are the taps and channels of their
windows, `depth` of them; they are read from the image as it lies in memory. A block of threads has a tile of rows and
channels. It goes through the depth in steps: a step's values of both matrices are in shared memory, in one of several
stages, while later ones are copied.

In shared memory a row has the step's values in chunks of 16 bytes. Chunks of a row are in another order than in the
next one (`swizzled`), so that threads which read the same chunk of neighbouring rows use all banks.

A thread has sums of some rows and of runs of neighbouring channels, each of which it stores at once. Runs of the four
threads that share a row lie beside each other, so that together they write whole sectors of memory. The rows of weights
in shared memory are in the order in which the products give a thread such channels; weights are packed that way, tile
by tile, each step as it lies in shared memory.

Taps in the border are zeros, as are channels that fill up a chunk: they add nothing to sums, and outputs near the
border have a bias of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.cuda.channel_order import CHUNK_BYTES, packed, row_of_channel, spread
from int8tune.schedules.cuda.factors import factor_words
from int8tune.schedules.cuda.image_form import ImageForm
from int8tune.schedules.gpus import GROUP, MOST_REGISTERS, REGISTERS_OF_A_MULTIPROCESSOR, WARP, WORD_BYTES
from int8tune.schedules.image import Image
from int8tune.schedules.space import Value

# Of whoever adds the sums of splits: channels of a thread.
ADDED_CHANNELS = 4
MOST_ROWS_OF_BITS, MOST_ROWS_OF_WORDS = 8, 1 << 14
# Of a barrier in shared memory.
BARRIER_BYTES = 8
# Registers that a thread keeps which only copies; they are given in units of eight to threads that multiply, which have
# no use for more than so many.
COPYING_REGISTERS, THREAD_REGISTER_UNIT, MOST_TAKEN_REGISTERS = 56, 8, 240
# Rows of a warp for each of a thread's, where matrix instructions spread them over its lanes.
WARP_ROWS = 8
# The same for the four warps that multiply together on Hopper.
GROUP_ROWS = 4 * WARP_ROWS


@dataclass(frozen=True)
class GemmForm(ImageForm):
    """An image with a block's tile; everything the kernel's writer needs.

    Attributes:
        products: `dp4a`, words of each thread's own; `mma`, matrices of a warp; `wgmma`, matrices of four warps.
        block_rows, block_channels, block_depth: of a block's tile, the last one in bytes of a step.
        thread_rows, thread_channels: of a thread's sums.
        stages: of shared memory.
        splits: blocks that share a tile's depth; who adds their sums, `added` says.
        outer: `weights`, blocks that follow each other have the same weights; `image`, the same rows.
        roles: `uniform`, all threads copy and multiply, and a block has one tile; else a block has tiles in turn, and
            four warps do nothing but copy: `cooperative`, the others multiply a tile together; `pingpong`, there are
            two teams of four warps, of which one stores its tile while the other one multiplies the next.
        added: by whom the sums of splits are added: `kernel`, a second one, to which they go through memory; `cluster`,
            the blocks themselves, which read each other's shared memory, and have a part of the tile each.
    """

    image: Image
    products: str
    block_rows: int
    block_channels: int
    block_depth: int
    thread_rows: int
    thread_channels: int
    stages: int
    splits: int
    outer: str
    roles: str = "uniform"
    added: str = "kernel"
    data_offset: int = 0

    @property
    def tile_threads(self) -> int:
        """Threads that multiply a tile."""
        return self.block_rows * self.block_channels // (self.thread_rows * self.thread_channels)

    @property
    def has_roles(self) -> bool:
        return self.roles != "uniform"

    @property
    def is_joined(self) -> bool:
        """Whether the blocks of a tile add their sums themselves."""
        return self.added == "cluster"

    @property
    def sums_pitch(self) -> int:
        """Sums from a row of a tile to the next one, where blocks read each other's: rows begin in other banks."""
        return self.block_channels + CHUNK_BYTES

    @property
    def teams(self) -> int:
        """Tiles that a block multiplies and stores in turn."""
        return 2 if self.roles == "pingpong" else 1

    @property
    def threads(self) -> int:
        return self.teams * self.tile_threads + (GROUP if self.has_roles else 0)

    @property
    def copying_threads(self) -> int:
        return GROUP if self.has_roles else self.tile_threads

    @property
    def is_grouped(self) -> bool:
        """Whether four warps multiply together, and do other things meanwhile."""
        return self.products == "wgmma"

    @property
    def steps_behind(self) -> int:
        """Steps whose products are still being added while those of the next one begin."""
        return 1 if self.is_grouped else 0

    @property
    def ahead(self) -> int:
        """Steps from the one that is multiplied to the one that is copied meanwhile."""
        return self.stages - 1 - self.steps_behind

    @property
    def is_window(self) -> bool:
        """Whether a row's values are not simply the channels of a pixel."""
        window = self.image.window
        return window.kernel != (1, 1) or any(window.padding)

    @property
    def has_tap_bits(self) -> bool:
        """Whether a word has a bit for each tap of a window, and for what fills up the last step.

        Of many rows of a thread they take longer to be found than they spare. Without roles NVIDIA's compiler makes one
        long piece of code of all steps, which small layers wait for.
        """
        bits = self.taps + math.ceil(self.block_depth / self.tap_bytes)
        few = bits < 8 * WORD_BYTES and self.loaded_rows <= MOST_ROWS_OF_BITS
        return self.has_roles and self.is_window and few

    @property
    def unit(self) -> int:
        """Bytes that are copied to shared memory at once; words of bytes that are gathered one by one are 1."""
        widths = (16, 8, 4)
        common = math.gcd(self.image.channels, self.image.group_channels)
        return next((width for width in widths if common % width == 0), 1)

    @property
    def reads_words(self) -> bool:
        """Whether bytes that are gathered are read as words: not where data is summed, or a word is cut off.

        One image of 224 x 224 x 3 takes 0.75 of the time that single bytes take, 16 and 64 of them 1.3 and 1.4 (H200).
        """
        few = self.rows <= MOST_ROWS_OF_WORDS
        return few and self.unit == 1 and not self.has_window_sum and self.image_bytes % WORD_BYTES == 0

    @property
    def unit_bytes(self) -> int:
        """Bytes of a unit in shared memory."""
        return max(self.unit, WORD_BYTES)

    @property
    def tap_bytes(self) -> int:
        """Channels of a tap, filled up to whole units."""
        return -(-self.image.group_channels // self.unit_bytes) * self.unit_bytes

    @property
    def taps(self) -> int:
        return math.prod(self.image.window.kernel)

    @property
    def depth(self) -> int:
        return self.taps * self.tap_bytes

    @property
    def steps(self) -> int:
        """Steps of the whole depth."""
        return math.ceil(self.depth / self.block_depth)

    @property
    def split_steps(self) -> int:
        """Steps of a split; the last one may have fewer."""
        return math.ceil(self.steps / self.splits)

    @property
    def chunks(self) -> int:
        """Chunks of a row in shared memory."""
        return self.block_depth // CHUNK_BYTES

    @property
    def units(self) -> int:
        """Units of a row in shared memory."""
        return self.block_depth // self.unit_bytes

    @property
    def rows_at_once(self) -> int:
        """Rows of which the block copies a unit each, at the same time."""
        return self.copying_threads // self.units

    @property
    def loaded_rows(self) -> int:
        """Rows of which a thread copies units."""
        return self.block_rows // self.rows_at_once

    @property
    def stage_bytes(self) -> int:
        return (self.block_rows + self.block_channels) * self.block_depth

    @property
    def factor_words(self) -> int:
        """Biases of each class of windows, and rescale values, of a tile's channels."""
        return factor_words(self.image.numerics, self.border_classes, self.block_channels)

    @property
    def stage_barriers(self) -> int:
        """Barriers of a stage: with roles one that it is filled, and one that it is emptied."""
        return 2 if self.has_roles else 0

    @property
    def part_bytes(self) -> int:
        """Sums of a tile's rows that one of the blocks adds which share its depth."""
        return self.block_rows // self.splits * self.sums_pitch * WORD_BYTES

    @property
    def barriers_at(self) -> int:
        """Where barriers begin in shared memory, in bytes: behind stages, and behind sums, own ones and received ones.

        Where blocks add their sums, one of the barriers behind those of stages waits for what they receive.
        """
        sums = (2 * self.splits - 1) * self.part_bytes if self.is_joined else 0
        return max(self.stages * self.stage_bytes, sums)

    @property
    def factors_at(self) -> int:
        """Where biases and rescale values begin in shared memory, in bytes: behind all else."""
        barriers = self.stages * self.stage_barriers + self.is_joined
        return self.barriers_at + math.ceil(barriers * BARRIER_BYTES / CHUNK_BYTES) * CHUNK_BYTES

    @property
    def shared_bytes(self) -> int:
        # Who writes sums to memory has no use for factors.
        return self.factors_at + (0 if self.partial_sums else self.teams * self.factor_words * WORD_BYTES)

    @property
    def rows(self) -> int:
        return self.image.batch * math.prod(self.image.output)

    @property
    def row_tiles(self) -> int:
        return math.ceil(self.rows / self.block_rows)

    @property
    def channel_tiles(self) -> int:
        """Tiles of the channels of one group."""
        return math.ceil(self.image.group_outputs / self.block_channels)

    @property
    def tiles(self) -> int:
        return self.row_tiles * self.image.groups * self.channel_tiles

    @property
    def blocks(self) -> int:
        """Blocks, or tiles that blocks have in turn."""
        return self.tiles * self.splits

    def grid(self, multiprocessors: int) -> tuple[int, ...]:
        """Blocks along each axis: one for each tile of rows, of channels and each split, or for each multiprocessor."""
        if self.has_roles:
            return (min(self.tiles, multiprocessors),)
        sizes = (self.row_tiles, self.image.groups * self.channel_tiles)
        return (*(sizes if self.outer == "weights" else sizes[::-1]), self.splits)

    @property
    def split_sums(self) -> int:
        """Sums of splits, each of which is written once and read once."""
        positions = self.image.groups * self.channel_tiles * self.block_channels
        return self.splits * self.rows * positions if self.splits > 1 else 0

    @property
    def partial_sums(self) -> int:
        """Those of them that go through memory, to the second kernel."""
        return 0 if self.is_joined else self.split_sums

    @property
    def has_window_sum(self) -> bool:
        return self.image.numerics.weight_zero_point

    @property
    def registers(self) -> int:
        """About as many as a thread needs: sums, operands, what it copies from, and what addresses take.

        NVIDIA's compiler uses up to some twenty more or less. Four warps have no operands in registers, but more of the
        epilogue's.
        """
        sums = self.thread_rows * self.thread_channels + self.has_window_sum * 2 * self.thread_rows
        if self.has_roles:
            return sums + 2 * self.run + 40
        operands = {
            "dp4a": WORD_BYTES * (self.thread_rows + 6),
            "mma": 2 * self.thread_rows + self.thread_channels,
            "wgmma": self.thread_channels,
        }[self.products]
        return sums + operands + self.loaded_rows * ((2 if self.has_tap_bits else 3) if self.is_window else 1) + 40

    @property
    def launch_registers(self) -> int:
        """Registers of a thread of a block that has all of a multiprocessor's."""
        return min(MOST_REGISTERS, _whole_units(REGISTERS_OF_A_MULTIPROCESSOR // self.threads))

    @property
    def gives_registers(self) -> bool:
        """Whether threads that copy have to give registers to those that multiply."""
        return self.launch_registers < MOST_TAKEN_REGISTERS

    @property
    def most_registers(self) -> int:
        """Registers that a thread may have which multiplies."""
        if not self.has_roles:
            return MOST_REGISTERS
        given = (self.launch_registers - COPYING_REGISTERS) * GROUP // (self.threads - GROUP)
        return min(MOST_TAKEN_REGISTERS, _whole_units(self.launch_registers + given))

    @property
    def run(self) -> int:
        """Neighbouring channels of a thread: as many as it stores at once, outputs or the sums of a split."""
        if self.products == "dp4a":
            return self.thread_channels
        return self.items_at_once(self.thread_channels, are_sums=self.splits > 1)

    def spread(self, channel: int) -> int:
        """From a thread's first channel to another one of its channels, in the tile."""
        return spread(channel, self.run)

    @property
    def store_width(self) -> int:
        """Neighbouring outputs that are stored at once."""
        common = math.gcd(self.image.out_channels, self.image.group_outputs, self.run)
        item_bytes = 4 if self.image.numerics.output == "s32" else 1
        return math.gcd(common, CHUNK_BYTES // item_bytes)

    @cached_property
    def channels(self) -> npt.NDArray[np.int64]:
        """The output channel of each position: [groups * channel tiles * block channels], the last one repeated."""
        within = np.minimum(np.arange(self.channel_tiles * self.block_channels), self.image.group_outputs - 1)
        return (np.arange(self.image.groups)[:, None] * self.image.group_outputs + within).reshape(-1)

    @property
    def weight_length(self) -> int:
        return len(self.channels) * self.steps * self.block_depth

    @property
    def weight_order(self) -> tuple[Any, ...]:
        """Forms of a layer for which this is the same pack weights the same way."""
        return self.products, self.block_channels, self.block_depth, self.thread_channels, self.run

    def row_of_channel(self, channel: int) -> int:
        """The row of weights in shared memory that has a channel of the tile."""
        if self.products == "dp4a":
            thread, within = divmod(channel, self.thread_channels)
            return within * (self.block_channels // self.thread_channels) + thread
        return row_of_channel(channel, self.thread_channels, self.run)

    def pack(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> npt.NDArray[np.int8]:  # noqa: ARG002
        """Weights [OC, KH, KW, C / groups] or [OC, K] as [channel tiles, steps, rows, chunks, 16]."""
        rows = weight.reshape(self.image.out_channels, self.taps, -1)
        filled = np.pad(rows, [(0, 0), (0, 0), (0, self.tap_bytes - rows.shape[2])]).reshape(len(rows), -1)
        deep = np.pad(filled, [(0, 0), (0, self.steps * self.block_depth - self.depth)])
        return packed(deep[self.channels], self.block_channels, self.block_depth, self.row_of_channel)

    @property
    def warps(self) -> int:
        return self.threads // WARP


def _whole_units(registers: int) -> int:
    return registers // THREAD_REGISTER_UNIT * THREAD_REGISTER_UNIT


def gemm_form(image: Image, products: str, config: Mapping[str, Value]) -> GemmForm:
    """The form of one config."""
    return GemmForm(
        image,
        products,
        block_rows=int(config["block_rows"]),
        block_channels=int(config["block_channels"]),
        block_depth=int(config["block_depth"]),
        thread_rows=int(config["thread_rows"]),
        thread_channels=int(config["thread_channels"]),
        stages=int(config["stages"]),
        splits=int(config["splits"]),
        outer=str(config["outer"]),
        roles=str(config.get("roles", "uniform")),
        added=str(config.get("added", "kernel")),
    )
