"""Sums over windows of images [N, H, W, C], channels in vectors. This module imports TVM.

Each value is read once for each window that it is in, in order: `sliding` is for windows that overlap, where the order
does not matter. The sums of several vectors of channels are independent of each other; the last of these vectors
overlap their neighbours.
"""

from __future__ import annotations

import math
import operator
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


@dataclass(frozen=True, slots=True)
class Sums:
    """What is summed, and what becomes of a sum.

    Attributes:
        types: of the image's values, of the sums, and of the output.
        number: what a value adds, of the sums' type.
        finish: the output of a sum; takes the number of its window in an image, and the constants' buffers.
        join, start: how a number is added, and to what the first one is.
    """

    types: tuple[str, str, str]
    number: Callable[[Any], Any]
    finish: Callable[..., Any]
    constants: Sequence[Array] = ()
    join: Callable[[Any, Any], Any] = operator.add
    start: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """A window, and the channels of it that are at hand.

    Attributes:
        turn: the window's number among those of all images.
        window: its number in its image.
        channel: the first of `width` channels.
    """

    turn: Any
    window: Any
    channel: Any
    width: int


def write_window_sums(windows: Windows, sums: Sums, target: Target) -> Any:
    """The PrimFunc (image, constants, output), each of one axis."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        _write(windows, sums, target.threads)
    return builder.get()


def declare_arguments(
    windows: Windows, types: tuple[str, str, str], constants: Sequence[Array]
) -> tuple[Any, list[Any], Any]:
    """The buffers of a kernel of windows, in the function that is being built: image, constants, output."""
    (batch, _, _, channels), (rows, columns) = windows.image, windows.output
    image = flat_argument("image", math.prod(windows.image), types[0])
    known = [flat_argument(f"known{index}", each.size, str(each.dtype)) for index, each in enumerate(constants)]
    out = flat_argument("out", batch * rows * columns * channels, types[2])
    T.func_attr({"global_symbol": "main", "tirx.noalias": True})
    return image, known, out


def _write(windows: Windows, sums: Sums, threads: int) -> None:
    (batch, _, _, channels), (rows, columns) = windows.image, windows.output
    image, constants, out = declare_arguments(windows, sums.types, sums.constants)
    lanes = min(LANES, 1 << int(math.log2(channels)))
    width = lanes * min(MOST_VECTORS, channels // lanes)
    of_window = WindowSums(windows, sums)

    def window(turn: Any, group: Any) -> None:
        first = T.Bind(T.min(group * width, channels - width))
        _, number = divided(turn, math.prod(windows.output))
        of_window.write(Place(turn, number, first, width), image, constants, out)

    if math.prod(windows.image) < LEAST_SHARED_VALUES:
        threads = 1
    turns, groups = batch * rows * columns, -(-channels // width)
    if turns >= threads:
        share(turns, threads, lambda turn: repeat(groups, lambda group: window(turn, group)))
    else:
        repeat(turns, lambda turn: share(groups, threads, lambda group: window(turn, group)))


class WindowSums:
    """Emits the sums of one window, and what becomes of them."""

    def __init__(self, windows: Windows, sums: Sums) -> None:
        self.windows, self.sums = windows, sums

    def write(self, place: Place, image: Any, constants: Sequence[Any], out: Any) -> None:
        channels = self.windows.image[3]
        lanes = min(LANES, place.width & -place.width)
        vectors = [range(first, first + lanes) for first in range(0, place.width, lanes)]
        totals = T.alloc_buffer((place.width,), self.sums.types[1])

        def each(body: Callable[[Any], None]) -> None:
            for vector in vectors:
                with T.vectorized(0, lanes) as lane:
                    body(vector.start + lane)

        def start(lane: Any) -> None:
            T.buffer_store(totals, T.Cast(self.sums.types[1], self.sums.start), [lane])

        each(start)
        (_, height, width, _), (across,) = self.windows.image, self.windows.output[1:]
        number, _ = divided(place.turn, math.prod(self.windows.output))
        row_and_column = divided(place.window, across)
        (top, bottom), (left, right) = (self._range(axis, row_and_column[axis]) for axis in (0, 1))
        with T.serial(top, bottom) as row, T.serial(left, right) as column:
            at = T.Bind(((number * height + row) * width + column) * channels + place.channel)

            def add(lane: Any) -> None:
                T.buffer_store(totals, self.sums.join(totals[lane], self.sums.number(image[at + lane])), [lane])

            each(add)

        def end(lane: Any) -> None:
            made = self.sums.finish(totals[lane], place.window, *constants)
            T.buffer_store(out, made, [place.turn * channels + place.channel + lane])

        each(end)

    def _range(self, axis: int, place: Any) -> tuple[Any, Any]:
        """The rows or columns of a window that are in the image: the first one, and the one behind the last."""
        windows, extent = self.windows, self.windows.image[1 + axis]
        begin = place * windows.stride[axis] - windows.padding[axis]
        last = (windows.output[axis] - 1) * windows.stride[axis] - windows.padding[axis] + windows.kernel[axis]
        end = begin + windows.kernel[axis]
        begin = T.max(begin, 0) if windows.padding[axis] else begin
        return T.Bind(T.int32(0) + begin), T.Bind(T.int32(0) + (T.min(end, extent) if last > extent else end))
