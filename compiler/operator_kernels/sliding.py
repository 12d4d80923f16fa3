"""Windows that slide over images [N, H, W, C], channels in vectors. This module imports TVM.

What a column of a window comes to is kept in registers for the windows beside it that have this column, too. For each
row of windows, and each group of channels:

    1. join the rows of the first columns;
    2. for each window from left to right: join the rows of the columns that are new in it, join its columns, finish;
    3. what is kept becomes the columns of the next window.

Windows at the left and right border are written out, those between them are a loop.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.operator_kernels.kernel import LEAST_SHARED_VALUES
from int8tune.compiler.operator_kernels.windows import Place, Windows, declare_arguments
from int8tune.compiler.program import Array
from int8tune.schedules.target import Target
from int8tune.schedules.written.rows import divided, repeat, share

# Vectors of channels that are joined at once, and vectors that all of them keep.
MOST_VECTORS, MOST_KEPT = 4, 12
# Columns that are joined in windows that are written out: 510 are compiled in 0.15 s, 6,096 in 8 s.
MOST_WRITTEN = 512
_BYTES_OF_A_LANE = 4  # of `Target.vector_lanes`


class Slide(Protocol):
    """What is joined, and what becomes of it.

    Attributes:
        types: of the image's values, of what they are joined as, and of the output.
        has_border: whether the border counts as zeros; otherwise it is as what is next to it, in the same window.
        constants: further arguments of the kernel.
    """

    @property
    def types(self) -> tuple[str, str, str]: ...

    @property
    def has_border(self) -> bool: ...

    @property
    def constants(self) -> Sequence[Array]: ...

    def join(self, one: Any, other: Any) -> Any: ...

    def finish(self, joined: Any, window: Any, constants: Sequence[Any]) -> Any:
        """The output of what is joined."""

    def end(self, joined: Sequence[Any], place: Place, image: Any, constants: Sequence[Any], out: Any) -> None:
        """Emit what is behind the outputs of a window, of which `joined` has the buffers of whole vectors."""


def can_slide(windows: Windows) -> bool:
    """Whether few windows at the border are written out."""
    return (windows.output[1] - len(_looped(windows))) * windows.kernel[1] <= MOST_WRITTEN


def _looped(windows: Windows) -> range:
    """The windows of a row from the first one whose new columns are all in the image to the last one before others."""
    (_, _, extent, _), (_, stride), (_, padding) = windows.image, windows.stride, windows.padding
    first = min(windows.output[1], max(0, -((_kept(windows) - padding) // stride)))
    return range(first, max(first, min(windows.output[1], (extent - windows.kernel[1] + padding) // stride + 1)))


def _kept(windows: Windows) -> int:
    """Columns of a window that the next one has, too."""
    return max(0, windows.kernel[1] - windows.stride[1])


def write_slide(windows: Windows, slide: Slide, target: Target) -> Any:
    """The PrimFunc (image, constants, output), each of one axis."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        _Writer(windows, slide, target).write()
    return builder.get()


class _Writer:
    """Emits one kernel."""

    def __init__(self, windows: Windows, slide: Slide, target: Target) -> None:
        self.windows, self.slide = windows, slide
        self.channels = windows.image[3]
        most = target.vector_lanes * _BYTES_OF_A_LANE // np.dtype(slide.types[1]).itemsize
        self.lanes = min(most, 1 << int(math.log2(self.channels)))
        self.columns = windows.kernel[1]
        self.vectors = self._vectors_at_once()
        self.width = self.lanes * self.vectors
        self.kept = _kept(windows)
        self.threads = target.threads if math.prod(windows.image) >= LEAST_SHARED_VALUES else 1

    def _vectors_at_once(self) -> int:
        """As many as leave the least to the last group, which overlaps its neighbour."""
        whole = self.channels // self.lanes
        most = max(1, min(MOST_VECTORS, MOST_KEPT // self.columns, whole))
        return min(range(most, 0, -1), key=lambda vectors: -(-self.channels // (vectors * self.lanes)) * vectors)

    def write(self) -> None:
        turns = self.windows.image[0] * self.windows.output[0]
        self.image, self.constants, self.out = declare_arguments(self.windows, self.slide.types, self.slide.constants)
        groups = -(-self.channels // self.width)
        share(turns, self.threads, lambda turn: repeat(groups, lambda group: self._row(turn, group)))

    def _row(self, turn: Any, group: Any) -> None:
        """The windows of a row, of a group of channels; the last group overlaps its neighbour."""
        image, row = divided(turn, self.windows.output[0])
        self.turn, self.row = turn, row
        self.channel = T.Bind(T.int32(0) + T.min(group * self.width, self.channels - self.width))
        self.start = T.Bind(image * self.windows.image[1])
        first = row * self.windows.stride[0] - self.windows.padding[0]
        self.slots = [[self._vector() for _ in range(self.vectors)] for _ in range(self.columns)]
        self.joined = [self._vector() for _ in range(self.vectors)]
        if not (self.slide.has_border and self._rows_leave_the_image):
            self._windows([self._nearest_row(first + tap) for tap in range(self.windows.kernel[0])])
            return
        begin, end = T.max(first, 0), T.min(first + self.windows.kernel[0], self.windows.image[1])
        with T.If(end - begin == self.windows.kernel[0]):
            with T.Then():
                self._windows([first + tap for tap in range(self.windows.kernel[0])])
            with T.Else():
                self._windows((begin, end))

    @property
    def _rows_leave_the_image(self) -> bool:
        windows = self.windows
        last = (windows.output[0] - 1) * windows.stride[0] - windows.padding[0] + windows.kernel[0]
        return windows.padding[0] > 0 or last > windows.image[1]

    def _nearest_row(self, row: Any) -> Any:
        return T.max(T.min(row, self.windows.image[1] - 1), 0) if self._rows_leave_the_image else row

    def _vector(self) -> Any:
        return T.alloc_buffer((self.lanes,), self.slide.types[1])

    def _windows(self, rows: list[Any] | tuple[Any, Any]) -> None:
        """All windows of the row; `rows` are those of the image, or the first one and the one behind the last."""
        self.rows = [T.Bind(T.int32(0) + each) for each in rows]
        self.is_range = isinstance(rows, tuple)
        for column in range(self.kept):
            self._column(column, column - self.windows.padding[1])
        looped = _looped(self.windows)
        for window in range(looped.start):
            self._window(window)
        repeat(len(looped), lambda window: self._window(looped.start + window))
        for window in range(looped.stop, self.windows.output[1]):
            self._window(window)

    def _window(self, window: Any) -> None:
        stride, padding = self.windows.stride[1], self.windows.padding[1]
        for column in range(self.kept, self.columns):
            self._column(column, window * stride - padding + column)
        turn = T.Bind(self.turn * self.windows.output[1] + window)
        place = Place(turn, T.Bind(self.row * self.windows.output[1] + window), self.channel, self.width)
        for vector in range(self.vectors):
            self._finish(vector, place)
        self.slide.end(self.joined, place, self.image, self.constants, self.out)
        for slot, later in zip(self.slots[: self.kept], self.slots[self.windows.stride[1] :], strict=False):
            for own, other in zip(slot, later, strict=True):
                self._each(own, other.__getitem__)

    def _finish(self, vector: int, place: Place) -> None:
        columns, joined = [slot[vector] for slot in self.slots], self.joined[vector]
        self._each(joined, lambda lane: self._joined(column[lane] for column in columns))
        with T.vectorized(0, self.lanes) as lane:
            made = self.slide.finish(joined[lane], place.window, self.constants)
            at = place.turn * self.channels + place.channel + vector * self.lanes + lane
            T.buffer_store(self.out, made, [at])

    def _column(self, column: int, place: Any) -> None:
        """What the rows of a column come to, into its slot."""
        extent, vectors = self.windows.image[2], self.slots[column]
        if isinstance(place, int) and not 0 <= place < extent:
            if self.slide.has_border:
                self._clear(vectors)
                return
            place = min(max(place, 0), extent - 1)
        if not self.is_range:
            for index, vector in enumerate(vectors):
                self._join_rows(vector, index, place)
            return
        self._clear(vectors)
        with T.serial(*self.rows) as row:
            for index, vector in enumerate(vectors):
                self._join_row(vector, index, row, place)

    def _clear(self, vectors: Sequence[Any]) -> None:
        for vector in vectors:
            self._each(vector, lambda _: T.Cast(self.slide.types[1], 0))

    def _join_rows(self, vector: Any, index: int, place: Any) -> None:
        self._each(vector, lambda lane: self._joined(self._value(row, place, index, lane) for row in self.rows))

    def _join_row(self, vector: Any, index: int, row: Any, place: Any) -> None:
        self._each(vector, lambda lane: self.slide.join(vector[lane], self._value(row, place, index, lane)))

    def _joined(self, values: Any) -> Any:
        return functools.reduce(self.slide.join, values)

    def _value(self, row: Any, column: Any, vector: int, lane: Any) -> Any:
        at = ((self.start + row) * self.windows.image[2] + column) * self.channels + self.channel
        return T.Cast(self.slide.types[1], self.image[at + vector * self.lanes + lane])

    def _each(self, buffer: Any, value: Callable[[Any], Any]) -> None:
        with T.vectorized(0, self.lanes) as lane:
            T.buffer_store(buffer, value(lane), [lane])
