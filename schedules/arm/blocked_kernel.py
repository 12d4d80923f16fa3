"""conv2d and dense on ARM by blocks of channels, written as TIR: loops over tiles, sums, and blocks of channels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from schedules.arm.blocked_form import PARTS, BlockedForm
from schedules.arm.blocked_image import BlockedImage
from schedules.arm.blocked_products import BlockedProducts, BlockedStep
from schedules.arm.epilogue import Epilogue
from schedules.arm.tile_loops import emit_tiles
from schedules.arm.tiling import HEADER_BYTES, LANES
from schedules.intrinsics import arm_vectors as arm
from schedules.workload import Conv2d, Dense
from schedules.written.accumulators import ON_STACK, Accumulators
from schedules.written.rows import repeat, share, store_vector
from schedules.written.signature import Arguments, declare_arguments


def write_blocked(workload: Conv2d | Dense, form: BlockedForm) -> Any:
    """The PrimFunc of a convolution: (data, weight, bias, rescale, params, out), each of one axis."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        arguments = declare_arguments(workload, form, form.weight_length)
        with arm.import_loads():
            _write(form, arguments)
    return builder.get()


def _write(form: BlockedForm, arguments: Arguments) -> None:
    image = BlockedImage(form, arguments)
    image.write()
    starts = _bias_rows(form, arguments)
    whole, rest = divmod(form.image.output[1], form.tile_columns)
    channel_tiles, rows = form.image.groups * form.channel_tiles, form.image.batch * form.image.output[0]
    for first, tiles, columns in ((0, whole, form.tile_columns), (whole, min(rest, 1), rest)):
        if tiles:
            writer = _TileWriter(form, arguments, image.buffer, starts, columns, first * form.tile_columns)
            emit_tiles(form.outer == "weights", (channel_tiles, rows, tiles), form.threads, writer)


def _bias_rows(form: BlockedForm, arguments: Arguments) -> Any:
    """What each sum's four lanes begin with: its bias, and zeros."""
    positions = len(form.channels)
    rows = T.alloc_buffer((positions * LANES,), "int32")

    def some(index: Any) -> None:
        values = [arguments.bias.vload([index * LANES], f"int32x{LANES}"), T.broadcast(T.int32(0), LANES)]
        for place in range(LANES):
            row = T.Shuffle(values, [place, LANES, LANES, LANES])
            store_vector(rows, (index * LANES + place) * LANES, row, LANES)

    share(positions // LANES, form.threads, some)
    return rows


class _TileWriter:
    """Emits tiles of `columns`, the first of which begins at column `first` of a row."""

    def __init__(
        self, form: BlockedForm, arguments: Arguments, data: Any, starts: Any, columns: int, first: int
    ) -> None:
        self.form, self.problem = form, form.image
        self.weight, self.data, self.starts = arguments.weight, data, starts
        self.columns, self.first = columns, first
        self.epilogue = Epilogue(self.problem.numerics, arguments)

    @property
    def registers(self) -> int:
        """Registers of totals of the channels that are summed at a time."""
        return self.columns * self.form.step_channels // LANES

    def begin(self) -> None:
        self.sums = Accumulators(self.columns, self.form.step_channels, LANES)
        size = self.form.steps_of_tile * self.registers * LANES
        self.totals = T.alloc_buffer((size,), "int32", annotations=ON_STACK)

    def tile(self, k: Any, row: Any, index: Any) -> None:
        form, problem, (height, width) = self.form, self.problem, self.problem.output
        n, y = (row // height, row % height) if problem.batch > 1 else (0, row)
        x, group = self.first + index * form.tile_columns, self._group(k)
        data_at = (n * problem.groups + group) * form.group_bytes + x * form.column_bytes
        data_at += y * (problem.window.stride[0] // form.row_step) * form.row_bytes
        parts = T.Bind(1 + T.cast(T.reinterpret(self.weight[k * form.tile_bytes], dtype="uint8"), "int32"))
        repeat(form.steps_of_tile, lambda step: self._sum_up(k, step, data_at, parts))
        self._store(k, group, (n * height + y) * width + x)

    def _group(self, k: Any) -> Any:
        return k // self.form.channel_tiles if self.problem.groups > 1 else 0

    def _sum_up(self, k: Any, step: Any, data_at: Any, parts: Any) -> None:
        """The totals of some of a tile's channels."""
        form = self.form
        weight_at = k * form.tile_bytes + HEADER_BYTES + step * (PARTS * form.part_bytes)
        self._start(k * form.tile_channels + step * form.step_channels)
        with T.serial(0, parts) as part:
            self._reduce(data_at, weight_at + part * form.part_bytes)
        totals = [value for column in range(self.columns) for value in self._added(column)]
        for index, value in enumerate(totals):
            store_vector(self.totals, (step * self.registers + index) * LANES, value, LANES)

    def _start(self, position: Any) -> None:
        """Begin each sum with its bias in one lane."""
        for channel in range(self.form.step_channels):
            value = self.starts.vload([(position + channel) * LANES], f"int32x{LANES}")
            for column in range(self.columns):
                self.sums[column, channel] = value

    def _reduce(self, data_at: Any, weight_at: Any) -> None:
        """All products of a part: loops over the kernel's rows, if a turn has one, and over blocks."""
        form, window = self.form, self.problem.window
        run_bytes = form.rows_of_turn * window.kernel[1] * form.blocks * form.step_bytes
        repeat(
            window.kernel[0] // form.rows_of_turn,
            lambda row: self._blocks(data_at + form.tap_at(row, 0), weight_at + row * run_bytes),
        )

    def _blocks(self, data_at: Any, weight_at: Any) -> None:
        """The taps of a turn, of all blocks."""
        form, block_bytes = self.form, self.form.block_bytes(self.columns)
        turns = form.whole_blocks // form.blocks_of_turn
        turn_bytes = form.blocks_of_turn * block_bytes, form.steps_of_turn * form.step_bytes

        def data(turn: Any) -> Any:
            return arm.hidden(self.data, data_at + turn * turn_bytes[0])

        def weights(turn: Any) -> Any:
            return arm.hidden(self.weight, weight_at + turn * turn_bytes[1])

        steps = self._steps(form.blocks_of_turn)
        if turns > 1:
            self._products([*steps, BlockedStep(*turn_bytes)]).emit_loop(turns, data(0), weights(0))
        elif turns:
            self._products(steps).emit(data(0), weights(0))
        if form.has_half:
            steps = [replace(step, is_half=True) for step in self._steps(1)]
            self._products(steps).emit(data(turns), weights(turns))

    def _products(self, steps: Sequence[BlockedStep]) -> BlockedProducts:
        return BlockedProducts(self.columns, self.form.step_channels, self.sums, steps)

    def _steps(self, blocks: int) -> list[BlockedStep]:
        """A turn: so many blocks at its taps."""
        form, block_bytes = self.form, self.form.block_bytes(self.columns)
        places = itertools.product(range(blocks), range(form.rows_of_turn), range(self.problem.window.kernel[1]))
        return [
            BlockedStep(block * block_bytes + form.tap_at(row, column), index * form.step_bytes)
            for index, (block, row, column) in enumerate(places)
        ]

    def _added(self, column: int) -> Sequence[Any]:
        """The totals of a column: one int32x4 for four channels."""
        registers = [self.sums[column, channel] for channel in range(self.form.step_channels)]
        while len(registers) * LANES > self.form.step_channels:
            registers = [arm.add_neighbours(*registers[i : i + 2]) for i in range(0, len(registers), 2)]
        return registers

    def _store(self, k: Any, group: Any, pixel: Any) -> None:
        """Requantize and store the tile whose first output has this number."""
        form, problem = self.form, self.problem
        within = k % form.channel_tiles if problem.groups > 1 else k
        first = within * form.tile_outputs
        if problem.group_outputs % form.tile_outputs and form.channel_tiles > 1:
            first = T.min(first, problem.group_outputs - form.tile_outputs)
        at = pixel * problem.out_channels + group * problem.group_outputs + first
        pixels = [(self._totals(column), at + column * problem.out_channels) for column in range(self.columns)]
        self.epilogue.store(pixels, k * form.tile_channels, form.tile_outputs)

    def _totals(self, column: int) -> list[Any]:
        """The totals of a column, of all channels."""
        of_column = self.form.step_channels // LANES
        return [
            self.totals.vload([(step * self.registers + column * of_column + register) * LANES], f"int32x{LANES}")
            for step in range(self.form.steps_of_tile)
            for register in range(of_column)
        ]
