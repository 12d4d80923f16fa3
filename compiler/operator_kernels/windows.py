"""Sums over windows of images [N, H, W, C], channels in vectors. This module imports TVM.

Each value is read once for each window that it is in, so this is for windows that don't overlap. The sums of several
vectors of channels are independent of each other; the last of these vectors overlap their neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.operator_kernels.kernel import LANES, LEAST_SHARED_VALUES
from int8tune.compiler.program import Array
from int8tune.schedules.target import Target
from int8tune.schedules.written.rows import divided, repeat, share
from int8tune.schedules.written.signature import flat_argument

# Vectors of channels whose sums are in registers at once.
MOST_VECTORS = 4


@dataclass(frozen=True, slots=True)
class Windows:
    """Where windows are.

    Attributes:
        image: N, H, W and C.
        output: rows and columns of windows.
        kernel, stride: rows and columns.
        padding: rows above and columns to the left of the image that windows have.
    """

    image: tuple[int, int, int, int]
    output: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int] = (0, 0)

    @property
    def are_disjoint(self) -> bool:
        return all(step >= extent for step, extent in zip(self.stride, self.kernel, strict=True))


@dataclass(frozen=True, slots=True)
class Sums:
    """What is summed, and what becomes of a sum.

    Attributes:
        types: of the image's values, of the sums, and of the output.
        number: what a value adds, of the sums' type.
        finish: the output of a sum; takes the number of its window in an image, and the constants' buffers.
    """

    types: tuple[str, str, str]
    number: Callable[[Any], Any]
    finish: Callable[..., Any]
    constants: Sequence[Array] = ()


def write_window_sums(windows: Windows, sums: Sums, target: Target) -> Any:
    """The PrimFunc (image, constants, output), each of one axis."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        _Writer(windows, sums).write(target.threads)
    return builder.get()


class _Writer:
    """Emits one kernel."""

    def __init__(self, windows: Windows, sums: Sums) -> None:
        self.windows, self.sums = windows, sums
        channels = windows.image[3]
        self.lanes = min(LANES, 1 << int(math.log2(channels)))
        self.vectors = min(MOST_VECTORS, channels // self.lanes)

    def write(self, threads: int) -> None:
        windows, sums = self.windows, self.sums
        (batch, _, _, channels), (rows, columns) = windows.image, windows.output
        self.image = flat_argument("image", math.prod(windows.image), sums.types[0])
        self.constants = [
            flat_argument(f"known{index}", each.size, str(each.dtype)) for index, each in enumerate(sums.constants)
        ]
        self.out = flat_argument("out", batch * rows * columns * channels, sums.types[2])
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        if math.prod(windows.image) < LEAST_SHARED_VALUES:
            threads = 1
        turns, groups = batch * rows * columns, -(-channels // (self.lanes * self.vectors))
        if turns >= threads:
            share(turns, threads, lambda turn: repeat(groups, lambda group: self._window(turn, group)))
        else:
            repeat(turns, lambda turn: share(groups, threads, lambda group: self._window(turn, group)))

    def _window(self, turn: Any, group: Any) -> None:
        channels, width = self.windows.image[3], self.lanes * self.vectors
        first = T.Bind(T.min(group * width, channels - width))
        totals = T.alloc_buffer((width,), self.sums.types[1])

        def start(lane: Any) -> None:
            T.buffer_store(totals, T.Cast(self.sums.types[1], 0), [lane])

        self._each(start)
        self._taps(turn, first, totals)
        _, window = divided(turn, math.prod(self.windows.output))

        def end(lane: Any) -> None:
            made = self.sums.finish(totals[lane], window, *self.constants)
            T.buffer_store(self.out, made, [turn * channels + first + lane])

        self._each(end)

    def _taps(self, turn: Any, first: Any, totals: Any) -> None:
        """Add what is in a window and in the image, row after row."""
        (_, height, width, channels), (across,) = self.windows.image, self.windows.output[1:]
        image, window = divided(turn, math.prod(self.windows.output))
        place = divided(window, across)
        (top, bottom), (left, right) = (self._range(axis, place[axis]) for axis in (0, 1))
        with T.serial(top, bottom) as row, T.serial(left, right) as column:
            at = T.Bind(((image * height + row) * width + column) * channels + first)

            def add(lane: Any) -> None:
                T.buffer_store(totals, totals[lane] + self.sums.number(self.image[at + lane]), [lane])

            self._each(add)

    def _range(self, axis: int, place: Any) -> tuple[Any, Any]:
        """The rows or columns of a window that are in the image: the first one, and the one behind the last."""
        windows, extent = self.windows, self.windows.image[1 + axis]
        begin = place * windows.stride[axis] - windows.padding[axis]
        last = (windows.output[axis] - 1) * windows.stride[axis] - windows.padding[axis] + windows.kernel[axis]
        end = begin + windows.kernel[axis]
        begin = T.max(begin, 0) if windows.padding[axis] else begin
        return T.Bind(T.int32(0) + begin), T.Bind(T.int32(0) + (T.min(end, extent) if last > extent else end))

    def _each(self, body: Callable[[Any], None]) -> None:
        for vector in range(self.vectors):
            with T.vectorized(0, self.lanes) as lane:
                body(vector * self.lanes + lane)
