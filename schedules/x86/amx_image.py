"""Copies of an image in another order, which kernels on AMX read.

Those of strided layers have the rows and columns of each phase side by side, those whose rows are turned have columns
in place of rows, and where taps share steps, pixels have values of others behind their own.
"""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arguments import PAD_VALUE
from int8tune.schedules.written.image import Portion, ReadImage
from int8tune.schedules.written.rows import copy_row, fill_row, repeat, share
from int8tune.schedules.written.signature import Arguments
from int8tune.schedules.x86.amx_form import AmxForm


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


def pixels_image(form: AmxForm, arguments: Arguments, made: int | Portion) -> ReadImage:
    """A copy with the border filled, [N, rows, columns, C], of which each image is one row; rows may be turned.

    Where taps share steps, the last values of the next taps' pixels are behind each pixel's own.

    Args:
        made: by so many threads together, or by one: its portion of the rows that are one in the copy.
    """
    layer, (rows, columns) = form.copied_layer, form.copied_rows
    top, channels, pixel_bytes = layer.window.padding[0], layer.channels, form.pixel_bytes
    # From one row to the next, and from one of its pixels, in the layer's image.
    down, across = (1, layer.height) if form.turned else (layer.width, 1)
    buffer = T.alloc_buffer((layer.batch * form.row_bytes,), arguments.data.dtype)
    pad = T.cast(arguments.params[PAD_VALUE], buffer.dtype)

    def copy_values(n: Any, row: Any, at: Any, first: int) -> None:
        """The values of a row's pixels from `first` on."""
        source, count = n * form.layer.height * form.layer.width + row * down - top * down, channels - first

        def pixel(column: Any) -> None:
            start = (source + column * across) * channels + first
            copy_row(buffer, at + column * pixel_bytes, arguments.data, start, count, False)

        with T.If(T.And(row >= top, row < top + layer.height)):
            with T.Then():
                repeat(columns, pixel)
            with T.Else():
                repeat(columns, lambda column: fill_row(buffer, at + column * pixel_bytes, pad, count))

    def copy(n: Any, row: Any) -> None:
        at = n * form.row_bytes + row * (columns * pixel_bytes)
        copy_values(n, row, at, 0)
        for tap in range(1, form.shared_taps):
            behind = row + tap * layer.window.dilation[0]
            copy_values(n, behind, at + channels + (tap - 1) * form.rest, channels - form.rest)

    if isinstance(made, Portion):
        made.each(copy)
    else:
        share(layer.batch * rows, made, lambda index: copy(index // rows, index % rows))
    return ReadImage(buffer, 1, form.image_columns, form.row_bytes, 0, 0)
