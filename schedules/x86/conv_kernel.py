"""conv2d and dense on x86, written as TIR: loops over tiles, and in each a tile of accumulators in registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from schedules.intrinsics.x86_vectors import X86Vectors
from schedules.workload import Conv2d, Dense
from schedules.x86.channels import register_groups
from schedules.x86.conv_form import ColumnTiles, ConvForm
from schedules.x86.epilogue import Epilogue, Pixel
from schedules.x86.image import copied_image, image_in_place
from schedules.x86.registers import TAPS
from schedules.x86.rows import load_bytes, repeat, share
from schedules.x86.signature import declare_arguments
from schedules.x86.window_sums import corrections

# The end of a loop is mispredicted, which costs as much as some turns. Loops over rows and steps of fewer turns are
# made one, at the price of a division in each turn.
SHORT_LOOP = 24


def write_conv(workload: Conv2d | Dense, form: ConvForm, vectors: X86Vectors) -> Any:
    """The PrimFunc of a convolution: (data, weight, bias, rescale, params, out), each of one axis."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        _ConvWriter(workload, form, vectors).write()
    return builder.get()


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
        self.epilogue = Epilogue(self.vectors, problem.numerics, arguments)
        if form.copies:
            self.image = copied_image(problem, arguments, form.slack, form.threads)
        else:
            self.image = image_in_place(problem, arguments)
        self.corrections: Any = None
        if form.has_window_sum:
            self.corrections = corrections(problem, self.image, arguments.params, self.vectors, form.threads)
        if form.outer == "weights":
            self._weights_outside()
        else:
            self._image_outside()

    def _weights_outside(self) -> None:
        """All rows of all images for one tile of channels after the other; threads share the channels."""

        def channels(k: Any) -> None:
            self._begin_tiles()
            repeat(self._all_rows, lambda row: self._row(1, lambda t, x: self._tile(t, k, *self._place(row), x)))

        share(self._channel_tiles, self.form.threads, channels)

    def _image_outside(self) -> None:
        """All channels for one tile of the image after the other; threads share rows, or the tiles of the only row."""
        threads = self.form.threads

        def row(row: Any) -> None:
            if self._all_rows > 1:
                self._begin_tiles()
            self._row(threads if self._all_rows == 1 else 1, lambda t, x: tile(t, row, x))

        def tile(tiles: ColumnTiles, row: Any, x: Any) -> None:
            if self._all_rows == 1:
                self._begin_tiles()
            repeat(self._channel_tiles, lambda k: self._tile(tiles, k, *self._place(row), x))

        share(self._all_rows, threads, row)

    def _begin_tiles(self) -> None:
        """Accumulators, inside the loop that threads share."""
        form = self.form
        self.sums = T.alloc_buffer((form.tile_columns * form.tile_registers, form.lanes), "int32", scope="local")

    @property
    def _channel_tiles(self) -> int:
        return self.problem.groups * self.form.channel_tiles

    @property
    def _all_rows(self) -> int:
        return self.problem.batch * self.problem.output[0]

    def _place(self, row: Any) -> tuple[Any, Any]:
        """The image, and the row in it."""
        height = self.problem.output[0]
        return (row // height, row % height) if self.problem.batch > 1 else (0, row)

    def _row(self, threads: int, emit: Callable[[ColumnTiles, Any], None]) -> None:
        """The tiles of a row."""
        for tiles in self.form.column_tiles:
            share(tiles.count, threads, partial(self._columns, tiles, emit))

    def _columns(self, tiles: ColumnTiles, emit: Callable[[ColumnTiles, Any], None], index: Any) -> None:
        """One tile of a row; the last one of a row may overlap its neighbour."""
        start = tiles.first + index * self.form.tile_columns
        overlaps = tiles.first + (tiles.count - 1) * self.form.tile_columns > tiles.last
        emit(tiles, T.min(start, tiles.last) if overlaps else start)

    def _tile(self, tiles: ColumnTiles, k: Any, n: Any, y: Any, x: Any) -> None:
        """One register tile: channel tile `k` of the columns from `x` on in row `y` of image `n`."""
        self._start(tiles, k, n, y, x)
        self._reduce(tiles, k, n, y, x)
        self._store(k, n, y, x)

    def _start(self, tiles: ColumnTiles, k: Any, n: Any, y: Any, x: Any) -> None:
        """Begin each sum with its bias."""
        form, lanes = self.form, self.form.lanes
        classes = len(form.column_classes[1])
        row_class = self._row_class(y)
        for column in range(form.tile_columns):
            border_class = row_class * classes + tiles.classes[column]
            for register in range(form.tile_registers):
                at = border_class * self.positions + (k * form.tile_registers + register) * lanes
                value = self.bias.vload([at], f"int32x{lanes}")
                if self.corrections is not None:
                    value = self._corrected(value, n, y, x + column, k)
                self._set_sum(column, register, value)

    def _row_class(self, y: Any) -> Any:
        classes = self.form.row_classes[0]
        if isinstance(y, int):
            return classes[y]
        changes = [row for row in range(1, len(classes)) if classes[row] != classes[row - 1]]
        return sum((T.cast(y >= row, "int32") for row in changes), T.int32(0)) if changes else 0

    def _corrected(self, bias: Any, n: Any, y: Any, x: Any, k: Any) -> Any:
        height, width = self.problem.output
        group = k // self.form.channel_tiles if self.problem.groups > 1 else 0
        correction = self.corrections[((n * height + y) * width + x) * self.problem.groups + group]
        return self.vectors.subtract(bias, T.broadcast(correction, self.form.lanes))

    def _reduce(self, tiles: ColumnTiles, k: Any, n: Any, y: Any, x: Any) -> None:
        """Add all products: loops over kernel rows and the steps of a run, for all taps or tap by tap."""
        form, window = self.form, self.problem.window
        columns = range(form.tile_columns)
        if tiles.all_inside:
            for run in range(self.problem.runs if form.steps else 0):
                self._run(run * form.steps, form.steps, run, columns, (k, n, y, x))
            for step in range(form.tail_steps):
                self._gathered(step, k, n, y, x)
            return
        steps = self.problem.group_channels // TAPS
        for tap in range(window.kernel[1]):
            inside = [column for column in columns if tiles.inside[tap][column]]
            if inside:
                self._run(tap * steps, steps, tap, inside, (k, n, y, x))

    def _run(self, first_step: int, steps: int, tap: int, columns: Sequence[int], place: tuple[Any, ...]) -> None:
        """The products of `steps` steps in each kernel row, from tap `tap` on."""
        form, problem, window = self.form, self.problem, self.problem.window
        k, n, y, x = place
        first_row, last_row = self._kernel_rows(y)
        group = k // form.channel_tiles if problem.groups > 1 else 0
        column = x * window.stride[1] - self.image.left + tap * window.dilation[1]
        steps_of_a_row = problem.runs * form.steps

        def body(kh: Any, step: Any) -> None:
            row = n * self.image.rows + y * window.stride[0] - self.image.top + kh * window.dilation[0]
            data_at = row * self.image.row_bytes + column * problem.channels + group * problem.group_channels
            weight_step = k * form.reduction_steps + kh * steps_of_a_row + first_step + step
            self._dots(weight_step, columns, lambda column: self._word(data_at + step * TAPS, column))

        unroll = form.unroll
        while unroll > 1 and steps % unroll:
            unroll //= 2
        turns = steps // unroll
        if turns < SHORT_LOOP:
            with T.serial(first_row * turns, last_row * turns) as turn:
                for u in range(unroll):
                    body(turn // turns, turn % turns * unroll + u)
            return
        with T.serial(first_row, last_row) as kh, T.serial(0, turns) as turn:
            for u in range(unroll):
                body(kh, turn * unroll + u)

    def _kernel_rows(self, y: Any) -> tuple[Any, Any]:
        """The kernel's rows that are inside the image: the first, and the one behind the last."""
        window, form = self.problem.window, self.form
        size, step = window.kernel[0], window.dilation[0]
        if len(form.row_classes[1]) == 1 and form.row_classes[1].all():
            return 0, size
        origin = self.image.top - y * window.stride[0]
        first = T.max(0, T.floordiv(origin + step - 1, step))
        behind = T.min(size, T.floordiv(origin + self.problem.height + step - 1, step))
        return first, behind

    def _word(self, at: Any, column: int) -> Any:
        """The word at index `at` of the image, moved by a number of output columns."""
        at = at + column * self.problem.window.stride[1] * self.problem.channels
        return T.reinterpret(load_bytes(self.image.buffer, at, TAPS), dtype="int32")

    def _gathered(self, step: int, k: Any, n: Any, y: Any, x: Any) -> None:
        """The products of one word of values that are left over at the ends of the kernel's rows."""
        form, problem, window = self.form, self.problem, self.problem.window
        stride = window.stride[1] * problem.channels
        group = k // form.channel_tiles if problem.groups > 1 else 0
        taps = range(step * TAPS, min((step + 1) * TAPS, window.kernel[0] * form.tail))

        def word(column: int) -> Any:
            total: Any = T.uint32(0)
            for place, tap in enumerate(taps):
                row = n * self.image.rows + y * window.stride[0] - self.image.top
                row += tap // form.tail * window.dilation[0]
                at = row * self.image.row_bytes + x * stride - self.image.left * problem.channels
                at += column * stride + group * problem.group_channels + form.steps * TAPS + tap % form.tail
                value = T.cast(self.image.buffer[at], "uint32")
                total = T.bitwise_or(total, T.shift_left(value, T.uint32(8 * place)))
            return T.reinterpret(total, dtype="int32")

        weight_step = k * form.reduction_steps + window.kernel[0] * problem.runs * form.steps + step
        self._dots(weight_step, range(form.tile_columns), word)

    def _dots(self, weight_step: Any, columns: Sequence[int], word: Callable[[int], Any]) -> None:
        """One dot product for each register of the tile; the shorter side's operands stay in registers."""
        vectors, registers = self.vectors, range(self.form.tile_registers)

        def data(column: int) -> Sequence[Any]:
            return vectors.data_operand(vectors.broadcast_word(word(column)))

        def weight(register: int) -> Sequence[Any]:
            return vectors.load_weight(self.weight, weight_step * self.form.tile_registers + register)

        def dot(column: int, register: int, data: Sequence[Any], weight: Sequence[Any]) -> None:
            self._set_sum(column, register, vectors.multiply_add(self._sum(column, register), data, weight))

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

    def _sum(self, column: int, register: int) -> Any:
        return self.sums[column * self.form.tile_registers + register, T.ramp(0, 1, self.form.lanes)]

    def _set_sum(self, column: int, register: int, value: Any) -> None:
        at = [column * self.form.tile_registers + register, T.ramp(0, 1, self.form.lanes)]
        T.buffer_store(self.sums, value, at)

    def _store(self, k: Any, n: Any, y: Any, x: Any) -> None:
        form, problem = self.form, self.problem
        group, tile = (k // form.channel_tiles, k % form.channel_tiles) if problem.groups > 1 else (0, k)
        overlap = problem.group_outputs % form.tile_outputs != 0
        first = tile * form.tile_outputs
        first = T.min(first, problem.group_outputs - form.tile_outputs) if overlap and form.channel_tiles > 1 else first
        height, width = problem.output
        at = ((n * height + y) * width + x) * problem.out_channels + group * problem.group_outputs + first
        register = 0
        for size in register_groups(form.tile_registers):
            pixels = [
                Pixel(
                    [self._sum(column, register + r) for r in range(size)],
                    at + column * problem.out_channels + register * form.lanes,
                )
                for column in range(form.tile_columns)
            ]
            channel = (k * form.tile_registers + register) * form.lanes
            valid = max(0, min(size * form.lanes, form.tile_outputs - register * form.lanes))
            self.epilogue.store(pixels, channel, valid)
            register += size
