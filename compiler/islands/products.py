"""Products of matrices in float, and convolutions as such. This module imports TVM.

```
for n in tiles of 32 columns:          the panel of B stays in the first cache
  for m in tiles of 4 to 6 rows:
    for k:
      b0, b1 = B[k, n], B[k, n + 16]                      two vectors of 16 lanes
      acc[row, 0..1] += broadcast(A[m + row, k]) * b0..1  8 to 12 accumulators in registers
```

Rows and columns are rounded up to whole tiles: columns with zeros behind B's, rows by the last one again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax, te, tirx

LANES, COLUMN_VECTORS, MOST_ROWS = 16, 2, 6
PRODUCTS, COLUMNS = "products", "image_columns"


def rows_of_tile(rows: int) -> int:
    """The rows of a tile with the least waste; of several, the most."""
    if rows <= MOST_ROWS:
        return rows
    return min(range(MOST_ROWS, 3, -1), key=lambda tile: -(-rows // tile) * tile)


def product(left: Any, right: Any, columns: int | None = None) -> Any:
    """[batch or 1, M, K] x [batch, K, N]: the product, of which `columns` are kept where the others are zeros."""
    batch, depth, wide = (int(extent) for extent in right.shape)
    rows, kept = int(left.shape[1]), columns or wide
    padded_columns = -(-wide // LANES) * LANES
    padded_rows = -(-rows // rows_of_tile(rows)) * rows_of_tile(rows)
    if padded_columns != wide:
        right = te.compute(
            (batch, depth, padded_columns),
            lambda b, k, n: tirx.if_then_else(n < wide, right[b, k, n], tirx.const(0, "float32")),
            name="padded_columns",
        )
    along = te.reduce_axis((0, depth), name="k")
    is_shared = int(left.shape[0]) == 1

    def term(b: Any, m: Any, n: Any) -> Any:
        row = tirx.min(m, rows - 1) if padded_rows != rows else m
        return te.sum(left[0 if is_shared else b, row, along] * right[b, along, n], axis=along)

    made = te.compute((batch, padded_rows, padded_columns), term, name=PRODUCTS)
    if (padded_rows, padded_columns) == (rows, kept):
        return made
    return te.compute((batch, rows, kept), lambda *at: made[at], name="cut")


def schedule_products(schedule: Any, block: Any, threads: int) -> None:
    """Tile, vectorize and unroll a block of products."""
    # 1. Sums of a tile are kept beside the output, in registers once their loops are unrolled.
    rows = rows_of_tile(int(schedule.get(schedule.get_loops(block)[1]).extent))
    width = int(schedule.get(schedule.get_loops(block)[2]).extent)
    vectors = COLUMN_VECTORS if width % (COLUMN_VECTORS * LANES) == 0 else 1
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
    missing = -shape[2] % LANES
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
        def met(b: Any, k: Any, p: Any) -> Any:
            c, y, x = k // (kernel_y * kernel_x), k // kernel_x % kernel_y, k % kernel_x
            row, column = p // out_x * stride_y + y * step_y - top, p % out_x * stride_x + x * step_x - left
            inside = tirx.all(row >= 0, row < height, column >= 0, column < width)
            return tirx.if_then_else(inside, image[b, c, row, column], tirx.const(0, "float32"))

        return te.compute((batch, depth, out_y * out_x), met, name=COLUMNS)

    is_view = kernel_y == kernel_x == stride_y == stride_x == 1 and not any(padding)
    shape = (batch, channels, height * width) if is_view else (batch, channels, height, width)
    data = builder.normalize(relax.op.reshape(data, shape))
    weight = builder.normalize(relax.op.reshape(weight, (1, made, depth)))

    def convolved(image: Any, weights: Any) -> Any:
        return product(weights, image if is_view else columns(image))

    found = builder.emit(builder.call_te(convolved, data, weight, primfunc_name_hint="convolution"))
    return relax.op.reshape(found, call.ty.shape)


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

        def moved(b: Any, o: Any, row: Any, column: Any) -> Any:
            at_kernel = (o * kernel_y + row % kernel_y) * kernel_x + column % kernel_x
            return rows[b, at_kernel, row // kernel_y * width + column // kernel_x]

        # Where tiles don't overlap, each value is one of the product's.
        alone = (kernel_y, kernel_x) == stride and shape[2:] == (height * kernel_y, width * kernel_x)
        return te.compute(shape, moved if alone else added, name="spread")

    turned = builder.normalize(relax.op.permute_dims(weight, [1, 2, 3, 0]))
    turned = builder.normalize(relax.op.reshape(turned, (1, made * kernel_y * kernel_x, channels)))
    image = builder.normalize(relax.op.reshape(data, (batch, channels, height * width)))
    return builder.call_te(spread, image, turned, primfunc_name_hint="conv2d_transpose")
