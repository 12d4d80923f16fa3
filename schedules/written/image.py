"""The image that a convolution reads: the kernel's data in place, or a copy of it with a border."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arguments import PAD_VALUE
from int8tune.schedules.image import Image
from int8tune.schedules.written.rows import VECTOR_BYTES, copy_row, fill_row, repeat, share
from int8tune.schedules.written.signature import Arguments


@dataclass(frozen=True, slots=True)
class ReadImage:
    """Rows of u8 pixels in memory.

    Attributes:
        rows, columns: of one image, with what a copy added.
        row_bytes: from one row to the next.
        top, left: border rows and columns that are not in memory: output (0, 0) begins at row -top, column -left.
    """

    buffer: Any
    rows: int
    columns: int
    row_bytes: int
    top: int
    left: int


@dataclass(frozen=True, slots=True)
class Portion:
    """What a thread reads of a copy with a border: rows (first, behind) of images (first, behind)."""

    images: tuple[Any, Any]
    rows: tuple[Any, Any]

    def each(self, body: Callable[[Any, Any], None], before: int = 0, count: int | None = None) -> None:
        """Emit a loop: body(image, row); with `count`, over those of so many rows that `before` others come before."""
        with T.serial(*self.images) as n:
            first, behind = self.rows
            if count is not None:
                first, behind = (T.max(T.min(T.int32(row) - before, count), 0) for row in self.rows)
            with T.serial(first, behind) as row:
                body(n, row)


def image_in_place(problem: Image, arguments: Arguments) -> ReadImage:
    top, left, _, _ = problem.window.padding
    return ReadImage(arguments.data, problem.height, problem.width, problem.width * problem.channels, top, left)


def copied_image(problem: Image, arguments: Arguments, slack: int, threads: int, *, flip: bool) -> ReadImage:
    """A copy with the border filled and `slack` values behind each row; with `flip`, bytes move by 128."""
    _, left, _, right = problem.window.padding
    row_bytes = -(-((problem.width + left + right) * problem.channels + slack) // VECTOR_BYTES) * VECTOR_BYTES
    return bordered_image(problem, arguments, row_bytes, threads, flip=flip)


def bordered_image(
    problem: Image, arguments: Arguments, row_bytes: int, made: int | Portion, *, flip: bool
) -> ReadImage:
    """A copy with the border filled, in rows of `row_bytes`; with `flip`, signed data becomes unsigned.

    Args:
        made: by so many threads together, or by one: its portion.
    """
    top, left, bottom, right = problem.window.padding
    rows, columns = problem.height + top + bottom, problem.width + left + right
    before, used = left * problem.channels, problem.width * problem.channels
    dtype = "uint8" if flip else arguments.data.dtype
    buffer = T.alloc_buffer((problem.batch * rows * row_bytes,), dtype)
    pad = T.cast(arguments.params[PAD_VALUE], dtype)

    def copy(index: Any) -> None:
        """A row of the image between its borders."""
        at = (index // problem.height * rows + top + index % problem.height) * row_bytes
        fill_row(buffer, at, pad, before)
        copy_row(buffer, at + before, arguments.data, index * used, used, flip)
        fill_row(buffer, at + before + used, pad, row_bytes - before - used)

    def border(index: Any) -> None:
        """A row above or below the image."""
        row = index % (top + bottom)
        at = (index // (top + bottom) * rows + row + T.cast(row >= top, "int32") * problem.height) * row_bytes
        fill_row(buffer, at, pad, row_bytes)

    if isinstance(made, Portion):
        repeat(problem.batch * (top + bottom), border)
        made.each(lambda n, y: copy(n * problem.height + y), top, problem.height)
    else:
        share(problem.batch * (top + bottom), made, border)
        share(problem.batch * problem.height, made, copy)
    return ReadImage(buffer, rows, columns, row_bytes, 0, 0)
