"""Products of matrices in float, and convolutions as such. This module imports TVM.

```
for n in tiles of up to 64 columns:      the panel of B stays in the caches
  for m in tiles of 4 to 6 rows:
    for k:
      b[0..3] = B[k, n], B[k, n + 16], ...              four vectors of 16 lanes
      acc[row, 0..3] += broadcast(A[m + row, k]) * b    24 accumulators in registers
```

Rows and columns are rounded up to whole tiles: columns with zeros behind B's, rows by the last one again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx

LANES, MOST_ROWS, MOST_VECTORS = 16, 6, 4
PRODUCTS, COLUMNS, PADDED, FRAME = "products", "image_columns", "padded_columns", "frame"
# One megabyte of what weights meet.
MOST_COLUMN_VALUES = 1 << 18


def rows_of_tile(rows: int) -> int:
    """The rows of a tile with the least waste; of several, the most."""
    if rows <= MOST_ROWS:
        return rows
    return min(range(MOST_ROWS, 3, -1), key=lambda tile: -(-rows // tile) * tile)


def vectors_of_tile(columns: int) -> int:
    """The vectors of a tile's row: few waste less, many read the left side less often; one where registers are few."""
    target = tvm.target.Target.current(allow_none=True)
    most = MOST_VECTORS if target is not None and str(target.attrs.get("mcpu", "")).endswith("v4") else 1
    vectors = -(-columns // LANES)
    return min(range(min(most, vectors), 0, -1), key=lambda tile: -(-vectors // tile) * (tile + 0.5))


def product(left: Any, right: Any, columns: int | None = None) -> Any:
    """[batch or 1, M, K] x [batch, K, N]: the product, of which `columns` are kept where the others are zeros."""
    batch, depth, wide = (int(extent) for extent in right.shape)
    rows, kept = int(left.shape[1]), columns or wide
    tile_rows, tile_vectors = rows_of_tile(rows), vectors_of_tile(wide)
    padded_rows, padded_columns = (
        -(-extent // tile) * tile for extent, tile in ((rows, tile_rows), (wide, tile_vectors * LANES))
    )
    if padded_columns != wide:
        right = _with_zeros(right, padded_columns)
    along = te.reduce_axis((0, depth), name="k")
    is_shared = int(left.shape[0]) == 1

    def term(b: Any, m: Any, n: Any) -> Any:
        row = tirx.min(m, rows - 1) if padded_rows != rows else m
        return te.sum(left[0 if is_shared else b, row, along] * right[b, along, n], axis=along)

    name = f"{PRODUCTS}_{tile_rows}_{tile_vectors}"
    made = te.compute((batch, padded_rows, padded_columns), term, name=name)
    if (padded_rows, padded_columns) == (rows, kept):
        return made
    return te.compute((batch, rows, kept), lambda *at: made[at], name="cut")


def _with_zeros(right: Any, columns: int) -> Any:
    batch, depth, wide = right.shape

    def filled(b: Any, k: Any, n: Any) -> Any:
        return tirx.if_then_else(n < wide, right[b, k, n], tirx.const(0, "float32"))

    return te.compute((batch, depth, columns), filled, name=PADDED)


def schedule_products(schedule: Any, block: Any, threads: int) -> None:
    """Tile, vectorize and unroll a block of products."""
    # 1. Sums of a tile are kept beside the output, in registers once their loops are unrolled.
    rows, vectors = (int(number) for number in schedule.get(block).name_hint.split("_")[1:])
    written = schedule.cache_write(block, 0, "global")
    # 2. Tiles: panels of columns outside, so that one is read again for all rows.
    batch, m, n = schedule.get_loops(written)
    m_tile, m_in = schedule.split(m, [None, rows])
    n_tile, n_vector, n_lane = schedule.split(n, [None, vectors, LANES])
    schedule.reorder(batch, n_tile, m_tile, m_in, n_vector, n_lane)
    schedule.compute_at(block, m_tile, preserve_unit_loops=True)
    for producer in schedule.get_producers(block) if threads == 1 else ():
        if schedule.get(producer).name_hint.startswith(COLUMNS):
            schedule.compute_at(producer, batch, preserve_unit_loops=True)
            _by_image_rows(schedule, producer)
    # 3. Within a tile, one step of the depth after the other.
    *_, m_in_sum, n_in_sum, k = schedule.get_loops(block)
    vector, lane = schedule.split(n_in_sum, [vectors, LANES])
    schedule.reorder(k, m_in_sum, vector, lane)
    for loop in (m_in_sum, vector, m_in, n_vector):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    schedule.vectorize(n_lane)
    if threads > 1:
        schedule.parallel(schedule.fuse(batch, n_tile, m_tile))
    schedule.decompose_reduction(block, k)


def matmul(builder: Any, call: Any, default: Callable[[Any, Any], Any]) -> Any:
    """A product whose right side is one matrix, or that has the same batches on both sides."""
    left, right = call.args
    one, other = (_integers(each.ty.shape) for each in (left, right))
    if left.ty.dtype.dtype != "float32" or min(len(one), len(other)) < 2:
        return default(builder, call)
    output, rows, depth, wide = call.ty.shape, one[-2], one[-1], other[-1]
    if len(other) == 2 or math.prod(other[:-2]) == 1:
        batch, rows = 1, math.prod(one[:-1])
    elif one[:-2] == other[:-2]:
        batch = math.prod(one[:-2])
    else:
        return default(builder, call)
    left = builder.normalize(relax.op.reshape(left, (batch, rows, depth)))
    right, columns = _columns(builder, right, (batch, depth, wide))
    made = builder.emit(builder.call_te(product, left, right, columns, primfunc_name_hint="matmul"))
    return relax.op.reshape(made, output)


def _columns(builder: Any, right: Any, shape: tuple[int, int, int]) -> tuple[Any, int | None]:
    """The right side in its three axes; a constant gets its zeros now."""
    missing = -shape[2] % (LANES * vectors_of_tile(shape[2]))
    if not hasattr(right, "value"):
        return builder.normalize(relax.op.reshape(right, shape)), None
    array = right.value.numpy().reshape(shape)
    return relax.const(np.pad(array, [(0, 0), (0, 0), (0, missing)])), shape[2] if missing else None


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
    def is_plain(self) -> bool:
        """Whether each value meets itself alone."""
        return {*self.kernel, *self.stride} == {1} and {*self.before, *self.after} == {0}

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
    batch, channels, *size = _with_height(_integers(data.ty.shape))
    made, _, *kernel = _with_height(_integers(weight.ty.shape))
    *_, out_y, out_x = _with_height(_integers(call.ty.shape))
    padding = _integers(at.padding)
    if len(padding) == 2:
        padding = (0, padding[0], 0, padding[1])
    stride, step = ((1, *_integers(each))[-2:] for each in (at.strides, at.dilation))
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
            return _each_channel(_frame(image, window), weights, window)
        made = product(weights, image if window.is_plain else _columns_of(_frame(image, window), window))
        if window.bands == window.batch:
            return made
        shape = (window.made, window.bands, math.prod(window.output) // window.bands)
        return te.compute(shape, lambda o, band, p: made[band, o, p], name="joined")

    found = builder.emit(builder.call_te(convolved, data, weight, primfunc_name_hint="convolution"))
    return relax.op.reshape(found, call.ty.shape)


def _frame(image: Any, window: Window) -> Any:
    """The image with its border of zeros."""
    (top, left), (height, width) = window.before, window.size
    shape = [sum(each) for each in zip(window.size, window.before, window.after, strict=True)]

    def framed(b: Any, c: Any, y: Any, x: Any) -> Any:
        inside = tirx.all(y >= top, y < height + top, x >= left, x < width + left)
        return tirx.if_then_else(inside, image[b, c, y - top, x - left], tirx.const(0, "float32"))

    if not any((*window.before, *window.after)):
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


def _each_channel(frame: Any, weights: Any, window: Window) -> Any:
    """Each channel by its own weights, written out, so that sums stay in registers."""
    times = window.made // window.channels

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
        schedule.parallel(schedule.fuse(*_by_image_rows(schedule, block)))


def _by_image_rows(schedule: Any, block: Any) -> tuple[Any, Any]:
    """Copy what each weight meets row by row of the image; the loops of bands and of channels."""
    kernel_y, kernel_x, width = (int(number) for number in schedule.get(block).name_hint.split("_")[2:])
    *_, band, k, p = schedule.get_loops(block)
    channel, *_ = schedule.split(k, [None, kernel_y, kernel_x])
    schedule.split(p, [None, width])
    return band, channel


def _integers(extents: Any) -> tuple[int, ...]:
    return tuple(int(extent) for extent in extents)


def _with_height(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape of three axes or four, with four."""
    return shape if len(shape) == 4 else (*shape[:2], 1, shape[2])


def transposed_convolution(builder: Any, call: Any, default: Callable[[Any, Any], Any]) -> Any:
    """A product of the weights and the image, whose rows are added where they belong."""
    at, (data, weight) = call.attrs, call.args
    is_plain = (at.data_layout, at.kernel_layout, int(at.groups)) == ("NCHW", "IOHW", 1)
    if not is_plain or data.ty.dtype.dtype != "float32" or _integers(at.dilation) != (1, 1):
        return default(builder, call)
    batch, channels, height, width = _integers(data.ty.shape)
    _, made, kernel_y, kernel_x = _integers(weight.ty.shape)
    stride, (top, left, *_) = _integers(at.strides), _integers(at.padding)
    shape = _integers(call.ty.shape)

    # Where tiles don't overlap, each value is one of the product's.
    is_alone = (kernel_y, kernel_x) == stride and shape[2:] == (height * kernel_y, width * kernel_x)

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
