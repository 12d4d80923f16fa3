"""conv2d and dense on ARM, written as TIR: loops over tiles, and in each a tile of sums in registers."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arm.conv_form import ConvForm
from int8tune.schedules.arm.epilogue import Epilogue
from int8tune.schedules.arm.image import read_image
from int8tune.schedules.arm.products import DotProducts, PairedProducts, Step, WideProducts
from int8tune.schedules.arm.tile_loops import emit_parts, emit_tiles
from int8tune.schedules.arm.tiling import LANES
from int8tune.schedules.workload import Conv2d, Dense
from int8tune.schedules.written.accumulators import Accumulators
from int8tune.schedules.written.rows import repeat
from int8tune.schedules.written.signature import declare_arguments


def write_conv(workload: Conv2d | Dense, form: ConvForm) -> Any:
    """The PrimFunc of a convolution: (data, weight, bias, rescale, params, out), each of one axis."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        _ConvWriter(workload, form).write()
    return builder.get()


class _ConvWriter:
    """Emits one kernel."""

    def __init__(self, workload: Conv2d | Dense, form: ConvForm) -> None:
        self.workload = workload
        self.form = form
        self.problem = form.image
        self.columns = range(form.tile_columns)

    def write(self) -> None:
        """Arguments, the copy where it is needed, the tiles."""
        form = self.form
        arguments = declare_arguments(self.workload, form, form.weight_length)
        self.weight, self.bias = arguments.weight, arguments.bias
        self.epilogue = Epilogue(self.problem.numerics, arguments)
        self.image = read_image(self.problem, arguments, form.slack, form.threads, form.copies, form.data_offset)
        channel_tiles, rows = self.problem.groups * form.channel_tiles, self.problem.batch * self.problem.output[0]
        emit_tiles(form.outer == "weights", (channel_tiles, rows, form.tiles_of_a_row), form.threads, self)

    def begin(self) -> None:
        self.sums = Accumulators(self.form.tile_columns, self.form.accumulators, LANES)

    def tile(self, k: Any, row: Any, index: Any) -> None:
        form, (height, width) = self.form, self.problem.output
        x = index * form.tile_columns
        if width % form.tile_columns:
            x = T.min(x, width - form.tile_columns)
        n, y = (row // height, row % height) if self.problem.batch > 1 else (0, row)
        self._start(k)
        self._reduce(k, n, y, x)
        self._store(k, (n * height + y) * width + x)

    def _start(self, k: Any) -> None:
        """Begin each sum with its bias."""
        for register in range(self.form.accumulators):
            value = self.bias.vload([k * self.form.tile_channels + register * LANES], "int32x4")
            for column in self.columns:
                self.sums[column, register] = value

    def _group(self, k: Any) -> Any:
        return k // self.form.channel_tiles if self.problem.groups > 1 else 0

    def _reduce(self, k: Any, n: Any, y: Any, x: Any) -> None:
        """Add all products: loops over the parts of the weights, kernel rows, runs, and the steps of a run."""
        form, problem, window = self.form, self.problem, self.problem.window
        pixel_at = (n * self.image.rows + y * window.stride[0]) * self.image.row_bytes
        pixel_at += x * window.stride[1] * problem.channels + self._group(k) * problem.group_channels

        def part(part_at: Any, zero: Any) -> None:
            def run(kh: Any, index: Any) -> None:
                data_at = pixel_at + zero + kh * window.dilation[0] * self.image.row_bytes
                data_at += index * window.dilation[1] * problem.channels
                self._run(data_at, part_at + (kh * problem.runs + index) * form.run_bytes)

            repeat(window.kernel[0], lambda kh: repeat(problem.runs, lambda index: run(kh, index)))

        emit_parts(self.weight, k * form.tile_bytes, form.part_bytes, form.is_paired, part)

    def _run(self, data_at: Any, weight_at: Any) -> None:
        """The products of a run: turns of whole steps in a loop, and what is left."""
        form = self.form
        whole, unroll = form.whole_steps, form.steps_of_turn
        last = form.image.run_length % form.taps if form.products == "wide" else 0
        rest = 0 if last else form.words - whole * form.words_of_step

        def step(index: Any, words: int, taps: int) -> Step:
            first = index * form.words_of_step
            return Step(data_at + first * form.taps, weight_at + first * form.word_bytes, words, taps)

        def turn(index: Any) -> None:
            self._steps([step(index * unroll + u, form.words_of_step, form.taps) for u in range(unroll)])

        repeat(whole // unroll, turn)
        if rest or last:
            self._steps([step(whole, rest or 1, last or form.taps)])

    def _steps(self, steps: Sequence[Step]) -> None:
        if self.form.is_paired:
            PairedProducts(self.form, self.image, self.weight, self.sums).emit(steps)
        elif self.form.products == "dot":
            DotProducts(self.form, self.image, self.weight, self.sums).emit(steps)
        else:
            WideProducts(self.form, self.image, self.weight, self.sums).emit(steps)

    def _totals(self, group: range, pixels: range) -> Generator[None, None, list[list[Any]]]:
        yield
        return [[self.sums[column, register] for register in group] for column in pixels]

    def _store(self, k: Any, pixel: Any) -> None:
        """Requantize and store the tile whose first output has this number."""
        form, problem = self.form, self.problem
        within = k % form.channel_tiles if problem.groups > 1 else k
        first = within * form.tile_outputs
        if problem.group_outputs % form.tile_outputs and form.channel_tiles > 1:
            first = T.min(first, problem.group_outputs - form.tile_outputs)
        at = pixel * problem.out_channels + self._group(k) * problem.group_outputs + first
        places = [at + column * problem.out_channels for column in self.columns]
        self.epilogue.store(self._totals, places, k * form.tile_channels, form.tile_outputs)
