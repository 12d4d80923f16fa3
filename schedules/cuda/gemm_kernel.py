"""conv2d and dense on a GPU, written as TIR: copies to shared memory, products, and what becomes of a thread's sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arguments import WEIGHT_ZERO_POINT
from int8tune.schedules.cuda.copies import ImageCopies, WeightCopies
from int8tune.schedules.cuda.epilogue import Epilogue
from int8tune.schedules.cuda.gemm_form import ADDED_CHANNELS, BARRIER_BYTES, GemmForm
from int8tune.schedules.cuda.launch import grid, shared_words, threads_of
from int8tune.schedules.cuda.loaded_factors import LoadedFactors, loaded_factors, with_loaded_params
from int8tune.schedules.cuda.products import products_of
from int8tune.schedules.gpus import WORD_BYTES, Gpu
from int8tune.schedules.intrinsics.cuda import Instructions
from int8tune.schedules.workload import Conv2d, Dense
from int8tune.schedules.written.border import class_at
from int8tune.schedules.written.rows import divided, store_vector
from int8tune.schedules.written.signature import declare_arguments

# Of the kernel that adds the sums of splits.
ADDING_THREADS = 128


class GemmWriter:
    """Emits one kernel, or two where blocks share the depth of a tile."""

    def __init__(self, workload: Conv2d | Dense, form: GemmForm, gpu: Gpu) -> None:
        self.workload = workload
        self.form = form
        self.problem = form.image
        self.gpu = gpu
        self.instructions = Instructions(gpu)

    def function(self) -> Any:
        """The PrimFunc: (data, weight, bias, rescale, params, out), each of one axis."""
        with IRBuilder() as builder, T.prim_func(s_tir=True):
            self.write()
        return builder.get()

    def declare(self) -> None:
        """Have the arguments, and memory for the sums of splits."""
        form = self.form
        self.arguments = declare_arguments(self.workload, form, form.weight_length)
        self.partial: Any = None
        if form.partial_sums:
            self.partial = T.alloc_buffer((form.splits * form.rows * self.arguments.positions,), "int32")

    def write(self) -> None:
        form = self.form
        self.declare()
        declared = self.arguments
        with grid(*form.grid(self.gpu.multiprocessors)) as (x, y, split), threads_of(form.threads) as thread:
            row_tile, channel_tile = (x, y) if form.outer == "weights" else (y, x)
            self._block(row_tile, channel_tile, split, thread)
        if self.partial is not None:
            self.arguments = declared
            self._write_addition()

    def _block(self, row_tile: Any, channel_tile: Any, split: Any, thread: Any) -> None:
        form, self.thread = self.form, thread
        self.shared = T.alloc_buffer((form.shared_bytes,), "int8", scope="shared.dyn")
        self.products = products_of(form, self.instructions, self.shared, thread)
        first_row = row_tile * form.block_rows
        group = self.group_of(channel_tile)
        image = ImageCopies(form, self.instructions, self.arguments.data, self.shared, thread)
        image.begin(first_row, group)
        weights = WeightCopies(form, self.instructions, self.arguments.weight, self.shared, thread)
        if form.is_joined:
            self._begin_receiving()
        self.products.begin()
        self.arguments = given = with_loaded_params(self.arguments)
        stores = []
        if self.partial is None:
            self.arguments = loaded = loaded_factors(given, form, self.shared, T.int32(form.factors_at // WORD_BYTES))
            stores = loaded.fetch(given, T.Bind(channel_tile * form.block_channels), thread, form.threads)
        self._steps(image, weights, channel_tile, split)
        if self.partial is None:
            for store in stores:
                store()
            # Everybody is done with products, and everybody's factors are there.
            T.evaluate(T.tvm_storage_sync("shared"))
        self.finish(first_row, channel_tile, group, split)

    def _barrier(self, index: Any) -> Any:
        """The address of one of the block's barriers."""
        return T.address_of(self.shared[self.form.barriers_at + index * BARRIER_BYTES])

    def _begin_receiving(self) -> None:
        """Begin the barrier that waits for other blocks' sums."""
        form, instructions = self.form, self.instructions
        with T.If(self.thread == 0), T.Then():
            instructions.begin_barrier(self._received, 1)
            instructions.show_barriers()
            instructions.expect(self._received, (form.splits - 1) * form.part_bytes)

    def _steps(self, image: ImageCopies, weights: WeightCopies, channel_tile: Any, split: Any) -> None:
        """Go through the split's depth: copies are `form.ahead` steps ahead of products."""
        form, instructions, ahead = self.form, self.instructions, self.form.ahead
        first = split * form.split_steps
        count: Any = form.split_steps
        if form.steps % form.split_steps:
            count = T.Bind(T.min(T.int32(form.steps) - first, form.split_steps))

        def copy(step: Any, stage: Any) -> None:
            """Begin to copy a step, if there is one."""
            with T.If(step < count), T.Then():
                image.copy(first + step, stage)
                weights.copy(channel_tile, first + step, stage)
            instructions.commit()

        for step in range(ahead):
            copy(T.int32(step), step)
        with T.serial(0, count) as step:
            # This thread's copies of the step have arrived; behind the barrier, everybody's have. And everybody is done
            # with the products of the step whose stage is filled next.
            instructions.wait(ahead - 1)
            if form.is_grouped:
                instructions.publish()
            T.evaluate(T.tvm_storage_sync("shared"))
            if not form.is_grouped:
                copy(step + ahead, T.truncmod(step + ahead, form.stages))
            self.products.add(step, T.Bind(T.truncmod(step, form.stages) * form.stage_bytes))
            if form.is_grouped:
                copy(step + ahead, T.truncmod(step + ahead, form.stages))
            self.products.wait(form.steps_behind)
        self.products.wait(0)

    def group_of(self, channel_tile: Any) -> Any:
        return T.truncdiv(channel_tile, self.form.channel_tiles) if self.problem.groups > 1 else 0

    def first_position(self) -> Any:
        """Where the biases and the rescale values of the tile's channels begin."""
        assert isinstance(self.arguments, LoadedFactors)
        return self.arguments.first

    def finish(self, first_row: Any, channel_tile: Any, group: Any, split: Any) -> None:
        """Outputs from the thread's sums, or the sums themselves: a run of channels of all rows, then the next run."""
        if self.form.is_joined:
            self._share_sums(split)
            self._store_part(first_row, channel_tile, group, split)
        elif self.partial is None:
            self._store(first_row, channel_tile, group)
        else:
            self._write_sums(first_row, channel_tile, split)

    def _store(self, first_row: Any, channel_tile: Any, group: Any) -> None:
        form, problem = self.form, self.problem
        tile = T.truncmod(channel_tile, form.channel_tiles) if problem.groups > 1 else channel_tile
        for first, own in self._runs():
            position = T.Bind(self.first_position() + own)
            within = T.Bind(tile * form.block_channels + own)
            epilogue = Epilogue(problem.numerics, self.arguments, form.run, form.store_width)
            epilogue.begin(position)
            bias = epilogue.load_bias(position) if form.border_classes == 1 else None
            with T.unroll(0, form.thread_rows) as index:
                row = T.Bind(first_row + self.products.row(index))
                total = partial(self._total_of_run, index, first)
                own_bias = epilogue.load_bias(self._bias_at(row, position)) if bias is None else bias
                at = T.Bind(row * problem.out_channels + group * problem.group_outputs + within)
                epilogue.store(total, own_bias, at, partial(self._exists, row, within))

    def _exists(self, row: Any, within: Any, first: int) -> Any:
        """Whether the output of a row is one, so far behind a channel of the group."""
        return T.And(row < self.form.rows, within + first < self.problem.group_outputs)

    def _runs(self) -> Iterator[tuple[int, Any]]:
        """The first channel of each run of the thread's, among its own and in the tile."""
        first_channel = T.Bind(self.products.first_channel())
        for first in range(0, self.form.thread_channels, self.form.run):
            yield first, first_channel + self.form.spread(first)

    def _total_of_run(self, index: Any, first: int, channel: Any) -> Any:
        return self._total(index, first + channel)

    def _write_sums(self, first_row: Any, channel_tile: Any, split: Any) -> None:
        """The sums of a split, for the second kernel."""
        form = self.form
        for first, own in self._runs():
            position = T.Bind(channel_tile * form.block_channels + own)
            with T.unroll(0, form.thread_rows) as index:
                row = T.Bind(first_row + self.products.row(index))
                with T.If(row < form.rows), T.Then():
                    at = T.Bind((split * form.rows + row) * self.arguments.positions + position)
                    self._write_run(self.partial, at, index, first)

    def _write_run(self, to: Any, at: Any, row: Any, first: int) -> None:
        """The sums of a run of the thread's channels, from one of them on."""
        for channel in range(0, self.form.run, ADDED_CHANNELS):
            values = T.alloc_buffer((ADDED_CHANNELS,), "int32", scope="local")
            with T.unroll(0, ADDED_CHANNELS) as within:
                T.buffer_store(values, self._total(row, first + channel + within), [within])
            store_vector(to, at + channel, values.vload([0], f"int32x{ADDED_CHANNELS}"), ADDED_CHANNELS)

    def _share_sums(self, split: Any) -> None:
        """Send each block of the cluster the sums of its part of the tile, and wait for those of the own part.

        Own sums and those that are received lie where stages were: nobody sends before all blocks have multiplied.
        """
        form, instructions = self.form, self.instructions
        self.sums = shared_words(self.shared)
        for first, own in self._runs():
            with T.unroll(0, form.thread_rows) as index:
                at = T.Bind(self.products.row(index) * form.sums_pitch + own)
                self._write_run(self.sums, at, index, first)
        instructions.publish()
        instructions.arrive_at_cluster()
        T.evaluate(T.tvm_storage_sync("shared"))
        instructions.await_cluster(form.splits)
        with T.If(T.And(self.thread < form.splits, self.thread != split)), T.Then():
            slot = T.Bind(split - T.Select(split > self.thread, T.int32(1), T.int32(0)))
            to, source = (form.splits + slot) * form.part_bytes, self.thread * form.part_bytes
            places = (T.address_of(self.shared[to]), T.address_of(self.shared[source]))
            instructions.send_bytes(*places, form.part_bytes, self._received, self.thread)
        instructions.wait_for_phase(self._received, 0)
        instructions.arrive_at_cluster()

    @property
    def _received(self) -> Any:
        """The address of the barrier that waits for other blocks' sums."""
        return self._barrier(0)

    def _store_part(self, first_row: Any, channel_tile: Any, group: Any, split: Any) -> None:
        """Outputs of a block's part of its tile, of the sums of all blocks of the cluster."""
        form, part_words = self.form, self.form.part_bytes // WORD_BYTES
        parts = form.block_channels // ADDED_CHANNELS
        count = form.block_rows * parts // form.splits
        tile = T.truncmod(channel_tile, form.channel_tiles) if self.problem.groups > 1 else channel_tile
        for turn in range(math.ceil(count / form.threads)):
            own = T.Bind(self.thread + turn * form.threads)
            row, part = divided(own, parts)
            channel = T.Bind(part * ADDED_CHANNELS)
            image_row = T.Bind(first_row + split * (form.block_rows // form.splits) + row)
            with T.If(T.And(own < count, image_row < form.rows)), T.Then():
                place = T.Bind(row * form.sums_pitch + channel)

                def load(to: Any, index: Any, place: Any = place) -> None:
                    """Own sums, then those of others, which lie behind all own ones."""
                    which = T.Select(index == 0, split, index + (form.splits - 1))
                    values = self.sums.vload([which * part_words + place], f"int32x{ADDED_CHANNELS}")
                    store_vector(to, 0, values, ADDED_CHANNELS)

                position = T.Bind(self.first_position() + channel)
                within = T.Bind(tile * form.block_channels + channel)
                self._add_and_store(load, image_row, position, group, within)
        # Nobody ends while what it sends may still be read.
        self.instructions.await_cluster(form.splits)

    def _total(self, row: Any, channel: Any) -> Any:
        """A sum of the thread, without what the zero point of the weights adds."""
        total = self.products.sum(row, channel)
        if not self.form.has_window_sum:
            return total
        return total - self.arguments.params[WEIGHT_ZERO_POINT] * self.products.window_sum(row)

    def _bias_at(self, row: Any, position: Any) -> Any:
        """The index of an output's bias, by how its window lies in the border."""
        if self.form.border_classes == 1:
            return position
        height, width = self.problem.output
        rest, x = divided(row, width)
        y = T.truncmod(rest, height) if self.problem.batch > 1 else rest
        columns = len(self.form.column_classes[1])
        border_class = class_at(self.form.row_classes[0], y) * columns + class_at(self.form.column_classes[0], x)
        return T.Bind(border_class * self.arguments.positions + position)

    def _write_addition(self) -> None:
        """The second kernel: each thread adds the sums of neighbouring channels of a row."""
        form, positions = self.form, self.arguments.positions
        parts = positions // ADDED_CHANNELS
        blocks = math.ceil(form.rows * parts / ADDING_THREADS)
        with grid(blocks) as (x,), threads_of(ADDING_THREADS) as thread:
            item = T.Bind(x * ADDING_THREADS + thread)
            with T.If(item < form.rows * parts), T.Then():
                row, part = divided(item, parts)
                position = T.Bind(part * ADDED_CHANNELS)
                group, within = divided(position, form.channel_tiles * form.block_channels)

                def load(to: Any, split: Any) -> None:
                    at = (split * form.rows + row) * positions + position
                    store_vector(to, 0, self.partial.vload([at], f"int32x{ADDED_CHANNELS}"), ADDED_CHANNELS)

                self._add_and_store(load, row, position, group, within)

    def _add_and_store(
        self, load: Callable[[Any, Any], None], row: Any, position: Any, group: Any, within: Any
    ) -> None:
        """Outputs of neighbouring channels of a row, of the sums of all splits."""
        form, problem = self.form, self.problem
        sums = T.alloc_buffer((ADDED_CHANNELS,), "int32", scope="local")
        with T.unroll(0, ADDED_CHANNELS) as index:
            T.buffer_store(sums, T.int32(0), [index])
        with T.unroll(0, form.splits) as split:
            loaded = T.alloc_buffer((ADDED_CHANNELS,), "int32", scope="local")
            load(loaded, split)
            with T.unroll(0, ADDED_CHANNELS) as index:
                T.buffer_store(sums, sums[index] + loaded[index], [index])
        epilogue = Epilogue(
            problem.numerics, self.arguments, ADDED_CHANNELS, math.gcd(form.store_width, ADDED_CHANNELS)
        )
        epilogue.begin(position)
        at = T.Bind(row * problem.out_channels + group * problem.group_outputs + within)
        bias = epilogue.load_bias(self._bias_at(row, position))
        epilogue.store(lambda channel: sums[channel], bias, at, lambda first: within + first < problem.group_outputs)
