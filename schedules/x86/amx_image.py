"""Copies of an image in another order, which kernels on AMX read.

Those of strided layers have the rows and columns of each phase side by side, those whose rows are turned have columns
in place of rows.
"""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T

from schedules.arguments import PAD_VALUE
from schedules.x86.amx_form import AmxForm
from schedules.x86.image import Portion, ReadImage
from schedules.x86.rows import copy_row, fill_row, repeat, share
from schedules.x86.signature import Arguments


def split_image(form: AmxForm, arguments: Arguments, made: int | Portion) -> ReadImage:
    """A copy with the border filled, [N, row phases, column phases, rows, columns, C]: each phase is an image.

    Args:
        made: by so many threads together, or by one: its portion of each phase.
    """
    problem, (down, across) = form.image, form.phases
    top, left, _, _ = problem.window.padding
    rows, columns = form.image_rows, form.image_columns
    channels, row_bytes = problem.channels, form.row_bytes
    buffer = T.alloc_buffer((problem.batch * down * across * rows * row_bytes,), arguments.data.dtype)
    pad = arguments.params[PAD_VALUE]

    def copy_phase(at: Any, source: Any, phase: int) -> None:
        """The columns of one phase of a row, between those of the border."""
        first = -(-(left - phase) // across) if phase < left else 0
        behind = min(columns, -(-(left + problem.width - phase) // across))
        fill_row(buffer, at, T.cast(pad, buffer.dtype), first * channels)

        def pixel(index: Any) -> None:
            column = (first + index) * across + phase - left
            copy_row(
                buffer, at + (first + index) * channels, arguments.data, source + column * channels, channels, False
            )

        repeat(behind - first, pixel)
        fill_row(buffer, at + behind * channels, T.cast(pad, buffer.dtype), (columns - behind) * channels)

    def copy(index: Any) -> None:
        n, phase, row = index // (down * rows), index // rows % down, index % rows
        height = row * down + phase - top
        for column_phase in range(across):
            at = ((n * down + phase) * across + column_phase) * rows + row
            with T.If(T.And(height >= 0, height < problem.height)):
                with T.Then():
                    source = (n * problem.height + height) * problem.width * channels
                    copy_phase(at * row_bytes, source, column_phase)
                with T.Else():
                    fill_row(buffer, at * row_bytes, T.cast(pad, buffer.dtype), row_bytes)

    if isinstance(made, Portion):
        made.each(lambda n, row: repeat(down, lambda phase: copy((n * down + phase) * rows + row)))
    else:
        share(problem.batch * down * rows, made, copy)
    return ReadImage(buffer, rows, columns, row_bytes, 0, 0)


def turned_image(form: AmxForm, arguments: Arguments, made: int | Portion) -> ReadImage:
    """A copy with the border filled, [N, columns, rows, C], of which each image is one row.

    Where taps share steps, the last values of the next taps' pixels are behind each pixel's own.

    Args:
        made: by so many threads together, or by one: its portion of the layer's columns.
    """
    layer, (columns, _) = form.layer, form.copied_rows
    left, channels, pixel_bytes = layer.window.padding[1], layer.channels, form.pixel_bytes
    column_bytes = layer.height * pixel_bytes
    buffer = T.alloc_buffer((layer.batch * form.row_bytes,), arguments.data.dtype)
    pad = T.cast(arguments.params[PAD_VALUE], buffer.dtype)

    def copy_values(n: Any, column: Any, at: Any, first: int) -> None:
        """The values of a column's pixels from `first` on."""
        source, count = n * layer.height * layer.width + column - left, channels - first

        def pixel(y: Any) -> None:
            start = (source + y * layer.width) * channels + first
            copy_row(buffer, at + y * pixel_bytes, arguments.data, start, count, False)

        with T.If(T.And(column >= left, column < left + layer.width)):
            with T.Then():
                repeat(layer.height, pixel)
            with T.Else():
                repeat(layer.height, lambda y: fill_row(buffer, at + y * pixel_bytes, pad, count))

    def copy(n: Any, column: Any) -> None:
        at = n * form.row_bytes + column * column_bytes
        copy_values(n, column, at, 0)
        for tap in range(1, form.shared_taps):
            behind = column + tap * layer.window.dilation[1]
            copy_values(n, behind, at + channels + (tap - 1) * form.rest, channels - form.rest)

    if isinstance(made, Portion):
        made.each(copy)
    else:
        share(layer.batch * columns, made, lambda index: copy(index // columns, index % columns))
    return ReadImage(buffer, 1, form.image_columns, form.row_bytes, 0, 0)
