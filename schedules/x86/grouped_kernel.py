"""Grouped convolutions on x86, written as TIR: loops over tiles, and in each a tile of accumulators in registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arguments import WEIGHT_ZERO_POINT
from int8tune.schedules.intrinsics.x86_vectors import X86Vectors
from int8tune.schedules.scale_bounds import bounds_scales
from int8tune.schedules.workload import Conv2d
from int8tune.schedules.written.accumulators import Accumulators
from int8tune.schedules.written.fetching import NextBlock
from int8tune.schedules.written.image import ReadImage, copied_image, image_in_place
from int8tune.schedules.written.rows import flip_signs, load_bytes
from int8tune.schedules.written.signature import Arguments, declare_arguments
from int8tune.schedules.x86.border import kernel_rows, row_class
from int8tune.schedules.x86.epilogue import Epilogue
from int8tune.schedules.x86.grouped_form import GroupedForm
from int8tune.schedules.x86.grouped_image import packed_image
from int8tune.schedules.x86.registers import TAPS
from int8tune.schedules.x86.tile_loops import Tile, TileLoops


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
        self.epilogue = Epilogue(self.vectors, self.problem.numerics, self.arguments, bounds_scales(self.workload))
        self.image = self._image(self.arguments)
        TileLoops(form, form.channel_tiles, self._begin, self._tile, lambda: None).emit()

    def _image(self, arguments: Arguments) -> ReadImage:
        form, problem = self.form, self.problem
        slack = TAPS * form.lanes  # beyond the words of a tile, loads of whole vectors read so much at most
        if not form.words.as_in_memory:
            return packed_image(problem, form.words, arguments, slack, form.threads)
        if form.copies:
            return copied_image(problem, arguments, slack, form.threads, flip=problem.numerics.data == "s8")
        return image_in_place(problem, arguments)

    def _begin(self, first: Any, _behind: Any) -> None:
        """Accumulators, and where weights are fetched, inside the loop that threads share."""
        form = self.form
        self.sums = Accumulators(form.tile_columns, form.tile_registers, form.lanes)
        if form.has_window_sum:
            self.window_sums = Accumulators(form.tile_columns, len(form.vector_starts), form.lanes)
        if form.fetch == "next":
            weight, tiles = self.arguments.weight, form.tiles_of_block
            self.next_block = NextBlock(weight, form.block_bytes, tiles, form.steps_of_fetch)
            self.next_block.begin(first)

    def _tile(self, tile: Tile) -> None:
        if self.form.fetch == "next":
            self.next_block.beside_tile()
        self._start(tile)
        first, behind = kernel_rows(self.form, self.image, tile.y)
        with T.serial(first, behind) as kh:
            if self.form.fetch == "next":
                self.next_block.beside_steps(1)
            self._reduce(tile, self._data_at(tile, kh), kh)
        if self.form.has_window_sum:
            self._take_window_sums()
        self._store(tile)

    def _start(self, tile: Tile) -> None:
        """Begin each sum with its bias."""
        form, lanes = self.form, self.form.lanes
        classes = len(form.column_classes[1])
        row = row_class(form, tile.y)
        for column in range(form.tile_columns):
            first = (row * classes + tile.columns.classes[column]) * self.arguments.positions
            for register in range(form.tile_registers):
                at = first + (tile.k * form.tile_registers + register) * lanes
                self.sums[column, register] = self.arguments.bias.vload([at], f"int32x{lanes}")
            if form.has_window_sum:
                for vector in range(len(form.vector_starts)):
                    self.window_sums[column, vector] = T.broadcast(T.int32(0), lanes)

    def _first_group(self, k: Any) -> Any:
        form, groups = self.form, self.problem.groups
        overlaps = groups % form.tile_groups != 0 and form.channel_tiles > 1
        return T.min(k * form.tile_groups, groups - form.tile_groups) if overlaps else k * form.tile_groups

    def _data_at(self, tile: Tile, kh: Any) -> Any:
        """Index of the first byte that the tile reads in kernel row `kh`."""
        window, image = self.problem.window, self.image
        row = tile.n * image.rows + tile.y * window.stride[0] - image.top + kh * window.dilation[0]
        column = tile.x * window.stride[1] - image.left
        group_bytes = self.form.words.count * TAPS
        return T.Bind(row * image.row_bytes + column * self.form.pixel_bytes + self._first_group(tile.k) * group_bytes)

    def _reduce(self, tile: Tile, data_at: Any, kh: Any) -> None:
        """Add the products of one kernel row, pixel by pixel: each one's words serve all outputs that read it."""
        form = self.form
        reads = form.reads(tile.columns)
        steps = sorted({step for uses in reads.values() for _, step in uses})
        for word, registers in form.rounds:
            weights = {
                (step, register): self.vectors.load_weight(
                    self.arguments.weight, form.weight_index(tile.k, kh, word, step, register)
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
                        total = self.vectors.multiply_add(self.sums[output, register], data, weights[step, register])
                        self.sums[output, register] = total

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
                total = vectors.multiply_add(self.window_sums[output, index], data, ones)
                self.window_sums[output, index] = total

    def _take_window_sums(self) -> None:
        """Take the weight zero point times its group's window sum from each sum."""
        form = self.form
        kind = f"uint32x{form.lanes}"  # int32 may not wrap in TIR, the partial sums may
        zero_point = T.broadcast(T.reinterpret(self.arguments.params[WEIGHT_ZERO_POINT], dtype="uint32"), form.lanes)
        for column in range(form.tile_columns):
            scaled = [
                T.Bind(T.reinterpret(self.window_sums[column, vector], dtype=kind) * zero_point)
                for vector in range(len(form.vector_starts))
            ]
            for register in range(form.tile_registers):
                total = T.reinterpret(self.sums[column, register], dtype=kind)
                for word in range(form.words.count):
                    total = total - self._pick(scaled, form.lane_words(register, word))
                self.sums[column, register] = T.reinterpret(total, dtype=f"int32x{form.lanes}")

    def _store(self, tile: Tile) -> None:
        form, problem = self.form, self.problem
        height, width = problem.output
        at = ((tile.n * height + tile.y) * width + tile.x) * problem.out_channels
        at += self._first_group(tile.k) * problem.group_outputs
        channel = tile.k * form.tile_registers * form.lanes
        columns = range(form.tile_columns)

        def place(column: int) -> Any:
            return at + column * problem.out_channels

        self.epilogue.store_tile(self.sums, columns, place, channel, form.tile_outputs)
