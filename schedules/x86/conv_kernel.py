"""conv2d and dense on x86, written as TIR: loops over tiles, and in each a tile of accumulators in registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.intrinsics.x86_vectors import X86Vectors
from int8tune.schedules.scale_bounds import bounds_scales
from int8tune.schedules.workload import Conv2d, Dense
from int8tune.schedules.written.accumulators import Accumulators
from int8tune.schedules.written.fetching import NextBlock, fetch_ahead
from int8tune.schedules.written.image import copied_image, image_in_place
from int8tune.schedules.written.rows import load_bytes
from int8tune.schedules.written.signature import declare_arguments
from int8tune.schedules.x86.border import kernel_rows, row_class
from int8tune.schedules.x86.conv_form import ColumnTiles, ConvForm, largest_divisor
from int8tune.schedules.x86.epilogue import Epilogue
from int8tune.schedules.x86.pending import PendingTile
from int8tune.schedules.x86.registers import TAPS
from int8tune.schedules.x86.tile_loops import Tile, TileLoops
from int8tune.schedules.x86.window_sums import corrections

# The end of a loop is mispredicted, which costs as much as some turns. Loops over rows and steps of fewer turns are
# made one, at the price of a division in each turn.
SHORT_LOOP = 24


def write_conv(workload: Conv2d | Dense, form: ConvForm, vectors: X86Vectors) -> Any:
    """The PrimFunc of a convolution: (data, weight, bias, rescale, params, out), each of one axis."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        _ConvWriter(workload, form, vectors).write()
    return builder.get()


@dataclass(frozen=True, slots=True)
class Run:
    """Products of adjacent values.

    Attributes:
        tap: of the kernel's row, with which the run begins.
        columns: of the tile, that take part.
        skipped: steps that are done already.
    """

    tap: int
    steps: int
    columns: Sequence[int]
    skipped: int = 0


class _ConvWriter:
    """Emits one kernel."""

    def __init__(self, workload: Conv2d | Dense, form: ConvForm, vectors: X86Vectors) -> None:
        self.workload = workload
        self.form = form
        self.vectors = vectors
        self.problem = form.image

    def write(self) -> None:
        """Arguments, the copy and the window sums where they are needed, the tiles."""
        form, problem = self.form, self.problem
        arguments = declare_arguments(self.workload, form, math.prod(form.weight_shape))
        self.weight, self.bias, self.positions = arguments.weight, arguments.bias, arguments.positions
        self.epilogue = Epilogue(self.vectors, problem.numerics, arguments, bounds_scales(self.workload))
        if form.copies:
            flip = problem.numerics.data == "s8"
            self.image = copied_image(problem, arguments, form.slack, form.threads, flip=flip)
        else:
            self.image = image_in_place(problem, arguments)
        self.corrections: Any = None
        if form.has_window_sum:
            self.corrections = corrections(problem, self.image, arguments.params, self.vectors, form.threads)
        TileLoops(form, form.blocks, self._begin, self._tile, self._end).emit()

    def _begin(self, first: Any, _behind: Any) -> None:
        """Accumulators, and where weights are fetched, inside the loop that threads share."""
        form = self.form
        shape = (form.tile_columns, form.tile_registers, form.lanes)
        self.sums = Accumulators(*shape)
        if form.pipelined:
            self.pending = PendingTile(*shape)
        if form.fetch == "next":
            self.next_block = NextBlock(self.weight, form.block_bytes, form.tiles_of_block, form.steps_of_fetch)
            self.next_block.begin(first)

    def _tile(self, tile: Tile) -> None:
        if self.form.fetch == "next":
            self.next_block.beside_tile()
        self._start(tile)
        self._reduce(tile)
        place = tile.k, self._output_at(tile)
        if self.form.pipelined and tile.columns.width == self.form.tile_columns:
            self.pending.take(self.sums, *place)
            return
        self._store(self.sums, range(tile.columns.width), *place)
        if self.form.pipelined:
            self.pending.put(0)

    def _end(self) -> None:
        if self.form.pipelined:
            with T.serial(0, self.form.store_turns) as turn:
                self._store_pending(turn)

    def _store_pending(self, turn: Any) -> None:
        """Store some columns of the last tile, if there is one."""
        pending, count = self.pending, self.form.store_columns
        with T.If(turn * count < pending.count), T.Then():
            self._store(pending.sums, [turn * count + column for column in range(count)], *pending.place)

    def _start(self, tile: Tile) -> None:
        """Begin each sum with its bias."""
        form, lanes = self.form, self.form.lanes
        classes = len(form.column_classes[1])
        row = row_class(form, tile.y)
        for column in range(tile.columns.width):
            border_class = row * classes + tile.columns.classes[column]
            for register in range(form.tile_registers):
                at = border_class * self.positions + (tile.k * form.tile_registers + register) * lanes
                value = self.bias.vload([at], f"int32x{lanes}")
                if self.corrections is not None:
                    value = self._corrected(value, tile, column)
                self.sums[column, register] = value

    def _corrected(self, bias: Any, tile: Tile, column: int) -> Any:
        """The bias without what the weights' zero point adds to the window of a column."""
        height, width = self.problem.output
        pixel = (tile.n * height + tile.y) * width + tile.x + column
        correction = self.corrections[pixel * self.problem.groups + self._group(tile.k)]
        return self.vectors.subtract(bias, T.broadcast(correction, self.form.lanes))

    def _group(self, k: Any) -> Any:
        return k // self.form.channel_tiles if self.problem.groups > 1 else 0

    def _reduce(self, tile: Tile) -> None:
        """Add all products: loops over kernel rows and the steps of a run, for all taps or tap by tap."""
        rows = kernel_rows(self.form, self.image, tile.y)
        for index, run in enumerate(self._runs(tile.columns)):
            if self.form.pipelined and index == 0:
                self._rest(run, self._beside_pending(run, rows, tile), rows, tile)
            else:
                self._run(run, rows, tile)
        for step in range(self.form.tail_steps):
            self._gathered(step, tile)

    def _beside_pending(self, run: Run, rows: tuple[Any, Any], tile: Tile) -> int:
        """The products of a run's first steps, with parts of the last tile stored between them; how many steps."""
        turns, steps = self.form.store_turns, self.form.steps_of_store_turn
        with T.serial(0, turns) as turn:
            for u in range(steps):
                step = turn * steps + u
                self._step(run, rows[0] + step // run.steps, step % run.steps, tile)
            self._store_pending(turn)
        return turns * steps

    def _rest(self, run: Run, done: int, rows: tuple[Any, Any], tile: Tile) -> None:
        """The products of a run whose first steps are done."""
        row, step = rows[0] + done // run.steps, done % run.steps
        if step:
            self._run(replace(run, skipped=step), (row, row + 1), tile)
            row = row + 1
        if not isinstance(row, int) or row < rows[1]:
            self._run(run, (row, rows[1]), tile)

    def _runs(self, tiles: ColumnTiles) -> list[Run]:
        """The runs of a kernel row; where taps are outside the image, each tap is one."""
        form, columns = self.form, range(tiles.width)
        if tiles.all_inside:
            return [Run(run, form.steps, columns) for run in range(self.problem.runs) if form.steps]
        inside = [[column for column in columns if of_tap[column]] for of_tap in tiles.inside]
        steps = self.problem.group_channels // TAPS
        return [Run(tap, steps, used) for tap, used in enumerate(inside) if used]

    def _run(self, run: Run, rows: tuple[Any, Any], tile: Tile) -> None:
        """The products of a run in some rows of the kernel."""
        unroll = largest_divisor(run.steps - run.skipped, self.form.unroll)
        turns = (run.steps - run.skipped) // unroll

        def emit(kh: Any, turn: Any) -> None:
            for u in range(unroll):
                # Between steps: with fetches at either end, LLVM loads the weights of all steps first, and spills sums.
                if self.form.fetch == "next" and u == unroll - 1:
                    self.next_block.beside_steps(unroll)
                self._step(run, kh, run.skipped + turn * unroll + u, tile)

        if turns < SHORT_LOOP:
            with T.serial(rows[0] * turns, rows[1] * turns) as index:
                emit(index // turns, index % turns)
        else:
            with T.serial(*rows) as kh, T.serial(0, turns) as turn:
                emit(kh, turn)

    def _step(self, run: Run, kh: Any, step: Any, tile: Tile) -> None:
        """The products of one word of each column."""
        form, problem, window = self.form, self.problem, self.problem.window
        row = tile.n * self.image.rows + tile.y * window.stride[0] - self.image.top + kh * window.dilation[0]
        column = tile.x * window.stride[1] - self.image.left + run.tap * window.dilation[1]
        data_at = row * self.image.row_bytes + column * problem.channels + self._group(tile.k) * problem.group_channels
        weight_step = tile.k * form.reduction_steps + kh * (problem.runs * form.steps) + run.tap * run.steps + step
        if form.fetch == "ahead":
            step_bytes = form.tile_registers * form.registers.weight_bytes
            fetch_ahead(self.weight, weight_step * step_bytes, step_bytes)
        self._dots(weight_step, run.columns, lambda column: self._word(data_at + step * TAPS, column))

    def _word(self, at: Any, column: int) -> Any:
        """The word at index `at` of the image, moved by a number of output columns."""
        at = at + column * self.problem.window.stride[1] * self.problem.channels
        return T.reinterpret(load_bytes(self.image.buffer, at, TAPS), dtype="int32")

    def _gathered(self, step: int, tile: Tile) -> None:
        """The products of one word of values that are left over at the ends of the kernel's rows."""
        form, problem, window = self.form, self.problem, self.problem.window
        stride = window.stride[1] * problem.channels
        taps = range(step * TAPS, min((step + 1) * TAPS, window.kernel[0] * form.tail))

        def word(column: int) -> Any:
            total: Any = T.uint32(0)
            for place, tap in enumerate(taps):
                row = tile.n * self.image.rows + tile.y * window.stride[0] - self.image.top
                row += tap // form.tail * window.dilation[0]
                at = row * self.image.row_bytes + tile.x * stride - self.image.left * problem.channels
                at += (
                    column * stride + self._group(tile.k) * problem.group_channels + form.steps * TAPS + tap % form.tail
                )
                value = T.cast(self.image.buffer[at], "uint32")
                total = T.bitwise_or(total, T.shift_left(value, T.uint32(8 * place)))
            return T.reinterpret(total, dtype="int32")

        weight_step = tile.k * form.reduction_steps + window.kernel[0] * problem.runs * form.steps + step
        self._dots(weight_step, range(tile.columns.width), word)

    def _dots(self, weight_step: Any, columns: Sequence[int], word: Callable[[int], Any]) -> None:
        """One dot product for each register of the tile; the shorter side's operands stay in registers."""
        vectors, registers = self.vectors, range(self.form.tile_registers)

        def data(column: int) -> Sequence[Any]:
            return vectors.data_operand(vectors.broadcast_word(word(column)))

        def weight(register: int) -> Sequence[Any]:
            return vectors.load_weight(self.weight, weight_step * self.form.tile_registers + register)

        def dot(column: int, register: int, data: Sequence[Any], weight: Sequence[Any]) -> None:
            self.sums[column, register] = vectors.multiply_add(self.sums[column, register], data, weight)

        if len(columns) < len(registers):
            kept = [(column, data(column)) for column in columns]
            for register in registers:
                loaded = weight(register)
                for column, operand in kept:
                    dot(column, register, operand, loaded)
            return
        weights = [weight(register) for register in registers]
        for column in columns:
            operand = data(column)
            for register in registers:
                dot(column, register, operand, weights[register])

    def _output_at(self, tile: Tile) -> Any:
        """Index of the tile's first output."""
        form, problem = self.form, self.problem
        k = tile.k % form.channel_tiles if problem.groups > 1 else tile.k
        overlap = problem.group_outputs % form.tile_outputs != 0
        first = k * form.tile_outputs
        first = T.min(first, problem.group_outputs - form.tile_outputs) if overlap and form.channel_tiles > 1 else first
        height, width = problem.output
        pixel = (tile.n * height + tile.y) * width + tile.x
        return pixel * problem.out_channels + self._group(tile.k) * problem.group_outputs + first

    def _store(self, sums: Accumulators, columns: Sequence[Any], k: Any, at: Any) -> None:
        """Requantize and store columns of the tile at output `at`."""
        form = self.form
        channel = k * form.tile_registers * form.lanes

        def place(column: Any) -> Any:
            return at + column * self.problem.out_channels

        self.epilogue.store_tile(sums, columns, place, channel, form.tile_outputs)
