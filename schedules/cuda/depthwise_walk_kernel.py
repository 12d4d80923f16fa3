"""Depthwise convolutions on a GPU whose tiles go down the image: what a thread has read serves the next rows, too."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arguments import PAD_VALUE
from int8tune.schedules.cuda.depthwise_form import CHANNELS, WORD_ROWS, DepthwiseForm
from int8tune.schedules.cuda.depthwise_writer import DepthwiseWriter, as_words
from int8tune.schedules.cuda.epilogue import Epilogue
from int8tune.schedules.gpus import WORD_BYTES, Gpu
from int8tune.schedules.intrinsics.cuda import rows_joined, rows_paired
from int8tune.schedules.workload import DepthwiseConv2d

# Rows of the image that a step goes down.
PAIR = WORD_ROWS // 2


def write_depthwise_walk(workload: DepthwiseConv2d, form: DepthwiseForm, gpu: Gpu) -> Any:
    """The PrimFunc of a depthwise convolution: (data, weight, bias, rescale, params, out), each of one axis."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        _WalkWriter(workload, form, gpu).write()
    return builder.get()


class _WalkWriter(DepthwiseWriter):
    """A kernel whose threads go down the image, a step after the other."""

    def _tile(self) -> None:
        self._begin_reading()
        self._begin_writing()
        self._walk()

    def _begin_reading(self) -> None:
        """Find the first row and the columns in the image."""
        work, window = self.workload, self.workload.window
        self.row_words = work.width * work.channels // WORD_BYTES
        self.data = as_words(self.arguments.data, math.prod(work.data_shape))
        left = T.Bind(self.x * window.stride[1] - window.padding[1])
        self.pad = T.Bind(T.bitwise_and(self.arguments.params[PAD_VALUE], 255) * 0x01010101)
        self.is_column = {read: self._is_column(left, read) for read in self.form.columns}
        top = T.Bind(self.y * window.stride[0] - window.padding[0])
        first = ((self.image * work.height + top) * work.width + left) * work.channels + self.position
        self.row, self.word = _Counter(top), _Counter(T.truncdiv(first, WORD_BYTES))
        words = len(self.form.columns) * PAIR
        self.coming, self.held = (T.alloc_buffer((words,), "int32", scope="local") for _ in range(2))

    def _is_column(self, left: Any, read: int) -> Any:
        """Whether a column of the image exists; None where it does for all tiles."""
        window, (_, width) = self.workload.window, self.form.output
        last = (width - self.form.tile_columns) * window.stride[1] - window.padding[1] + read
        if read >= window.padding[1] and last < self.workload.width:
            return None
        return T.Bind(T.And(left + read >= 0, left + read < self.workload.width))

    def _begin_writing(self) -> None:
        form, (height, width) = self.form, self.form.output
        self._load_weights()
        self.epilogue = Epilogue(self.workload.numerics, self.arguments, CHANNELS, CHANNELS)
        self.epilogue.begin(self.position)
        self.bias = self.epilogue.load_bias(self.position)
        self.sums = T.alloc_buffer((len(form.tile) * CHANNELS,), "int32", scope="local")
        first = ((self.image * height + self.y) * width + self.x) * self.workload.out_channels + self.position
        self.output = _Counter(first)

    def _walk(self) -> None:
        """Step after step; two of them in turn, so that what one holds is where the next one wants it."""
        form = self.form
        self._load_pair()
        self._hold(self._paired())
        self._load_pair()
        turns, last = divmod(form.steps - 1, 2)
        if turns:
            with T.serial(0, turns) as turn:
                for half in range(2):
                    self._step(2 * turn + half, is_last=False)
        for step in range(2 * turns, 2 * turns + last + 1):
            self._step(step, is_last=step == form.steps - 1)

    def _step(self, step: Any, is_last: bool) -> None:
        """Outputs of the rows that are held and those that have come; meanwhile the next ones come."""
        form = self.form
        newer = self._paired()
        if not is_last:
            self._load_pair()
        begun = set[int]()
        for index, read in enumerate(form.columns):
            words = rows_joined(self._held(index), newer[index], T.Bind)
            for row, (x, tap) in ((row, output) for row in range(form.tile_rows) for output in form.outputs_of(read)):
                self._add(words, row, x, tap, begun)
        self._hold(newer)
        self._store(step)

    def _load_pair(self) -> None:
        """Begin to load two rows; what lies in the border has the value of a zero."""
        row = self.row.value
        window, work, form = self.workload.window, self.workload, self.form
        last = max(form.output[0] - form.walked_rows, 0) * window.stride[0] + form.rows_read
        if any(window.padding) or last > work.height:
            is_inside = T.And(row >= 0, row + PAIR <= work.height)
            with T.If(is_inside):
                with T.Then():
                    self._load_rows([None] * PAIR)
                with T.Else():
                    self._load_rows([T.And(row + at >= 0, row + at < work.height) for at in range(PAIR)])
        else:
            self._load_rows([None] * PAIR)
        self.row.add(PAIR)
        self.word.add(PAIR * self.row_words)

    def _load_rows(self, are_inside: list[Any]) -> None:
        for index, read in enumerate(self.form.columns):
            for at, is_row in enumerate(are_inside):
                offset = at * self.row_words + read * (self.workload.channels // WORD_BYTES)
                conditions = [one for one in (is_row, self.is_column[read]) if one is not None]
                value = self.data[self.word.value + offset]
                for condition in conditions:
                    value = T.if_then_else(condition, value, self.pad)
                T.buffer_store(self.coming, value, [index * PAIR + at])

    def _paired(self) -> list[tuple[Any, Any]]:
        """The two rows of each column that have come: bytes of the first two channels, and of the other two."""
        columns = range(len(self.form.columns))
        return [rows_paired(self.coming[PAIR * at], self.coming[PAIR * at + 1], T.Bind) for at in columns]

    def _hold(self, pairs: list[tuple[Any, Any]]) -> None:
        for index, pair in enumerate(pairs):
            for at, word in enumerate(pair):
                T.buffer_store(self.held, word, [index * PAIR + at])

    def _held(self, index: int) -> tuple[Any, Any]:
        return self.held[index * PAIR], self.held[index * PAIR + 1]

    def _add(self, words: list[Any], row: int, x: int, tap: int, begun: set[int]) -> None:
        """Add the products of a column's words to an output, which begins with the biases."""
        pair = self.form.pairs.index((row, 0))
        for channel, word in enumerate(words):
            place = (row * self.form.tile_columns + x) * CHANNELS + channel
            weight = self.weight[(pair * self.workload.window.kernel[1] + tap) * CHANNELS + channel]
            total = self.sums[place] if place in begun else self.bias[channel]
            begun.add(place)
            T.buffer_store(self.sums, self.instructions.dot(word, weight, total, self.types), [place])

    def _store(self, step: Any) -> None:
        form, width, channels = self.form, self.form.output[1], self.workload.out_channels
        for index, (row, column) in enumerate(form.tile):
            at = T.Bind(self.output.value + (row * width + column) * channels)
            exists = partial(self._exists, step * form.tile_rows + row)
            self.epilogue.store(partial(self._total, index * CHANNELS), None, at, exists)
        self.output.add(form.tile_rows * width * channels)

    def _exists(self, row: Any, first: int) -> Any:  # noqa: ARG002
        """Whether a row of the tile is one of the image: all channels are."""
        height = self.form.output[0]
        return self.y + row < height if self.form.walked_rows > height else T.bool(True)

    def _total(self, first: int, channel: Any) -> Any:
        return self.sums[first + channel]


class _Counter:
    """An int32 in a register that goes on with each step."""

    def __init__(self, first: Any) -> None:
        self._buffer = T.alloc_buffer((1,), "int32", scope="local")
        T.buffer_store(self._buffer, first, [0])

    @property
    def value(self) -> Any:
        return self._buffer[0]

    def add(self, step: int) -> None:
        T.buffer_store(self._buffer, self.value + step, [0])
