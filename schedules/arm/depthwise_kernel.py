"""Depthwise convolution on ARM, written as TIR: loops over tiles, and in each a tile of sums in registers."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Hashable, Iterable, Sequence
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arm.depthwise_form import DepthwiseForm
from int8tune.schedules.arm.epilogue import Epilogue
from int8tune.schedules.arm.image import read_image
from int8tune.schedules.arm.pipeline import Values, pipeline
from int8tune.schedules.arm.tile_loops import emit_parts, emit_tiles
from int8tune.schedules.arm.tiling import HALF_BYTES, LANES
from int8tune.schedules.intrinsics import arm_vectors as arm
from int8tune.schedules.written.accumulators import Accumulators
from int8tune.schedules.written.rows import load_bytes, repeat
from int8tune.schedules.written.signature import declare_arguments

# How many sums ahead of its use an operand is loaded.
LOAD_DISTANCE = 2
Tap = tuple[int, int]


def write_depthwise(form: DepthwiseForm) -> Any:
    """The PrimFunc of a depthwise convolution: (data, weight, bias, rescale, params, out), each of one axis."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        _DepthwiseWriter(form).write()
    return builder.get()


class _DepthwiseWriter:
    """Emits one kernel."""

    def __init__(self, form: DepthwiseForm) -> None:
        self.form = form
        self.columns = range(form.tile_columns)

    def write(self) -> None:
        """Arguments, the copy where it is needed, the tiles."""
        form = self.form
        arguments = declare_arguments(form.workload, form, form.weight_length)
        self.weight, self.bias = arguments.weight, arguments.bias
        self.epilogue = Epilogue(form.workload.numerics, arguments)
        self.image = read_image(form.image, arguments, form.slack, form.threads, form.copies, form.data_offset)
        rows = form.workload.batch * form.output[0]
        emit_tiles(form.outer == "channels", (form.channel_tiles, rows, form.tiles_of_a_row), form.threads, self)

    def begin(self) -> None:
        self.sums = Accumulators(self.form.tile_columns, self.form.accumulators, LANES)

    def tile(self, k: Any, row: Any, index: Any) -> None:
        form, work, (height, width) = self.form, self.form.workload, self.form.output
        x = index * form.tile_columns
        if width % form.tile_columns:
            x = T.min(x, width - form.tile_columns)
        n, y = (row // height, row % height) if work.batch > 1 else (0, row)
        first = k * form.tile_outputs
        if work.channels % form.tile_outputs and form.channel_tiles > 1:
            first = T.min(first, work.channels - form.tile_outputs)
        self._start(k)
        data_at = (n * self.image.rows + y * work.window.stride[0]) * self.image.row_bytes
        self._reduce(data_at + x * work.window.stride[1] * work.channels + first, k * form.tile_bytes)
        at = ((n * height + y) * width + x) * work.channels + first
        places = [at + column * work.channels for column in self.columns]
        self.epilogue.store(self._totals, places, k * form.tile_channels, form.tile_outputs)

    def _totals(self, group: range, pixels: range) -> Generator[None, None, list[list[Any]]]:
        yield
        return [[self.sums[column, register] for register in group] for column in pixels]

    def _start(self, k: Any) -> None:
        """Begin each sum with its bias."""
        for register in range(self.form.accumulators):
            value = self.bias.vload([k * self.form.tile_channels + register * LANES], "int32x4")
            for column in self.columns:
                self.sums[column, register] = value

    def _reduce(self, data_at: Any, tile_at: Any) -> None:
        """Add all products: those of each part of the weights, and of each row of the kernel where rows are a loop."""
        form, (kernel_rows, kernel_columns) = self.form, self.form.workload.window.kernel
        at_once = 1 if form.loops_over_rows else kernel_rows
        taps = list(itertools.product(range(at_once), range(kernel_columns)))

        def part(part_at: Any, zero: Any) -> None:
            step = form.workload.window.dilation[0] * self.image.row_bytes
            repeat(
                kernel_rows // at_once,
                lambda row: self._taps(
                    taps, data_at + zero + row * step, part_at + row * (kernel_columns * form.tap_bytes)
                ),
            )

        emit_parts(self.weight, tile_at, form.part_bytes, form.is_paired, part)

    def _taps(self, taps: Sequence[Tap], data_at: Any, weight_at: Any) -> None:
        values = Values(lambda _, key: self._operand(data_at, weight_at, *key))
        (self._paired if self.form.is_paired else self._wide)(taps, values)

    def _paired(self, taps: Sequence[Tap], values: Values) -> None:
        """Two products of bytes share 16 bits (SMULL, SMLAL); their sums are widened (SADDW, SADDW2)."""
        halves = range(self.form.tile_channels // HALF_BYTES)
        units = [
            (taps[first : first + 2], column, half)
            for first in range(0, len(taps), 2)
            for column in self.columns
            for half in halves
        ]
        products: dict[int, Any] = {}

        def keys(unit: int) -> Iterable[Hashable]:
            pair, column, _ = units[unit]
            for tap in pair:
                yield ("weights", tap)
                yield self._data_key(tap, column)

        def operands(unit: int, second: int) -> tuple[Any, Any]:
            pair, column, half = units[unit]
            tap = pair[second]
            return values["weights", tap][half], values[self._data_key(tap, column)][half]

        def multiply(unit: int) -> None:
            products[unit] = arm.bind_int16(arm.product_bytes(*operands(unit, 0)))
            arm.keep_order(products[unit])

        def multiply_second(unit: int) -> None:
            if len(units[unit][0]) > 1:
                products[unit] = arm.bind_int16(arm.add_products(products[unit], *operands(unit, 1)))
                arm.keep_order(products[unit])

        def add(unit: int) -> None:
            _, column, half = units[unit]
            product = products.pop(unit)
            for high in (0, 1):
                at = column, 2 * half + high
                self.sums[at] = arm.add_widened(self.sums[at], arm.half(product, high, "int16"))
                arm.keep_order(self.sums[at])

        pipeline(len(units), values, [(LOAD_DISTANCE, keys)], (multiply, multiply_second, add))

    def _wide(self, taps: Sequence[Tap], values: Values) -> None:
        """Products of 16 bits (SMLAL, SMLAL2)."""
        halves = range(self.form.tile_channels // HALF_BYTES)
        units = [(tap, column, half) for tap in taps for column in self.columns for half in halves]

        def keys(unit: int) -> Iterable[Hashable]:
            tap, column, _ = units[unit]
            yield ("weights", tap)
            yield self._data_key(tap, column)

        def add(unit: int) -> None:
            tap, column, half = units[unit]
            weights, data = values["weights", tap][half], values[self._data_key(tap, column)][half]
            for high in (0, 1):
                at, pair = (column, 2 * half + high), [arm.half(value, high, "int16") for value in (weights, data)]
                self.sums[at] = arm.add_wide_products(self.sums[at], *pair)
                arm.keep_order(self.sums[at])

        pipeline(len(units), values, [(LOAD_DISTANCE, keys)], (add,))

    def _data_key(self, tap: Tap, column: int) -> Hashable:
        """The row, and the column of the image, counted from the tile's first one, that a tap reads for an output."""
        window = self.form.workload.window
        return "data", (tap[0], column * window.stride[1] + tap[1] * window.dilation[1])

    def _operand(self, data_at: Any, weight_at: Any, kind: str, place: tuple[int, int]) -> list[Any]:
        """Weights of a tap or data of a pixel: for each eight channels one vector, of 8 or 16 bits each."""
        form, work = self.form, self.form.workload
        count = form.tile_channels
        if kind == "weights":
            at = weight_at + (place[0] * work.window.kernel[1] + place[1]) * form.tap_bytes
            if not form.is_paired:
                loads = (self.weight.vload([at + 16 * half], "int8x16") for half in range(count // HALF_BYTES))
                return [T.Bind(T.reinterpret(loaded, dtype="int16x8")) for loaded in loads]
            return _eights(T.Bind(self.weight.vload([at], f"int8x{count}")), count)
        at = data_at + place[0] * work.window.dilation[0] * self.image.row_bytes + place[1] * work.channels
        loaded = load_bytes(self.image.buffer, at, count)
        if form.is_paired:
            return _eights(T.Bind(T.reinterpret(loaded, dtype=f"int8x{count}")), count)
        return [arm.bind_int16(T.cast(part, "int16x8")) for part in _eights(T.Bind(loaded), count)]


def _eights(value: Any, count: int) -> list[Any]:
    """The eights of a vector of bytes."""
    return [value] if count == HALF_BYTES else [T.Shuffle([value], list(range(at, at + 8))) for at in (0, 8)]
