"""First layers on a GPU, written as TIR: a part of the image in shared memory, windows in registers, tensor cores."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.cuda.channel_order import CHUNK_BYTES, swizzled
from int8tune.schedules.cuda.epilogue import Epilogue
from int8tune.schedules.cuda.first_copies import Patch
from int8tune.schedules.cuda.first_form import (
    LANE_OUTPUTS,
    MATRIX_BYTES,
    MATRIX_OUTPUTS,
    SHARING,
    FirstForm,
)
from int8tune.schedules.cuda.launch import grid, shared_words, threads_of
from int8tune.schedules.cuda.loaded_factors import loaded_factors, with_loaded_params
from int8tune.schedules.gpus import WARP, WORD_BYTES, Gpu
from int8tune.schedules.intrinsics.cuda import Instructions, bytes_across
from int8tune.schedules.workload import Conv2d
from int8tune.schedules.written.border import class_at
from int8tune.schedules.written.rows import divided
from int8tune.schedules.written.signature import declare_arguments

# Of the weights of a product by `mma`.
MATRIX_COLUMNS = 8


def write_first(workload: Conv2d, form: FirstForm, gpu: Gpu) -> Any:
    """The PrimFunc of a first layer: (data, weight, bias, rescale, params, out), each of one axis."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        _FirstWriter(workload, form, gpu).write()
    return builder.get()


class _FirstWriter:
    """Emits one kernel."""

    def __init__(self, workload: Conv2d, form: FirstForm, gpu: Gpu) -> None:
        self.workload = workload
        self.form = form
        self.problem = form.image
        self.gpu = gpu
        self.instructions = Instructions(gpu)
        self.types = (self.problem.numerics.data, self.problem.numerics.weight)

    def write(self) -> None:
        form = self.form
        declared = declare_arguments(self.workload, form, form.weight_length)
        blocks = form.grid(self.gpu.multiprocessors)
        with grid(*blocks) as (tile, self.channel_tile), threads_of(form.threads) as self.thread:
            self.arguments = with_loaded_params(declared)
            self.warp, self.lane = divided(self.thread, WARP)
            rest, column = divided(tile, form.column_tiles)
            self.batch, row = divided(rest, form.row_tiles)
            self.y, self.x = T.Bind(row * form.tile_rows), T.Bind(column * form.tile_columns)
            self.shared = T.alloc_buffer((form.shared_bytes,), "int8", scope="shared.dyn")
            self.words = shared_words(self.shared)
            self._copy_weights()
            patch = (self.instructions, self.arguments.data, self.shared, self.thread, (self.batch, self.y, self.x))
            Patch(form, *patch).copy()
            self.instructions.commit()
            self._load_factors()
            self.instructions.wait(0)
            if form.products == "wgmma":
                self.instructions.publish()
            T.evaluate(T.tvm_storage_sync("shared"))
            self._multiply()

    def _copy_weights(self) -> None:
        form = self.form
        chunks = form.weight_bytes // CHUNK_BYTES
        for first in range(0, chunks, form.threads):
            chunk = T.Bind(self.thread + first)
            with T.If(chunk < chunks), T.Then():
                source = self.arguments.weight[self.channel_tile * form.weight_bytes + chunk * CHUNK_BYTES]
                to = self.shared[chunk * CHUNK_BYTES]
                self.instructions.copy(T.address_of(to), T.address_of(source), CHUNK_BYTES, T.bool(True))

    def _load_factors(self) -> None:
        form = self.form
        self.loaded = loaded_factors(self.arguments, form, self.shared, T.int32(form.factors_at // WORD_BYTES))
        position = T.Bind(self.channel_tile * form.block_channels)
        for store in self.loaded.fetch(self.arguments, position, self.thread, form.threads):
            store()

    def _multiply(self) -> None:
        form = self.form
        self.outputs, sharing = divided(self.lane, SHARING)
        self.sharing = sharing
        first = T.Bind(self.outputs * form.pixel_bytes + form.phase)
        self.shift = T.Bind(T.bitwise_and(first, WORD_BYTES - 1))
        first_word, last_row = T.truncdiv(first, WORD_BYTES), self.problem.window.kernel[0] - 1
        dilation = self.problem.window.dilation[0]
        self.rows = [
            T.Bind(
                form.weight_bytes // WORD_BYTES
                + T.min(sharing + SHARING * index, last_row) * (dilation * form.pitch_words)
                + first_word
            )
            for index in range(form.lane_rows)
        ]
        self.data = T.alloc_buffer((form.bands * form.matrices * 4,), "int32", scope="local")
        self.sums = T.alloc_buffer((LANE_OUTPUTS * form.bands * form.thread_channels,), "int32", scope="local")
        epilogues = [self._epilogue(own) for _, own in self._runs()]
        with T.serial(0, form.turns) as turn:
            places = [self._place_of(turn, band) for band in range(form.bands)]
            for band, (row, column) in enumerate(places):
                self._load_windows(band, row, column)
            (self._multiply_group if form.products == "wgmma" else self._multiply_warp)()
            self._store(places, epilogues)

    def _place_of(self, turn: Any, band: int) -> tuple[Any, Any]:
        """The row of the tile that a band is in, and where in it: in bands."""
        form = self.form
        column, row = divided(T.Bind((turn * form.bands + band) * form.warps + self.warp), form.tile_rows)
        return row, column

    def _load_windows(self, band: int, row: Any, column: Any) -> None:
        """Words of the windows of 16 outputs: each lane has its rows of two of them, eight outputs apart."""
        form = self.form
        of_band = MATRIX_OUTPUTS * form.pixel_bytes // WORD_BYTES
        first = T.Bind(row * (self.problem.window.stride[0] * form.pitch_words) + column * of_band)
        for output in range(LANE_OUTPUTS):
            words: list[Any] = []
            for start in self.rows:
                at = T.Bind(first + start + output * of_band // LANE_OUTPUTS)
                loaded = [T.Bind(self.words[at + index]) for index in range(form.row_words + (not form.is_aligned))]
                if form.is_aligned:
                    words += loaded
                else:
                    words += [bytes_across(low, high, self.shift) for low, high in itertools.pairwise(loaded)]
            words += [T.int32(0)] * (2 * form.matrices - len(words))
            for index, word in enumerate(words):
                matrix, half = divmod(index, 2)
                T.buffer_store(self.data, word, [(band * form.matrices + matrix) * 4 + 2 * half + output])

    def _multiply_group(self) -> None:
        form, instructions = self.form, self.instructions
        instructions.begin_group()
        for matrix in range(form.matrices):
            weight = T.address_of(self.shared[self._weights_at(matrix)])
            for band in range(form.bands):
                sums = T.address_of(self.sums[band * LANE_OUTPUTS * form.thread_channels])
                data = T.address_of(self.data[(band * form.matrices + matrix) * 4])
                instructions.multiply_group_of_registers(
                    sums, data, weight, form.block_channels, form.block_depth, self.types, T.bool(matrix > 0)
                )
        instructions.end_group()
        instructions.wait_group(0)

    def _weights_at(self, matrix: int) -> int:
        step, part = divmod(matrix * MATRIX_BYTES, self.form.block_depth)
        return step * self.form.block_channels * self.form.block_depth + part

    def _multiply_warp(self) -> None:
        form = self.form
        columns = form.block_channels // MATRIX_COLUMNS
        with T.unroll(0, LANE_OUTPUTS * form.bands * form.thread_channels) as index:
            T.buffer_store(self.sums, T.int32(0), [index])
        weight = T.alloc_buffer((2 * columns,), "int32", scope="local")
        # Which row, of which of four matrices, this lane gives the address of: both halves of 32 bytes of 8 columns,
        # then those of the next 8.
        of_four, matrix_row = divided(self.lane, 8)
        other, half = divided(of_four, 2)
        row = T.Bind(other * MATRIX_COLUMNS + matrix_row)
        chunks = form.block_depth // CHUNK_BYTES
        for matrix in range(form.matrices):
            step, part = divmod(matrix * MATRIX_BYTES, form.block_depth)
            chunk = swizzled(row, part // CHUNK_BYTES + half, chunks)
            first = step * form.block_channels * form.block_depth
            at = T.Bind(first + row * form.block_depth + chunk * CHUNK_BYTES)
            with T.unroll(0, columns // 2) as pair:
                source = T.address_of(self.shared[at + pair * (2 * MATRIX_COLUMNS * form.block_depth)])
                self.instructions.load_matrices(T.address_of(weight[4 * pair]), source)
            for band in range(form.bands):
                data = T.address_of(self.data[(band * form.matrices + matrix) * 4])
                with T.unroll(0, columns) as column:
                    total = T.address_of(self.sums[4 * (band * columns + column)])
                    self.instructions.multiply(total, data, T.address_of(weight[2 * column]), self.types)

    def _epilogue(self, own: Any) -> Epilogue:
        """Have the epilogue of a run of channels, whose rescale values stay in registers."""
        epilogue = Epilogue(self.problem.numerics, self.loaded, self.form.run, self.form.store_width)
        epilogue.begin(T.Bind(self.loaded.first + own))
        return epilogue

    def _store(self, places: list[tuple[Any, Any]], epilogues: list[Epilogue]) -> None:
        """Outputs from the thread's sums: a run of channels of all its outputs, then the next run."""
        form, problem = self.form, self.problem
        height, width = problem.output
        for (first, own), epilogue in zip(self._runs(), epilogues, strict=True):
            position = T.Bind(self.channel_tile * form.block_channels + own)
            place = T.Bind(self.loaded.first + own)
            bias = epilogue.load_bias(place) if form.border_classes == 1 else None
            for index in range(LANE_OUTPUTS * form.bands):
                row, column = places[index // LANE_OUTPUTS]
                half = index % LANE_OUTPUTS * (MATRIX_OUTPUTS // LANE_OUTPUTS)
                y = T.Bind(self.y + row)
                x = T.Bind(self.x + column * MATRIX_OUTPUTS + half + self.outputs)
                own_bias = epilogue.load_bias(self._bias_at(y, x, place)) if bias is None else bias
                at = T.Bind(((self.batch * height + y) * width + x) * problem.out_channels + position)
                exists = partial(self._exists, T.And(y < height, x < width), position)
                epilogue.store(partial(self._total, index, first), own_bias, at, exists)

    def _runs(self) -> Iterator[tuple[int, Any]]:
        """The first channel of each run of the thread's, among its own and in the tile."""
        for first in range(0, self.form.thread_channels, self.form.run):
            yield first, self.sharing * self.form.run + SHARING * first

    def _total(self, index: int, first: int, channel: Any) -> Any:
        """The sum of an output of the thread and a channel of its run."""
        band, half = divmod(index, LANE_OUTPUTS)
        own = first + channel
        of_band = 4 * T.truncdiv(own, 2) + 2 * half + T.truncmod(own, 2)
        return self.sums[band * LANE_OUTPUTS * self.form.thread_channels + of_band]

    def _exists(self, is_output: Any, position: Any, first: int) -> Any:
        return T.And(is_output, position + first < self.problem.out_channels)

    def _bias_at(self, y: Any, x: Any, place: Any) -> Any:
        """The index of an output's bias, by how its window lies in the border."""
        columns = len(self.form.column_classes[1])
        border_class = class_at(self.form.row_classes[0], y) * columns + class_at(self.form.column_classes[0], x)
        return T.Bind(border_class * self.form.block_channels + place)
