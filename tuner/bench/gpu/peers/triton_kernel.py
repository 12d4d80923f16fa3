"""A product of int8 matrices with its requantization in one kernel of Triton, as its users write one.

It is that of Triton's tutorial "Matrix Multiplication" (https://triton-lang.org, blocks in groups for the second-level
cache, tuned over tiles), with int32 sums, and with a bias, a scale for each column, rounding and a clamp behind them.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

# Rows, columns, depth, warps and stages of the tiles that are tried for each size.
TILES = (
    (128, 256, 128, 8, 3),
    (128, 256, 64, 8, 4),
    (256, 128, 128, 8, 3),
    (128, 128, 128, 8, 3),
    (128, 128, 128, 4, 4),
    (64, 256, 128, 4, 4),
    (128, 64, 128, 4, 4),
    (64, 64, 128, 4, 4),
)
GROUPED_BLOCKS = 8
# How long a tile is tried before, and while it is timed, in milliseconds.
TUNED_MS = (3, 12)
_CONFIGS = [
    triton.Config(
        {"block_rows": rows, "block_columns": columns, "block_depth": depth, "grouped": GROUPED_BLOCKS},
        num_warps=warps,
        num_stages=stages,
    )
    for rows, columns, depth, warps, stages in TILES
]


def _time(call: Any, quantiles: Any) -> Any:
    return triton.testing.do_bench(call, warmup=TUNED_MS[0], rep=TUNED_MS[1], quantiles=quantiles)


@triton.autotune(configs=_CONFIGS, key=["rows", "columns", "depth"], do_bench=_time)  # type: ignore[untyped-decorator]
@triton.jit  # type: ignore[untyped-decorator]
def _kernel(  # type: ignore[no-untyped-def]
    data,
    weight,
    bias,
    scale,
    out,
    rows,
    columns,
    depth,
    is_whole: tl.constexpr,
    block_rows: tl.constexpr,
    block_columns: tl.constexpr,
    block_depth: tl.constexpr,
    grouped: tl.constexpr,
):
    block = tl.program_id(0)
    across = tl.cdiv(columns, block_columns)
    first = block // (grouped * across) * grouped
    height = min(tl.cdiv(rows, block_rows) - first, grouped)
    within = block % (grouped * across)
    row = (first + within % height) * block_rows + tl.arange(0, block_rows)
    column = within // height * block_columns + tl.arange(0, block_columns)
    at = tl.arange(0, block_depth)
    from_data = data + (row % rows)[:, None] * depth + at[None, :]
    from_weight = weight + (column % columns)[None, :] * depth + at[:, None]
    sums = tl.zeros((block_rows, block_columns), dtype=tl.int32)
    for step in range(tl.cdiv(depth, block_depth)):
        if is_whole:
            sums = tl.dot(tl.load(from_data), tl.load(from_weight), sums, out_dtype=tl.int32)
        else:
            left = depth - step * block_depth
            values = tl.load(from_data, mask=at[None, :] < left, other=0)
            sums = tl.dot(values, tl.load(from_weight, mask=at[:, None] < left, other=0), sums, out_dtype=tl.int32)
        from_data += block_depth
        from_weight += block_depth
    scaled = (sums + tl.load(bias + column % columns)[None, :]).to(tl.float32) * tl.load(scale + column % columns)[
        None, :
    ]
    rounded = tl.extra.cuda.libdevice.rint(scaled)
    clamped = tl.minimum(tl.maximum(rounded, -128.0), 127.0).to(tl.int8)
    tl.store(
        out + row[:, None] * columns + column[None, :],
        clamped,
        mask=(row < rows)[:, None] & (column < columns)[None, :],
    )


def multiply(data: Any, weight: Any, bias: Any, scale: Any, out: Any) -> None:
    """Enqueue s8 [rows, columns] of s8 [rows, depth] and s8 [columns, depth]; the first call of a size is tuned."""
    (rows, depth), columns = data.shape, weight.shape[0]

    def blocks(tile: Any) -> tuple[int]:
        return (triton.cdiv(rows, tile["block_rows"]) * triton.cdiv(columns, tile["block_columns"]),)

    is_whole = depth % max(tile[2] for tile in TILES) == 0
    _kernel[blocks](data, weight, bias, scale, out, rows, columns, depth, is_whole)
