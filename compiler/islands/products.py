"""Products of matrices in float. This module imports TVM.

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
# What blocks are called; COLUMNS are what weights of a convolution meet.
PRODUCTS, PADDED, CUT, COLUMNS = "products", "padded_columns", "cut", "image_columns"


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
    if padded_columns(wide) != wide:
        right = _with_zeros(right, padded_columns(wide))
    along = te.reduce_axis((0, depth), name="k")
    made = tiled(left, batch, wide, [along], along, lambda b, n: right[b, along, n])
    if made.shape[1:] == [rows, kept]:
        return made
    return te.compute((batch, rows, kept), lambda *at: made[at], name=CUT)


def padded_columns(columns: int) -> int:
    """As many columns as whole tiles have."""
    tile = vectors_of_tile(columns) * LANES
    return -(-columns // tile) * tile


def tiled(left: Any, batch: int, columns: int, axes: list[Any], along: Any, right: Callable[[Any, Any], Any]) -> Any:
    """[batch, whole tiles of rows, whole tiles of columns]: sums over these axes, `along` in each row of the left."""
    rows = int(left.shape[1])
    tile_rows = rows_of_tile(rows)
    padded_rows, is_shared = -(-rows // tile_rows) * tile_rows, int(left.shape[0]) == 1

    def term(b: Any, m: Any, n: Any) -> Any:
        row = tirx.min(m, rows - 1) if padded_rows != rows else m
        return te.sum(left[0 if is_shared else b, row, along] * right(b, n), axis=axes)

    name = f"{PRODUCTS}_{tile_rows}_{vectors_of_tile(columns)}_{len(axes)}"
    return te.compute((batch, padded_rows, padded_columns(columns)), term, name=name)


def _with_zeros(right: Any, columns: int) -> Any:
    batch, depth, wide = right.shape

    def filled(b: Any, k: Any, n: Any) -> Any:
        return tirx.if_then_else(n < wide, right[b, k, n], tirx.const(0, "float32"))

    return te.compute((batch, depth, columns), filled, name=PADDED)


def schedule_products(schedule: Any, block: Any, threads: int) -> None:
    """Tile, vectorize and unroll a block of products."""
    # 1. Sums of a tile are kept beside the output, in registers once their loops are unrolled.
    rows, vectors, axes = (int(number) for number in schedule.get(block).name_hint.split("_")[1:4])
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
            schedule_image_rows(schedule, producer)
    # 3. Within a tile, one step of the depth after the other.
    m_in_sum, n_in_sum, *depth = schedule.get_loops(block)[-2 - axes :]
    vector, lane = schedule.split(n_in_sum, [vectors, LANES])
    schedule.reorder(*depth, m_in_sum, vector, lane)
    for loop in (m_in_sum, vector, m_in, n_vector):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    schedule.vectorize(n_lane)
    if threads > 1:
        schedule.parallel(schedule.fuse(batch, n_tile, m_tile))
    schedule.decompose_reduction(block, depth[0])


def schedule_image_rows(schedule: Any, block: Any) -> tuple[Any, Any]:
    """Copy what each weight meets row by row of the image; the loops of bands and of channels."""
    kernel_y, kernel_x, width = (int(number) for number in schedule.get(block).name_hint.split("_")[2:])
    *_, band, k, p = schedule.get_loops(block)
    channel, *_ = schedule.split(k, [None, kernel_y, kernel_x])
    schedule.split(p, [None, width])
    return band, channel


def matmul(builder: Any, call: Any, default: Callable[[Any, Any], Any]) -> Any:
    """A product whose right side is one matrix, or that has the same batches on both sides."""
    left, right = call.args
    one, other = (integers(each.ty.shape) for each in (left, right))
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
    missing = padded_columns(shape[2]) - shape[2]
    if not hasattr(right, "value"):
        return builder.normalize(relax.op.reshape(right, shape)), None
    array = right.value.numpy().reshape(shape)
    return relax.const(np.pad(array, [(0, 0), (0, 0), (0, missing)])), shape[2] if missing else None


def integers(extents: Any) -> tuple[int, ...]:
    return tuple(int(extent) for extent in extents)
