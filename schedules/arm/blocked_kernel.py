"""conv2d and dense on ARM by blocks of channels, written as TIR: loops over tiles, sums, and blocks of channels."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arm.blocked_form import MOST_TOGETHER, PARTS, BlockedForm
from int8tune.schedules.arm.blocked_image import BlockedImage
from int8tune.schedules.arm.blocked_products import BlockedProducts, BlockedStep
from int8tune.schedules.arm.epilogue import Epilogue
from int8tune.schedules.arm.tile_loops import emit_tiles
from int8tune.schedules.arm.tiling import HEADER_BYTES, LANES
from int8tune.schedules.intrinsics import arm_vectors as arm
from int8tune.schedules.intrinsics.arm_loads import (
    address_of,
    import_loads,
    load_registers,
    moved,
    store_registers,
)
from int8tune.schedules.workload import Conv2d, Dense
from int8tune.schedules.written.accumulators import ON_STACK, Accumulators
from int8tune.schedules.written.rows import repeat
from int8tune.schedules.written.signature import Arguments, declare_arguments

# Addresses that are computed together, where sums begin with zero and where they don't; by trial, too.
MOST_ADDRESSES = (20, 16)


def write_blocked(workload: Conv2d | Dense, form: BlockedForm) -> Any:
    """The PrimFunc of a convolution: (data, weight, bias, rescale, params, out), each of one axis."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        arguments = declare_arguments(workload, form, form.weight_length)
        with import_loads():
            _write(form, arguments)
    return builder.get()


def _write(form: BlockedForm, arguments: Arguments) -> None:
    image = BlockedImage(form, arguments)
    image.write()
    whole, rest = divmod(form.image.output[1], form.tile_columns)
    channel_tiles, rows = form.image.groups * form.channel_tiles, form.image.batch * form.image.output[0]
    for first, tiles, columns in ((0, whole, form.tile_columns), (whole, min(rest, 1), rest)):
        if tiles:
            writer = _TileWriter(form, arguments, image.buffer, columns, first * form.tile_columns)
            writer.write_offsets()
            emit_tiles(form.outer == "weights", (channel_tiles, rows, tiles), form.threads, writer)


class _TileWriter:
    """Emits tiles of `columns`, the first of which begins at column `first` of a row."""

    def __init__(self, form: BlockedForm, arguments: Arguments, data: Any, columns: int, first: int) -> None:
        self.form, self.problem = form, form.image
        self.weight, self.bias, self.data = arguments.weight, arguments.bias, data
        self.columns, self.first = columns, first
        self.epilogue = Epilogue(self.problem.numerics, arguments, in_stages=True)

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
        data = address_of(self.data, data_at)
        products = BlockedProducts(
            self.columns,
            form.step_channels,
            form.weights_together,
            MOST_ADDRESSES[form.begins_sums],
            self.sums,
            self._steps(),
        )
        products.begin(data, address_of(self.weight, k * form.tile_bytes + HEADER_BYTES))
        repeat(form.steps_of_tile, lambda step: self._sum_up(step, data, parts, products))
        self._store(k, group, (n * height + y) * width + x)

    def _group(self, k: Any) -> Any:
        return k // self.form.channel_tiles if self.problem.groups > 1 else 0

    def _sum_up(self, step: Any, data: Any, parts: Any, products: BlockedProducts) -> None:
        """The totals of some of a tile's channels."""
        form = self.form
        weights = products.weights

        def turn(index: Any) -> None:
            """The turn with this number; the next one is of this sum, or the first one of the next sum."""
            first = ((parts - 1) * self.longest + index + 1) * 2
            offsets = [T.Bind(self.offsets[first + place]) for place in range(2)]

            def following() -> tuple[Any, Any]:
                return moved(data, offsets[0]), moved(weights, offsets[1])

            products.turn(following, is_first=isinstance(index, int))

        if form.begins_sums:
            turn(0)
        else:
            self._zero()
        with T.serial(int(form.begins_sums), form.turns * parts) as index:
            turn(index)
        totals = self._added()
        store_registers(address_of(self.totals, step * self.registers * LANES), totals)

    def _zero(self) -> None:
        for channel in range(self.form.step_channels):
            for column in range(self.columns):
                self.sums[column, channel] = T.broadcast(T.int32(0), LANES)

    def _steps(self) -> list[BlockedStep]:
        """Those of a turn."""
        form, block_bytes = self.form, self.form.block_bytes(self.columns)
        places = itertools.product(
            range(form.blocks_of_turn), range(form.rows_of_turn), range(self.problem.window.kernel[1])
        )
        return [
            BlockedStep(block * block_bytes + form.tap_at(row, column), index * form.step_bytes, form.is_half(block))
            for index, (block, row, column) in enumerate(places)
        ]

    @property
    def longest(self) -> int:
        """Turns of a sum whose weights have two parts, and the one that follows."""
        return PARTS * self.form.turns + 1

    def write_offsets(self) -> None:
        """Store where each turn of a sum has its data and weights, from where its first one has them.

        First for weights of one part, then for those of two; behind the last turn is the next sum's first one.
        """
        form, block_bytes = self.form, self.form.block_bytes(self.columns)
        self.offsets = T.alloc_buffer((PARTS * self.longest * 2,), "int64")
        rows, blocks = self.problem.window.kernel[0] // form.rows_of_turn, form.blocks // form.blocks_of_turn

        def store(turn: Any, data: Any, weights: Any) -> None:
            for place, offset in enumerate((data, weights)):
                T.buffer_store(self.offsets, T.cast(offset, "int64"), [turn * 2 + place])

        def write(first: int, part: int, row: Any, block: Any) -> None:
            index = row * blocks + block
            data = form.tap_at(row * form.rows_of_turn, 0) + block * (form.blocks_of_turn * block_bytes)
            store(first + part * form.turns + index, data, part * form.part_bytes + index * form.turn_bytes)

        for parts in range(1, PARTS + 1):
            first = (parts - 1) * self.longest
            for part in range(parts):
                repeat(rows, lambda row: repeat(blocks, lambda block: write(first, part, row, block)))  # noqa: B023
            store(first + parts * form.turns, 0, form.turns * form.turn_bytes)

    def _added(self) -> list[Any]:
        """The totals of all columns, behind each other: one int32x4 for four channels."""
        registers = [
            self.sums[column, channel] for column in range(self.columns) for channel in range(self.form.step_channels)
        ]
        while len(registers) > self.registers:
            registers = arm.in_turn([arm.add_neighbours(*registers[i : i + 2]) for i in range(0, len(registers), 2)])
        return registers

    def _store(self, k: Any, group: Any, pixel: Any) -> None:
        """Requantize and store the tile whose first output has this number."""
        form, problem = self.form, self.problem
        within = k % form.channel_tiles if problem.groups > 1 else k
        first = within * form.tile_outputs
        if problem.group_outputs % form.tile_outputs and form.channel_tiles > 1:
            first = T.min(first, problem.group_outputs - form.tile_outputs)
        at = pixel * problem.out_channels + group * problem.group_outputs + first
        places = [at + column * problem.out_channels for column in range(self.columns)]
        position = k * form.tile_channels
        self.epilogue.store(lambda group, _: self._totals(group, position), places, position, form.tile_outputs)

    def _totals(self, group: range, position: Any) -> Generator[None, None, list[list[Any]]]:
        """Some registers of each column's totals, with their biases."""
        of_column, columns = self.form.step_channels // LANES, range(self.columns)
        steps = range(group.start // of_column, -(-group.stop // of_column))
        places = [(step, first) for step in steps for first in range(0, self.registers, MOST_TOGETHER)]
        bias_at = address_of(self.bias, position + group.start * LANES)
        addresses = [address_of(self.totals, (step * self.registers + first) * LANES) for step, first in places]
        biases = dict(zip(group, load_registers(bias_at, len(group)), strict=True))
        loaded: dict[tuple[int, int], Any] = {}
        for (step, first), address in zip(places, addresses, strict=True):
            registers = load_registers(address, min(MOST_TOGETHER, self.registers - first))
            arm.keep_order(registers[0])
            yield
            loaded |= {(step, first + index): register for index, register in enumerate(registers)}
        keys = [
            (column, step * of_column + register)
            for step in steps
            for column in columns
            for register in range(of_column)
            if step * of_column + register in group
        ]

        def with_bias(column: int, register: int) -> Any:
            step, within = divmod(register, of_column)
            pair = loaded[step, column * of_column + within], biases[register]
            total, bias = (T.reinterpret(value, dtype="int32x4") for value in pair)
            return arm.wrapping_add(total, bias, LANES, "int32")

        totals = dict(zip(keys, arm.in_turn([with_bias(*key) for key in keys]), strict=True))
        return [[totals[column, register] for register in group] for column in columns]
