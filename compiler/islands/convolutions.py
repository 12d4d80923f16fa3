"""Convolutions in float, as products of their weights and what these meet. This module imports TVM."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from int8tune.compiler.islands.products import (
    COLUMNS,
    CUT,
    LANES,
    MOST_VECTORS,
    integers,
    padded_columns,
    product,
    schedule_image_rows,
    tiled,
)

# What blocks are called.
CHANNELS, WOVEN, FRAME = "channels", "woven", "frame"
# The least rows of a window that several rows of outputs share.
FEWEST_SHARED_TAPS = 5
# One megabyte of what weights meet.
MOST_COLUMN_VALUES = 1 << 18


@dataclass(frozen=True, slots=True)
class Window:
    """A convolution's numbers, of one row where it is 1-D."""

    batch: int
    channels: int
    size: tuple[int, int]
    made: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    step: tuple[int, int]
    before: tuple[int, int]
    after: tuple[int, int]
    output: tuple[int, int]

    @property
    def depth(self) -> int:
        return self.channels * math.prod(self.kernel)

    @property
    def pitch(self) -> int:
        """Values from a row of the padded image to the next."""
        return self.size[1] + self.before[1] + self.after[1]

    @property
    def is_plain(self) -> bool:
        """Whether each value meets itself alone."""
        return {*self.kernel, *self.stride} == {1} and {*self.before, *self.after} == {0}

    @property
    def shared_rows(self) -> int:
        """Rows of a channel's outputs that are computed together where their windows share much; 0 where they don't."""
        if self.kernel[0] < FEWEST_SHARED_TAPS or {*self.stride, *self.step} != {1}:
            return 0
        return next((rows for rows in (4, 3, 2) if self.output[0] % rows == 0), 0)

    @property
    def bands(self) -> int:
        """Parts of one image's rows whose columns fit the second cache; images of a batch are parts already.

        Where vectors don't fill a tile of them, columns are copied once more, so that others are taken within bounds.
        """
        if self.batch > 1 or self.is_plain:
            return self.batch
        height, width = self.output
        places = {count: height // count * width for count in range(1, height + 1) if height % count == 0}
        fitting = next((count for count in places if self.depth * places[count] <= MOST_COLUMN_VALUES), height)
        near = (count for count in places if places[fitting] / 4 <= places[count] <= places[fitting] * 2)
        whole = [count for count in near if places[count] % (LANES * MOST_VECTORS) == 0]
        return fitting if fitting in whole else min(whole, key=lambda count: abs(count - fitting), default=fitting)


def _window(call: Any) -> Window:
    at, (data, weight) = call.attrs, call.args
    batch, channels, *size = _with_height(integers(data.ty.shape))
    made, _, *kernel = _with_height(integers(weight.ty.shape))
    *_, out_y, out_x = _with_height(integers(call.ty.shape))
    padding = integers(at.padding)
    if len(padding) == 2:
        padding = (0, padding[0], 0, padding[1])
    stride, step = ((1, *integers(each))[-2:] for each in (at.strides, at.dilation))
    pairs = (tuple(size), made, tuple(kernel), stride, step, padding[:2], padding[2:], (out_y, out_x))
    return Window(batch, channels, *pairs)  # type: ignore[arg-type]


def convolution(builder: Any, call: Any, default: Callable[[Any, Any], Any]) -> Any:
    """A convolution, 1-D or 2-D, as a product of its weights and of what each of them meets; or of one channel each."""
    at, (data, weight) = call.attrs, call.args
    is_known = (at.data_layout, at.kernel_layout) in (("NCHW", "OIHW"), ("NCW", "OIW"))
    if not is_known or data.ty.dtype.dtype != "float32":
        return default(builder, call)
    window, groups = _window(call), int(at.groups)
    is_depthwise = window.channels > 1 and groups == window.channels
    if groups != 1 and not is_depthwise:
        if window.batch != 1:
            return default(builder, call)
        # Groups of channels are images beside each other, each with weights of its own.
        window = replace(window, batch=groups, channels=window.channels // groups, made=window.made // groups)
    shape: tuple[int, ...] = (window.batch, window.channels, *window.size)
    if window.is_plain and not is_depthwise:
        shape = (window.batch, window.channels, math.prod(window.size))
    data = builder.normalize(relax.op.reshape(data, shape))
    sets = 1 if is_depthwise else groups
    rows = (window.made, *window.kernel) if is_depthwise else (sets, window.made, window.depth)
    weight = builder.normalize(relax.op.reshape(weight, rows))

    def convolved(image: Any, weights: Any) -> Any:
        if is_depthwise:
            return (_rows_of_channels if window.shared_rows else _each_channel)(image, weights, window)
        if window.stride == (1, 1) and not window.is_plain:
            return _in_place(image, weights, window)
        made = product(weights, image if window.is_plain else _columns_of(_frame(image, window), window))
        if window.bands == window.batch:
            return made
        shape = (window.made, window.bands, math.prod(window.output) // window.bands)
        return te.compute(shape, lambda o, band, p: made[band, o, p], name="joined")

    found = builder.emit(builder.call_te(convolved, data, weight, primfunc_name_hint="convolution"))
    return relax.op.reshape(found, call.ty.shape)


def _in_place(image: Any, weights: Any, window: Window) -> Any:
    """The convolution without a copy of what each weight meets: that lies in the frame, a step from place to place.

    Places follow each other through the frame's whole rows, so that each row has some that are no outputs: they meet
    the end of a row and the beginning of the next one, and are left out in the end.
    """
    (kernel_y, kernel_x), (height, width) = window.kernel, window.output
    pitch = window.pitch
    places = (height - 1) * pitch + width
    last = padded_columns(places) - 1 + (kernel_y - 1) * window.step[0] * pitch + (kernel_x - 1) * window.step[1]
    frame = _frame(image, window, last // pitch + 1)
    axes = [te.reduce_axis((0, extent), name=name) for extent, name in
            ((window.channels, "c"), (kernel_y, "ky"), (kernel_x, "kx"))]  # fmt: skip
    c, y, x = axes

    def met(b: Any, n: Any) -> Any:
        at = n + y * (window.step[0] * pitch) + x * window.step[1]
        return frame[b, c, at // pitch, at % pitch]

    made = tiled(weights, window.batch, places, axes, (c * kernel_y + y) * kernel_x + x, met)
    shape = (window.batch, window.made, height, width)
    return te.compute(shape, lambda b, o, row, column: made[b, o, row * pitch + column], name=CUT)


def _frame(image: Any, window: Window, rows: int = 0) -> Any:
    """The image with its border of zeros, and rows of zeros below it until there are so many."""
    (top, left), (height, width) = window.before, window.size
    shape = [sum(each) for each in zip(window.size, window.before, window.after, strict=True)]
    shape[0] = max(shape[0], rows)

    def framed(b: Any, c: Any, y: Any, x: Any) -> Any:
        inside = tirx.all(y >= top, y < height + top, x >= left, x < width + left)
        return tirx.if_then_else(inside, image[b, c, y - top, x - left], tirx.const(0, "float32"))

    if shape == list(window.size):
        return image
    return te.compute((window.batch, window.channels, *shape), framed, name=FRAME)


def _columns_of(frame: Any, window: Window) -> Any:
    """What each weight meets [bands, depth, places]."""
    (kernel_y, kernel_x), (height, width) = window.kernel, window.output
    rows = height * window.batch // window.bands

    def met(band: Any, k: Any, p: Any) -> Any:
        c, y, x = k // (kernel_y * kernel_x), k // kernel_x % kernel_y, k % kernel_x
        image, first = (band, 0) if window.bands == window.batch else (0, band * rows)
        row, column = first + p // width, p % width
        return frame[
            image, c, row * window.stride[0] + y * window.step[0], column * window.stride[1] + x * window.step[1]
        ]

    name = f"{COLUMNS}_{kernel_y}_{kernel_x}_{width}"
    return te.compute((window.bands, window.depth, rows * width), met, name=name)


def _rows_of_channels(image: Any, weights: Any, window: Window) -> Any:
    """Each channel by its own weights, of several rows at once, which share what they read.

    A row of the window meets every row of the tile, by zeros where it is not one of that row's.
    """
    (kernel_y, kernel_x), (height, width) = window.kernel, window.output
    pitch = window.pitch
    rows, wide, times = window.shared_rows, -(-width // LANES) * LANES, window.made // window.channels
    last = (height + kernel_y - 2) * pitch + wide + kernel_x - 2
    frame, before = _frame(image, window, last // pitch + 1), rows - 1
    y, x = te.reduce_axis((0, kernel_y + before), name="ky"), te.reduce_axis((0, kernel_x), name="kx")

    def framed(o: Any, tap: Any, across: Any) -> Any:
        inside = tirx.all(tap >= before, tap < before + kernel_y)
        return tirx.if_then_else(inside, weights[o, tap - before, across], tirx.const(0, "float32"))

    shared = te.compute((window.made, kernel_y + 2 * before, kernel_x), framed, name=FRAME)

    def summed(b: Any, o: Any, tile: Any, row: Any, column: Any) -> Any:
        at = (tile * rows + y) * pitch + column + x
        value = frame[b, o if times == 1 else o // times, at // pitch, at % pitch]
        return te.sum(value * shared[o, y - row + before, x], axis=[y, x])

    tiles = (window.batch, window.made, height // rows, rows)
    made = te.compute((*tiles, wide), summed, name=CHANNELS)
    return te.compute((*tiles, width), lambda *at: made[at], name=CUT)


def schedule_channels(schedule: Any, block: Any, threads: int) -> None:
    """Keep the sums of a tile of rows and vectors in registers."""
    written = schedule.cache_write(block, 0, "global")
    *outer, row, column = schedule.get_loops(written)
    vectors = 2 if int(schedule.get(column).extent) % (2 * LANES) == 0 else 1
    tile, vector, lane = schedule.split(column, [None, vectors, LANES])
    schedule.reorder(*outer, tile, row, vector, lane)
    schedule.compute_at(block, tile, preserve_unit_loops=True)
    row_in, column_in, *taps = schedule.get_loops(block)[-4:]
    vector_in, lane_in = schedule.split(column_in, [vectors, LANES])
    schedule.reorder(*taps, vector_in, row_in, lane_in)
    for loop in (vector_in, row_in, row, vector):
        schedule.unroll(loop)
    schedule.vectorize(lane_in)
    schedule.vectorize(lane)
    if threads > 1:
        schedule.parallel(schedule.fuse(*outer))
    schedule.decompose_reduction(block, taps[0])


def _each_channel(image: Any, weights: Any, window: Window) -> Any:
    """Each channel by its own weights, written out, so that sums stay in registers."""
    frame, times = _frame(image, window), window.made // window.channels

    def summed(b: Any, o: Any, row: Any, column: Any) -> Any:
        channel, total = (o if times == 1 else o // times), None
        for y, x in itertools.product(*map(range, window.kernel)):
            at = row * window.stride[0] + y * window.step[0], column * window.stride[1] + x * window.step[1]
            term = frame[b, channel, at[0], at[1]] * weights[o, y, x]
            total = term if total is None else total + term
        return total

    return te.compute((window.batch, window.made, *window.output), summed, name="each_channel")


def schedule_columns(schedule: Any, block: Any, threads: int) -> None:
    """Share what weights meet among threads; one thread makes it where a band's products are computed."""
    if threads > 1:
        schedule.parallel(schedule.fuse(*schedule_image_rows(schedule, block)))


def _with_height(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape of three axes or four, with four."""
    return shape if len(shape) == 4 else (*shape[:2], 1, shape[2])


def transposed_convolution(builder: Any, call: Any, default: Callable[[Any, Any], Any]) -> Any:
    """A product of the weights and the image, whose rows are added where they belong."""
    at, (data, weight) = call.attrs, call.args
    is_plain = (at.data_layout, at.kernel_layout, int(at.groups)) == ("NCHW", "IOHW", 1)
    if not is_plain or data.ty.dtype.dtype != "float32" or integers(at.dilation) != (1, 1):
        return default(builder, call)
    batch, channels, height, width = integers(data.ty.shape)
    _, made, kernel_y, kernel_x = integers(weight.ty.shape)
    stride, (top, left, *_) = integers(at.strides), integers(at.padding)
    shape = integers(call.ty.shape)

    # Where tiles don't overlap, each value is one of the product's.
    is_alone = (kernel_y, kernel_x) == stride and shape[2:] == (height * kernel_y, width * kernel_x)
    if not is_alone and hasattr(weight, "value"):
        return _by_phases(builder, call, weight.value.numpy())

    def spread(image: Any, weights: Any) -> Any:
        rows = product(weights, image)
        y, x = te.reduce_axis((0, kernel_y), name="ky"), te.reduce_axis((0, kernel_x), name="kx")

        def added(b: Any, o: Any, row: Any, column: Any) -> Any:
            down, across = row + top - y, column + left - x
            place = down // stride[0] * width + across // stride[1]
            hits = tirx.all(
                down >= 0,
                across >= 0,
                down % stride[0] == 0,
                across % stride[1] == 0,
                down // stride[0] < height,
                across // stride[1] < width,
            )
            value = rows[b, (o * kernel_y + y) * kernel_x + x, place]
            return te.sum(tirx.if_then_else(hits, value, tirx.const(0, "float32")), axis=[y, x])

        def moved(b: Any, o: Any, row: Any, y: Any, column: Any, x: Any) -> Any:
            return rows[b, (o * kernel_y + y) * kernel_x + x, row * width + column]

        if is_alone:
            return te.compute((batch, made, height, kernel_y, width, kernel_x), moved, name="spread")
        return te.compute(shape, added, name="spread")

    turned = builder.normalize(relax.op.permute_dims(weight, [1, 2, 3, 0]))
    turned = builder.normalize(relax.op.reshape(turned, (1, made * kernel_y * kernel_x, channels)))
    image = builder.normalize(relax.op.reshape(data, (batch, channels, height * width)))
    found = builder.emit(builder.call_te(spread, image, turned, primfunc_name_hint="transposed_convolution"))
    return relax.op.reshape(found, shape)


def _by_phases(builder: Any, call: Any, weight: Any) -> Any:
    """A transposed convolution as convolutions in place: one for outputs of each remainder of the stride.

    Outputs of a remainder read neighbouring places of the image by every `stride`th tap, in turned order.
    """
    at, data = call.attrs, call.args[0]
    batch, channels, *size = integers(data.ty.shape)
    stride, before = integers(at.strides), integers(at.padding)[:2]
    _, made, *output = integers(call.ty.shape)
    counts = tuple(-(-(extent + first) // step) for extent, first, step in zip(output, before, stride, strict=True))
    windows, turned = [], []
    for phase in itertools.product(*map(range, stride)):
        taps = weight[:, :, phase[0] :: stride[0], phase[1] :: stride[1]]
        missing = [(0, max(0, 1 - extent)) for extent in taps.shape]
        taps = np.pad(taps, missing)[:, :, ::-1, ::-1]
        kernel: Any = taps.shape[2:]
        after: Any = tuple(max(0, count - extent) for count, extent in zip(counts, size, strict=True))
        first: Any = tuple(extent - 1 for extent in kernel)
        windows.append(
            Window(
                batch, channels, (size[0], size[1]), made, kernel, (1, 1), (1, 1), first, after, (counts[0], counts[1])
            )
        )
        turned.append(relax.const(np.ascontiguousarray(taps.transpose(1, 0, 2, 3)).reshape(1, made, -1)))

    def spread(image: Any, *weights: Any) -> Any:
        parts = [_in_place(image, own, window) for own, window in zip(weights, windows, strict=True)]

        def chosen(b: Any, o: Any, row: Any, y: Any, column: Any, x: Any) -> Any:
            value = parts[-1][b, o, row, column]
            for index in range(len(parts) - 2, -1, -1):
                value = tirx.Select(y * stride[1] + x == index, parts[index][b, o, row, column], value)
            return value

        woven = te.compute((batch, made, counts[0], stride[0], counts[1], stride[1]), chosen, name=WOVEN)

        def cut(b: Any, o: Any, row: Any, column: Any) -> Any:
            y, x = row + before[0], column + before[1]
            return woven[b, o, y // stride[0], y % stride[0], x // stride[1], x % stride[1]]

        return te.compute((batch, made, *output), cut, name=CUT)

    return builder.emit(builder.call_te(spread, data, *turned, primfunc_name_hint="transposed_convolution"))


def schedule_woven(schedule: Any, block: Any, threads: int) -> None:
    """Write each remainder's outputs in their places, which alternate."""
    *outer, _, x = schedule.get_loops(block)
    schedule.unroll(x)
    schedule.unroll(outer[-1])
    if threads > 1:
        schedule.parallel(schedule.fuse(*outer[:-1]))
