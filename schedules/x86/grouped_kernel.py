"""Grouped convolutions on x86, written as TIR: loops over tiles, and in each a tile of accumulators in registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from schedules.arguments import WEIGHT_ZERO_POINT
from schedules.intrinsics.x86_vectors import X86Vectors
from schedules.workload import Conv2d
from schedules.x86.channels import register_groups
from schedules.x86.conv_form import ColumnTiles
from schedules.x86.epilogue import Epilogue, Pixel
from schedules.x86.grouped_form import GroupedForm
from schedules.x86.grouped_image import packed_image
from schedules.x86.image import ReadImage, copied_image, image_in_place
from schedules.x86.registers import TAPS
from schedules.x86.rows import flip_signs, load_bytes, repeat, share
from schedules.x86.signature import Arguments, declare_arguments


def write_grouped(workload: Conv2d, form: GroupedForm, vectors: X86Vectors) -> Any:
    """The PrimFunc of a grouped convolution: (data, weight, bias, rescale, params, out), each of one axis."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        _GroupedWriter(workload, form, vectors).write()
    return builder.get()


class _GroupedWriter:
    """Emits one kernel."""

    def __init__(self, workload: Conv2d, form: GroupedForm, vectors: X86Vectors) -> None:
        self.workload = workload
        self.form = form
        self.vectors = vectors
        self.problem = form.image

    def write(self) -> None:
        """Arguments, the copy where it is needed, the tiles."""
        form = self.form
        self.arguments = declare_arguments(self.workload, form, math.prod(form.weight_shape))
        self.epilogue = Epilogue(self.vectors, self.problem.numerics, self.arguments)
        self.image = self._image(self.arguments)
        if form.outer == "weights":
            self._weights_outside()
        else:
            self._image_outside()

    def _image(self, arguments: Arguments) -> ReadImage:
        form, problem = self.form, self.problem
        slack = TAPS * form.lanes  # beyond the words of a tile, loads of whole vectors read so much at most
        if not form.words.as_in_memory:
            return packed_image(problem, form.words, arguments, slack, form.threads)
        if form.copies:
            return copied_image(problem, arguments, slack, form.threads)
        return image_in_place(problem, arguments)

    def _weights_outside(self) -> None:
        """All rows of all images for one tile of channels after the other; threads share the channels."""

        def channels(k: Any) -> None:
            self._begin_tiles()
            repeat(self._all_rows, lambda row: self._row(1, lambda t, x: self._tile(t, k, *self._place(row), x)))

        share(self.form.channel_tiles, self.form.threads, channels)

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
            repeat(self.form.channel_tiles, lambda k: self._tile(tiles, k, *self._place(row), x))

        share(self._all_rows, threads, row)

    def _begin_tiles(self) -> None:
        """Accumulators, inside the loop that threads share."""
        form = self.form
        self.sums = T.alloc_buffer((form.tile_columns * form.tile_registers, form.lanes), "int32", scope="local")
        if form.has_window_sum:
            window_sums = (form.tile_columns * len(form.vector_starts), form.lanes)
            self.window_sums = T.alloc_buffer(window_sums, "int32", scope="local")

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
        self._start(tiles, k, y)
        first, behind = self._kernel_rows(y)
        with T.serial(first, behind) as kh:
            self._reduce(tiles, k, self._data_at(k, n, y, x, kh), kh)
        if self.form.has_window_sum:
            self._take_window_sums()
        self._store(k, n, y, x)

    def _start(self, tiles: ColumnTiles, k: Any, y: Any) -> None:
        """Begin each sum with its bias."""
        form, lanes = self.form, self.form.lanes
        classes = len(form.column_classes[1])
        row_class = self._row_class(y)
        for column in range(form.tile_columns):
            first = (row_class * classes + tiles.classes[column]) * self.arguments.positions
            for register in range(form.tile_registers):
                at = first + (k * form.tile_registers + register) * lanes
                self._set_sum(column, register, self.arguments.bias.vload([at], f"int32x{lanes}"))
            if form.has_window_sum:
                for vector in range(len(form.vector_starts)):
                    self._set_window_sum(column, vector, T.broadcast(T.int32(0), lanes))

    def _row_class(self, y: Any) -> Any:
        classes = self.form.row_classes[0]
        if isinstance(y, int):
            return classes[y]
        changes = [row for row in range(1, len(classes)) if classes[row] != classes[row - 1]]
        return sum((T.cast(y >= row, "int32") for row in changes), T.int32(0)) if changes else 0

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

    def _first_group(self, k: Any) -> Any:
        form, groups = self.form, self.problem.groups
        overlaps = groups % form.tile_groups != 0 and form.channel_tiles > 1
        return T.min(k * form.tile_groups, groups - form.tile_groups) if overlaps else k * form.tile_groups

    def _data_at(self, k: Any, n: Any, y: Any, x: Any, kh: Any) -> Any:
        """Index of the first byte that the tile reads in kernel row `kh`."""
        window, image = self.problem.window, self.image
        row = n * image.rows + y * window.stride[0] - image.top + kh * window.dilation[0]
        column = x * window.stride[1] - image.left
        group_bytes = self.form.words.count * TAPS
        return T.Bind(row * image.row_bytes + column * self.form.pixel_bytes + self._first_group(k) * group_bytes)

    def _reduce(self, tiles: ColumnTiles, k: Any, data_at: Any, kh: Any) -> None:
        """Add the products of one kernel row, pixel by pixel: each one's words serve all outputs that read it."""
        form = self.form
        reads = form.reads(tiles)
        steps = sorted({step for uses in reads.values() for _, step in uses})
        for word, registers in form.rounds:
            weights = {
                (step, register): self.vectors.load_weight(
                    self.arguments.weight, form.weight_index(k, kh, word, step, register)
                )
                for step in steps
                for register in registers
            }
            for column, uses in reads.items():
                pixel = self._pixel(data_at + column * form.pixel_bytes)
                if form.has_window_sum and (word, registers[0]) == (0, 0):
                    self._add_window_sums(pixel, uses)
                for register in registers:
                    data = self._data(pixel, form.lane_words(register, word))
                    for output, step in uses:
                        total = self.vectors.multiply_add(self._sum(output, register), data, weights[step, register])
                        self._set_sum(output, register, total)

    def _data(self, pixel: Sequence[Any], words: Sequence[int]) -> Sequence[Any]:
        """The operand with the given word of the span in each lane."""
        return self.vectors.data_operand(self._as_bytes(self._pick(pixel, words)))

    def _as_bytes(self, words: Any) -> Any:
        return T.reinterpret(words, dtype=f"int8x{TAPS * self.form.lanes}")

    def _pixel(self, at: Any) -> list[Any]:
        """The words of the tile's groups, as int32 vectors that begin at the form's `vector_starts`."""
        form = self.form
        starts, width = form.loads
        loaded = [self._load(at + start * TAPS, width) for start in starts]
        if width == form.lanes:
            return [T.Bind(vector) for vector in loaded]
        # Loads of a part of a vector: one, or two that overlap.
        order = [word if word < width else word - starts[-1] + (len(starts) - 1) * width for word in range(form.span)]
        order += [0] * (form.lanes - len(order))
        return [T.Bind(T.Shuffle(loaded * (form.lanes // width), order))]

    def _load(self, at: Any, width: int) -> Any:
        """Words of the image, u8."""
        value = load_bytes(self.image.buffer, at, width * TAPS)
        if self.image.buffer.dtype == "int8":
            value = flip_signs(value, width * TAPS)
        return T.reinterpret(value, dtype=f"int32x{width}" if width > 1 else "int32")

    def _pick(self, pixel: Sequence[Any], words: Sequence[int]) -> Any:
        """A vector with the given word of the span in each lane."""
        lanes, starts = self.form.lanes, self.form.vector_starts
        homes = [next(i for i, start in enumerate(starts) if word < start + lanes) for word in words]
        within = [word - starts[home] for word, home in zip(words, homes, strict=True)]
        first, *others = sorted(set(homes))
        if not others:
            return T.Shuffle([pixel[first]], within)
        picked, order = pixel[first], within
        for home in others:
            order = [lanes + at if home == own else kept for at, own, kept in zip(within, homes, order, strict=True)]
            picked, order = T.Shuffle([picked, pixel[home]], order), list(range(lanes))
        return picked

    # Window sums, where weights have a zero point: of each word of the span, in the order of memory.

    def _add_window_sums(self, pixel: Sequence[Any], uses: Sequence[tuple[int, int]]) -> None:
        vectors = self.vectors
        for index, vector in enumerate(pixel):
            data = vectors.data_operand(self._as_bytes(vector))
            for output, step in uses:
                ones = vectors.weight_operand(vectors.broadcast_word(T.int32(self.form.ones(step))))
                self._set_window_sum(output, index, vectors.multiply_add(self._window_sum(output, index), data, ones))

    def _take_window_sums(self) -> None:
        """Take the weight zero point times its group's window sum from each sum."""
        form = self.form
        kind = f"uint32x{form.lanes}"  # int32 may not wrap in TIR, the partial sums may
        zero_point = T.broadcast(T.reinterpret(self.arguments.params[WEIGHT_ZERO_POINT], dtype="uint32"), form.lanes)
        for column in range(form.tile_columns):
            scaled = [
                T.Bind(T.reinterpret(self._window_sum(column, vector), dtype=kind) * zero_point)
                for vector in range(len(form.vector_starts))
            ]
            for register in range(form.tile_registers):
                total = T.reinterpret(self._sum(column, register), dtype=kind)
                for word in range(form.words.count):
                    total = total - self._pick(scaled, form.lane_words(register, word))
                self._set_sum(column, register, T.reinterpret(total, dtype=f"int32x{form.lanes}"))

    def _window_sum(self, column: int, vector: int) -> Any:
        return self.window_sums[column * len(self.form.vector_starts) + vector, T.ramp(0, 1, self.form.lanes)]

    def _set_window_sum(self, column: int, vector: int, value: Any) -> None:
        at = [column * len(self.form.vector_starts) + vector, T.ramp(0, 1, self.form.lanes)]
        T.buffer_store(self.window_sums, value, at)

    def _sum(self, column: int, register: int) -> Any:
        return self.sums[column * self.form.tile_registers + register, T.ramp(0, 1, self.form.lanes)]

    def _set_sum(self, column: int, register: int, value: Any) -> None:
        at = [column * self.form.tile_registers + register, T.ramp(0, 1, self.form.lanes)]
        T.buffer_store(self.sums, value, at)

    def _store(self, k: Any, n: Any, y: Any, x: Any) -> None:
        form, problem = self.form, self.problem
        height, width = problem.output
        tile_at = ((n * height + y) * width + x) * problem.out_channels + self._first_group(k) * problem.group_outputs
        register = 0
        for size in register_groups(form.tile_registers):
            first = register * form.lanes
            pixels = [
                Pixel([self._sum(column, register + r) for r in range(size)], at)
                for column, at in enumerate(
                    tile_at + first + column * problem.out_channels for column in range(form.tile_columns)
                )
            ]
            valid = max(0, min(size * form.lanes, form.tile_outputs - first))
            self.epilogue.store(pixels, k * form.tile_registers * form.lanes + first, valid)
            register += size
