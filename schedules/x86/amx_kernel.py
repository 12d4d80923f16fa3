"""conv2d and dense on AMX, written as TIR: loops over blocks, and in each the products of tile registers.

Sums leave tile registers through memory. From there they become bytes like those of other kernels
(`schedules.x86.epilogue`), in parts that lie between the products of the next block: tiles are multiplied by a unit of
their own, which goes on while vectors are stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.intrinsics import x86_tiles as tiles
from int8tune.schedules.intrinsics.x86_vectors import X86Vectors
from int8tune.schedules.scale_bounds import bounds_scales
from int8tune.schedules.workload import Conv2d, Dense
from int8tune.schedules.written.fetching import fetch_ahead
from int8tune.schedules.written.image import Portion, ReadImage, bordered_image, image_in_place
from int8tune.schedules.written.rows import divided, repeat
from int8tune.schedules.written.signature import declare_arguments
from int8tune.schedules.x86.amx_form import LANES, ROW_BYTES, TILE_REGISTERS, AmxForm
from int8tune.schedules.x86.amx_image import pixels_image, split_image
from int8tune.schedules.x86.epilogue import Epilogue
from int8tune.schedules.x86.pending import PendingPlace
from int8tune.schedules.x86.registers import TAPS
from int8tune.schedules.x86.tile_loops import Tile, TileLoops
from int8tune.schedules.x86.window_sums import corrections


def write_amx(workload: Conv2d | Dense, form: AmxForm, vectors: X86Vectors) -> Any:
    """The PrimFunc of a convolution: (data, weight, bias, rescale, params, out), each of one axis."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        _AmxWriter(workload, form, vectors).write()
    return builder.get()


@dataclass(frozen=True, slots=True)
class _StoredSums:
    """Sums of a block in memory, [columns, registers, lanes], less what weights' zero points take of them.

    Attributes:
        rows: registers of a pixel.
        column: where the sums of a pixel are.
        correct: turns a pixel's sums into those without zero point.
    """

    buffer: Any
    rows: int
    column: Callable[[Any], Any]
    correct: Callable[[Any, Any], Any]

    def __getitem__(self, place: tuple[Any, int]) -> Any:
        pixel, register = place
        at = (self.column(pixel) * self.rows + register) * LANES
        return self.correct(self.buffer.vload([at], f"int32x{LANES}"), pixel)


def _nothing(_: Any) -> None:
    """Emit nothing."""


class _AmxWriter:
    """Emits one kernel."""

    def __init__(self, workload: Conv2d | Dense, form: AmxForm, vectors: X86Vectors) -> None:
        self.workload = workload
        self.form = form
        self.vectors = vectors
        self.problem = form.image
        self.image: ReadImage
        self.types = (form.image.numerics.data, form.image.numerics.weight)
        # Registers: sums, then the operands that stay, then the one that changes.
        self.data_count = len(form.data_tiles)
        self.kept = self.data_count * form.tile_registers

    def write(self) -> None:
        """Arguments, the copy and the window sums where they are needed, the blocks."""
        form, problem = self.form, self.problem
        arguments = declare_arguments(self.workload, form, math.prod(form.weight_shape))
        self.weight, self.bias, self.out = arguments.weight, arguments.bias, arguments.out
        self.epilogue = Epilogue(self.vectors, problem.numerics, arguments, bounds_scales(self.workload))
        self.arguments = arguments
        if not form.own_copies:
            self.image = self._image(form.threads)
        self.corrections: Any = None
        if form.has_window_sum:
            self.corrections = corrections(problem, self.image, arguments.params, self.vectors, form.threads)
        # The last block of a turn is stored beside the first one of the next.
        self.loops = TileLoops(form, form.channel_tiles, self._begin, self._block, self._end, begins_once=True)
        self.loops.emit()

    def _image(self, made: int | Portion) -> ReadImage:
        """The image that is read; a copy is made by all threads together, or a thread's portion of it by itself."""
        form = self.form
        if form.split:
            return split_image(form, self.arguments, made)
        if form.by_pixels:
            return pixels_image(form, self.arguments, made)
        if form.copies:
            return bordered_image(self.problem, self.arguments, form.row_bytes, made, flip=False)
        return image_in_place(self.problem, self.arguments)

    def _portion(self, first: Any, behind: Any) -> Portion:
        """What the turns of a thread read."""
        form, batch, (count, columns) = self.form, self.problem.batch, self.form.copied_rows
        rows: tuple[Any, Any] = (0, count)
        if form.outer == "weights":
            return Portion((0, batch), rows)
        if self.loops.rows == 1:
            if form.joined or form.by_pixels:
                start, last = (self.loops.start(form.column_tiles[0], index) for index in (first, behind - 1))
                end = (last + form.tile_columns - 1) // columns + form.rows_below + 1
                # Sums of the border's columns read a row more; they are dropped.
                rows = start // columns, T.min(end, count)
            return Portion((0, 1), rows)
        (n, y), (last_n, last_y) = (self.loops.image_row(row) for row in (first, behind - 1))
        if batch == 1:
            rows = y * form.strides[0], (last_y + form.tile_rows - 1) * form.strides[0] + form.rows_below + 1
        return Portion((n, last_n + 1), rows)

    def _begin(self, first: Any, behind: Any) -> None:
        """What each thread has of its own: registers, sums in memory, and which of them are not stored yet."""
        form = self.form
        if form.own_copies:
            self.image = self._image(self._portion(first, behind))
        rows, words = form.columns_of_register, form.step_bytes // TAPS
        sums, data, weight = (rows, ROW_BYTES), (rows, form.step_bytes), (words, ROW_BYTES)
        kept, changing = (weight, data) if form.keeps_weights else (data, weight)
        operands = [kept] * min(self.data_count, form.tile_registers) + [changing]
        shapes = [sums] * self.kept + operands
        tiles.configure(shapes + [changing] * (TILE_REGISTERS - len(shapes)))
        self.sums = T.alloc_buffer((form.tile_rows * form.tile_columns * form.tile_registers * LANES,), "int32")
        self.pending = PendingPlace(4 if form.joined else 2)

    def _end(self) -> None:
        if self.form.pipelined:
            for register in range(self.kept):
                self._keep(register)
            self._store_parts(0, self.form.parts)
        tiles.release()

    def _block(self, tile: Tile) -> None:
        if self.form.pipelined:
            self._beside_last(tile)
        else:
            self._alone(tile)

    def _alone(self, tile: Tile) -> None:
        """Multiply a block, then store it."""
        for register in range(self.kept):
            self._start(register, tile)
        self._steps(tile, 0, _nothing)
        for register in range(self.kept):
            self._keep(register)
        self._put(tile)
        self._store_parts(0, self.form.parts)

    def _beside_last(self, tile: Tile) -> None:
        """Multiply a block, and store the last one beside it.

        The last block's sums leave their registers one by one, each just before the first product that needs it: at
        the end of a block, they would wait for its products, and the next products for them.
        """
        form = self.form

        def exchange(register: int) -> None:
            self._keep(register)
            self._start(register, tile)

        self._step(tile, 0, 0, exchange)
        at_once = math.ceil(form.parts / max(1, form.steps - 1))
        self._steps(tile, 1, lambda step: self._store_parts((step - 1) * at_once, at_once))
        if form.steps == 1:
            self._store_parts(0, form.parts)
        self._put(tile)

    def _put(self, tile: Tile) -> None:
        """Let a block wait to be stored.

        Its place is the channel tile and the first output; of joined rows, also the output behind the last, and the
        first column.
        """
        form, (height, width) = self.form, self.problem.output
        if not form.joined:
            self.pending.put(form.parts, tile.k, (tile.n * height + tile.y) * width + tile.x)
            return
        column = tile.n * height * form.image_columns + tile.x
        first, behind = (form.outputs_before(at, T.min) for at in (column, column + form.tile_columns))
        parts = (behind - first + form.stored_pixels - 1) // form.stored_pixels
        self.pending.put(parts, tile.k, first, behind, column)

    def _start(self, register: int, tile: Tile) -> None:
        """Begin sums with their bias: all rows of a register are loaded from the same place."""
        at = (tile.k * self.form.tile_registers + register % self.form.tile_registers) * LANES
        tiles.load(register, self.bias, at, 0)

    def _keep(self, register: int) -> None:
        """Move sums to memory."""
        form = self.form
        row, column = form.data_tiles[register // form.tile_registers]
        pixel = form.tile_registers * LANES
        at = (row * form.tile_columns + column) * pixel + register % form.tile_registers * LANES
        tiles.store(register, self.sums, at, pixel * TAPS)

    def _steps(self, tile: Tile, first: int, beside: Callable[[Any], None]) -> None:
        """The products of a block from step `first` on, 0 or 1; `beside` emits what goes with a step."""
        rows, steps = self.problem.window.kernel[0], self.form.row_steps

        def step(kh: Any, index: Any) -> None:
            self._step(tile, kh, index)
            beside(kh * steps + index)

        repeat(first and steps - first, lambda index: step(0, first + index))
        repeat(rows - first, lambda kh: repeat(steps, lambda index: step(first + kh, index)))

    def _step(self, tile: Tile, kh: Any, index: Any, before: Callable[[int], None] = _nothing) -> None:
        """The products of one step of a kernel row, of all the block's; `before` emits what each sum needs first."""
        form, (down, across) = self.form, self.form.strides
        data_at, weight_at = self._operands_at(tile, kh, index)
        pixel_bytes = across * form.pixel_bytes

        def load_data(register: int, index: int) -> None:
            row, column = form.data_tiles[index]
            at = row * down * self.image.row_bytes + column * pixel_bytes
            tiles.load(register, self.image.buffer, data_at + at, pixel_bytes)

        def load_weight(register: int, index: int) -> None:
            at = (weight_at * form.tile_registers + index) * form.weight_bytes
            if form.fetch == "ahead":
                fetch_ahead(self.weight, at, form.weight_bytes)
            tiles.load(register, self.weight, at, ROW_BYTES)

        if form.keeps_weights:
            self._products(load_weight, load_data, form.tile_registers, self.data_count, before)
        else:
            self._products(load_data, load_weight, self.data_count, form.tile_registers, before)

    def _products(
        self,
        load_kept: Callable[[int, int], None],
        load: Callable[[int, int], None],
        kept: int,
        changing: int,
        before: Callable[[int], None],
    ) -> None:
        """Each of the kept operands times each of the others, which take turns in what registers are left."""
        first = self.kept + kept
        free = min(changing, TILE_REGISTERS - first)
        for index in range(free):
            load(first + index, index)
        for other in range(kept):
            load_kept(self.kept + other, other)
        for index in range(changing):
            register = first + index % free
            if index >= free:
                load(register, index)
            for other in range(kept):
                data, weight = (index, other) if self.form.keeps_weights else (other, index)
                operands = (register, self.kept + other) if self.form.keeps_weights else (self.kept + other, register)
                total = data * self.form.tile_registers + weight
                before(total)
                tiles.multiply_add(total, *operands, self.types)

    def _operands_at(self, tile: Tile, kh: Any, index: Any) -> tuple[Any, Any]:
        """Where the data of a step of a kernel row begins, and which step of the weights it is."""
        form, rows = self.form, self.problem.window.kernel[0]
        if form.shared_taps == 1:
            run, step = index // form.run_steps, index % form.run_steps
            data_at = self._data_at(tile, kh, run) + self._step_start(step)
            return data_at, ((tile.k * rows + kh) * form.runs + run) * form.run_steps + step
        own, last = form.own_steps, form.run_steps - 1
        owned = self._data_at(tile, kh, index // last) + index % last * form.step_bytes
        shared = self._data_at(tile, kh, (index - own) * form.shared_taps) + form.step_start(last)
        data_at = T.Select(T.int32(index) < own, owned, shared)
        return data_at, (tile.k * rows + kh) * form.row_steps + index

    def _data_at(self, tile: Tile, kh: Any, run: Any) -> Any:
        """Where the data of a run begins for a block's first output."""
        form, window = self.form, self.problem.window
        (down, across), (rows, columns) = form.phases, form.strides
        row, column = kh * window.dilation[0], run * window.dilation[1]
        image = tile.n
        if form.split:
            image = (tile.n * down + row % down) * across + column % across
            row, column = row // down, column // across
        row = image * self.image.rows + tile.y * rows - self.image.top + row
        column = tile.x * columns - self.image.left + column
        return row * self.image.row_bytes + column * self.form.pixel_bytes

    def _step_start(self, step: Any) -> Any:
        """Where a step begins in its run; the last one may overlap its neighbour."""
        form = self.form
        if form.run_steps == 1:
            return 0
        start, last = step * form.step_bytes, form.run_length - form.step_bytes
        return T.min(start, last) if form.run_length % form.step_bytes else start

    def _store_parts(self, first: Any, count: int) -> None:
        """Store some parts of the block that waits, those that there are."""

        def part(index: Any) -> None:
            if not self.form.pipelined and not self.form.joined:
                self._store_part(index)
                return
            with T.If(index < self.pending.count), T.Then():
                self._store_part(index)

        repeat(count, lambda turn: part(first + turn))

    def _store_part(self, part: Any) -> None:
        """Requantize and store some neighbouring pixels."""
        form = self.form
        pixel, column_of = self._joined_part(part) if form.joined else self._part_of_row(part)
        k = self.pending.place[0]

        def correct(sums: Any, place: Any) -> Any:
            if self.corrections is None:
                return sums
            return self.vectors.subtract(sums, T.broadcast(self.corrections[pixel + place], LANES))

        self.epilogue.store_tile(
            _StoredSums(self.sums, form.tile_registers, column_of, correct),
            range(form.stored_pixels),
            self._places(pixel, self._first_channel(k)),
            k * form.tile_registers * LANES,
            form.tile_outputs,
        )

    def _places(self, pixel: Any, channel: Any) -> Callable[[int], Any]:
        """Where a channel of the outputs from `pixel` on is in the layer's output; turned, they are in its columns."""
        outputs = self.problem.out_channels
        if not self.form.turned:
            return lambda place: pixel * outputs + channel + place * outputs
        height, width = self.form.layer.output
        column, row = divided(pixel, height)
        n, column = divided(column, width) if self.problem.batch > 1 else (0, column)
        start = T.Bind(((n * height + row) * width + column) * outputs + channel)

        def behind(place: int) -> Any:
            # One division for all places takes a fifth less of some kernels than one for each.
            top = T.Select(row >= height - place, T.int32((height * width - 1) * outputs), T.int32(0))
            return start + place * width * outputs - top

        return behind

    def _part_of_row(self, part: Any) -> tuple[Any, Callable[[Any], Any]]:
        """The first output of a part, and where the sums of its outputs are; parts of a row may overlap."""
        form = self.form
        row, group = (part // form.parts_of_row, part % form.parts_of_row) if form.tile_rows > 1 else (0, part)
        column = group * form.stored_pixels
        if form.tile_columns % form.stored_pixels:
            column = T.min(column, form.tile_columns - form.stored_pixels)
        _, first = self.pending.place
        return first + row * self.problem.output[1] + column, lambda pixel: row * form.tile_columns + column + pixel

    def _joined_part(self, part: Any) -> tuple[Any, Callable[[Any], Any]]:
        """The same for joined rows: outputs are neighbours in memory, their sums have those of the border between."""
        form, width = self.form, self.problem.output[1]
        _, first, behind, start = self.pending.place
        pixel = T.min(first + part * form.stored_pixels, behind - form.stored_pixels)
        between = form.image_columns - width
        return pixel, lambda place: pixel + place + (pixel + place) // width * between - start

    def _first_channel(self, k: Any) -> Any:
        form, outputs = self.form, self.problem.out_channels
        first = k * form.tile_outputs
        overlaps = outputs % form.tile_outputs != 0 and form.channel_tiles > 1
        return T.min(first, outputs - form.tile_outputs) if overlaps else first
