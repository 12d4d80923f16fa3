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

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx

LANES, MOST_ROWS, MOST_VECTORS = 16, 6, 4
PRODUCTS, COLUMNS, PADDED = "products", "image_columns", "padded_columns"


def rows_of_tile(rows: int) -> int:
    """The rows of a tile with the least waste; of several, the most."""
    if rows <= MOST_ROWS:
        return rows
    return min(range(MOST_ROWS, 3, -1), key=lambda tile: -(-rows // tile) * tile)


def vectors_of_tile(columns: int) -> int:
    """The vectors of a tile's row with the least waste; one where vectors take two registers, and there are 16."""
    target = tvm.target.Target.current(allow_none=True)
    most = MOST_VECTORS if target is not None and str(target.attrs.get("mcpu", "")).endswith("v4") else 1
    vectors = -(-columns // LANES)
    return min(range(min(most, vectors), 0, -1), key=lambda tile: -(-vectors // tile) * tile + (tile == 1))


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


def convolution(builder: Any, call: Any, default: Callable[[Any, Any], Any]) -> Any:
    """A convolution, 1-D or 2-D, as a product of its weights and of what each of them meets."""
    at, (data, weight) = call.attrs, call.args
    is_plain = (at.data_layout, at.kernel_layout, int(at.groups)) in (("NCHW", "OIHW", 1), ("NCW", "OIW", 1))
    if not is_plain or data.ty.dtype.dtype != "float32":
        return default(builder, call)
    batch, channels, height, width = _with_height(_integers(data.ty.shape))
    made, _, kernel_y, kernel_x = _with_height(_integers(weight.ty.shape))
    *_, out_y, out_x = _with_height(_integers(call.ty.shape))
    stride_y, stride_x = (1, *_integers(at.strides))[-2:]
    step_y, step_x = (1, *_integers(at.dilation))[-2:]
    padding = _integers(at.padding)
    top, left = (0, padding[0]) if len(padding) == 2 else padding[:2]
    depth = channels * kernel_y * kernel_x

    def columns(image: Any) -> Any:
        below, beside = (
            (out_y - 1) * stride_y + (kernel_y - 1) * step_y,
            (out_x - 1) * stride_x + (kernel_x - 1) * step_x,
        )

        def framed(b: Any, c: Any, y: Any, x: Any) -> Any:
            inside = tirx.all(y >= top, y < height + top, x >= left, x < width + left)
            return tirx.if_then_else(inside, image[b, c, y - top, x - left], tirx.const(0, "float32"))

        frame = te.compute((batch, channels, below + 1, beside + 1), framed, name="frame")

        def met(b: Any, k: Any, p: Any) -> Any:
            c, y, x = k // (kernel_y * kernel_x), k // kernel_x % kernel_y, k % kernel_x
            return frame[b, c, p // out_x * stride_y + y * step_y, p % out_x * stride_x + x * step_x]

        name = f"{COLUMNS}_{kernel_y}_{kernel_x}_{out_x}"
        return te.compute((batch, depth, out_y * out_x), met, name=name)

    is_view = kernel_y == kernel_x == stride_y == stride_x == 1 and not any(padding)
    shape = (batch, channels, height * width) if is_view else (batch, channels, height, width)
    data = builder.normalize(relax.op.reshape(data, shape))
    weight = builder.normalize(relax.op.reshape(weight, (1, made, depth)))

    def convolved(image: Any, weights: Any) -> Any:
        return product(weights, image if is_view else columns(image))

    found = builder.emit(builder.call_te(convolved, data, weight, primfunc_name_hint="convolution"))
    return relax.op.reshape(found, call.ty.shape)


def schedule_columns(schedule: Any, block: Any, threads: int) -> None:
    """Copy what each weight meets row by row of the image."""
    kernel_y, kernel_x, out_x = (int(number) for number in schedule.get(block).name_hint.split("_")[2:])
    batch, k, p = schedule.get_loops(block)
    channel, *_ = schedule.split(k, [None, kernel_y, kernel_x])
    schedule.split(p, [None, out_x])
    if threads > 1:
        schedule.parallel(schedule.fuse(batch, channel))


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
