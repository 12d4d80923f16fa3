"""The image that an x86 depthwise convolution reads."""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arguments import PAD_VALUE
from int8tune.schedules.written.image import ReadImage
from int8tune.schedules.written.rows import (
    VECTOR_BYTES,
    copy_row,
    divided,
    fill_row,
    flip_signs,
    load_bytes,
    pieces,
    repeat,
    share,
    store_vector,
)
from int8tune.schedules.written.signature import Arguments
from int8tune.schedules.x86.depthwise_form import DepthwiseForm


def image_in_place(form: DepthwiseForm, arguments: Arguments) -> ReadImage:
    workload = form.workload
    top, left, _, _ = workload.window.padding
    row_bytes = workload.width * workload.channels
    return ReadImage(arguments.data, workload.height, workload.width, row_bytes, top, left)


def copied_image(form: DepthwiseForm, arguments: Arguments) -> ReadImage:
    """A copy with the border filled, one channel for each output channel, in the type that is multiplied."""
    workload = form.workload
    top, left, bottom, right = workload.window.padding
    rows, columns = workload.height + top + bottom, workload.width + left + right
    row_bytes = columns * form.pixel_bytes
    before, used = left * form.pixel_bytes, workload.width * form.pixel_bytes
    buffer = T.alloc_buffer((workload.batch * rows * row_bytes,), "uint8")
    pad = T.cast(arguments.params[PAD_VALUE], "uint8")

    def copy(index: Any) -> None:
        """A row of the image between its borders."""
        n, y = divided(index, workload.height)
        at = T.Bind((n * rows + top + y) * row_bytes)
        fill_row(buffer, at, pad, before)
        source_at = index * workload.width * workload.channels
        if form.pixel_bytes == workload.channels:
            copy_row(buffer, at + before, arguments.data, source_at, used, form.data_offset != 0)
        else:
            repeat(
                workload.width,
                lambda x: _copy_pixel(
                    form, buffer, at + before + x * form.pixel_bytes, arguments.data, source_at + x * workload.channels
                ),
            )
        fill_row(buffer, at + before + used, pad, row_bytes - before - used)

    def border(index: Any) -> None:
        """A row above or below the image."""
        n, row = divided(index, top + bottom)
        at = T.Bind((n * rows + row + T.cast(row >= top, "int32") * workload.height) * row_bytes)
        fill_row(buffer, at, pad, row_bytes)

    share(workload.batch * (top + bottom), form.threads, border)
    share(workload.batch * workload.height, form.threads, copy)
    return ReadImage(buffer, rows, columns, row_bytes, 0, 0)


def _copy_pixel(form: DepthwiseForm, target: Any, at: Any, source: Any, source_at: Any) -> None:
    """The channels of a pixel, each as often as the multiplier says."""
    multiplier = form.workload.multiplier

    def copy(offset: Any, width: int) -> None:
        value = load_bytes(source, source_at + offset, width)
        value = T.Bind(flip_signs(value, width) if form.data_offset else T.reinterpret(value, dtype=_type(width)))
        for begin, count in pieces(width * multiplier, VECTOR_BYTES):
            repeated = [place // multiplier for place in range(begin, begin + count)]
            if width > 1:
                # As many vectors as indices: TVM allows no longer result.
                part = T.Shuffle([value] * -(-count // width), repeated)
            else:
                part = T.broadcast(value, count) if count > 1 else value
            store_vector(target, at + offset * multiplier + begin, part, count)

    channels, most = form.workload.channels, max(1, VECTOR_BYTES // multiplier)
    width = next(width for _, width in pieces(most, VECTOR_BYTES))
    repeat(channels // width, lambda index: copy(index * width, width))
    for offset, rest in pieces(channels % width, width):
        copy(channels // width * width + offset, rest)


def _type(width: int) -> str:
    return f"uint8x{width}" if width > 1 else "uint8"
