"""Depthwise convolutions on a GPU, written as TIR: a tile of sums in each thread's registers."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arguments import WEIGHT_ZERO_POINT
from int8tune.schedules.cuda.depthwise_form import CHANNELS, WORD_ROWS, DepthwiseForm
from int8tune.schedules.cuda.depthwise_writer import DepthwiseWriter, as_words
from int8tune.schedules.cuda.epilogue import Epilogue
from int8tune.schedules.gpus import Gpu
from int8tune.schedules.intrinsics.cuda import transposed
from int8tune.schedules.workload import DepthwiseConv2d
from int8tune.schedules.written.border import class_at


def write_depthwise(workload: DepthwiseConv2d, form: DepthwiseForm, gpu: Gpu) -> Any:
    """The PrimFunc of a depthwise convolution: (data, weight, bias, rescale, params, out), each of one axis."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        _DepthwiseWriter(workload, form, gpu).write()
    return builder.get()


class _DepthwiseWriter(DepthwiseWriter):
    """A kernel whose threads load all that their tiles read."""

    def _tile(self) -> None:
        self._begin()
        for read in self.form.columns:
            self._add_column(read)
        self._store()

    def _begin(self) -> None:
        """Clear the sums, load the weights, find the tile in the image."""
        form, window = self.form, self.workload.window
        self.sums = self._cleared(len(form.tile) * CHANNELS)
        self.window_sums = self._cleared(len(form.tile) * CHANNELS) if form.has_window_sum else None
        self._load_weights()
        self.top = T.Bind(self.y * window.stride[0] - window.padding[0])
        self.left = T.Bind(self.x * window.stride[1] - window.padding[1])
        pixel = (self.image * self.workload.height + self.top) * self.workload.width + self.left
        self.first = T.Bind(pixel * self.workload.channels)
        self.row_is_inside = {read: self._is_inside(self.top + read, 0) for read in form.rows}

    def _cleared(self, count: int) -> Any:
        sums = T.alloc_buffer((count,), "int32", scope="local")
        with T.unroll(0, count) as index:
            T.buffer_store(sums, T.int32(0), [index])
        return sums

    def _is_inside(self, place: Any, axis: int) -> Any:
        """Whether a row or a column of the image exists; None where all do."""
        if len((self.form.row_classes, self.form.column_classes)[axis][1]) == 1 and self.form.border_taps.all():
            return None
        extent = (self.workload.height, self.workload.width)[axis]
        return T.Bind(T.And(place >= 0, place < extent))

    def _add_column(self, column: int) -> None:
        """Add the products of all outputs that read a column of the image."""
        form = self.form
        column_is_inside = self._is_inside(self.left + column, 1)
        loaded = {row: self._load(row, column, column_is_inside) for row in form.rows}
        for at, rows in enumerate(form.words):
            # Where rows are missing the weights are zero, so any others do.
            four = [loaded[row] for row in (*rows, *[rows[-1]] * (WORD_ROWS - len(rows)))]
            words = transposed(four, T.Bind)
            for index, (row, word) in enumerate(form.pairs):
                if word == at:
                    self._add_word(words, index, row, column)

    def _add_word(self, words: list[Any], pair: int, row: int, column: int) -> None:
        form, kernel_columns = self.form, self.workload.window.kernel[1]
        ones = sum(1 << 8 * place for place, read in enumerate(form.mask(*form.pairs[pair])) if read)
        for x, tap in form.outputs_of(column):
            for channel, word in enumerate(words):
                place = (row * form.tile_columns + x) * CHANNELS + channel
                weight = self.weight[(pair * kernel_columns + tap) * CHANNELS + channel]
                T.buffer_store(self.sums, self.instructions.dot(word, weight, self.sums[place], self.types), [place])
                if self.window_sums is not None:
                    added = self.instructions.dot(word, T.int32(ones), self.window_sums[place], self.types)
                    T.buffer_store(self.window_sums, added, [place])

    def _load(self, row: int, column: int, column_is_inside: Any) -> Any:
        """A word of four channels, zeros where the image ends."""
        work = self.workload
        pixel_at = self.first + (row * work.width + column) * work.channels
        conditions = [inside for inside in (self.row_is_inside[row], column_is_inside) if inside is not None]
        inside = T.And(*conditions) if len(conditions) == 2 else (conditions or [None])[0]
        if not self.form.gathers:
            words = as_words(self.arguments.data, math.prod(work.data_shape))
            return T.Bind(_where(inside, words[T.truncdiv(pixel_at + self.position, CHANNELS)]))
        word: Any = T.int32(0)
        for byte in range(CHANNELS):
            channel = T.truncdiv(T.min(self.position + byte, work.out_channels - 1), work.multiplier)
            value = _where(inside, T.cast(self.arguments.data[pixel_at + channel], "int32"))
            word = T.bitwise_or(word, T.shift_left(T.bitwise_and(value, 255), 8 * byte))
        return T.Bind(word)

    def _store(self) -> None:
        form, work, (height, width) = self.form, self.workload, self.form.output
        epilogue = Epilogue(work.numerics, self.arguments, CHANNELS, math.gcd(CHANNELS, work.out_channels))
        epilogue.begin(self.position)
        bias = epilogue.load_bias(self.position) if len(form.border_taps) == 1 else None
        for index, (row, column) in enumerate(form.tile):
            y, x = T.Bind(self.y + row), T.Bind(self.x + column)
            own_bias = epilogue.load_bias(self._bias_at(y, x)) if bias is None else bias
            at = T.Bind(((self.image * height + y) * width + x) * work.out_channels + self.position)
            total = partial(self._total, index * CHANNELS)
            epilogue.store(total, own_bias, at, lambda first: self.position + first < work.out_channels)

    def _bias_at(self, y: Any, x: Any) -> Any:
        rows, columns = self.form.row_classes, self.form.column_classes
        border_class = class_at(rows[0], y) * len(columns[1]) + class_at(columns[0], x)
        return T.Bind(border_class * self.arguments.positions + self.position)

    def _total(self, first: int, channel: Any) -> Any:
        """A sum of the thread, without what the zero point of the weights adds."""
        place = first + channel
        if self.window_sums is None:
            return self.sums[place]
        return self.sums[place] - self.arguments.params[WEIGHT_ZERO_POINT] * self.window_sums[place]


def _where(condition: Any, value: Any) -> Any:
    return value if condition is None else T.if_then_else(condition, value, T.int32(0))
