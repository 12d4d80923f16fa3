"""The schedule of a direct convolution, with the instruction left to the template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm.s_tir import Schedule

from schedules.compute import direct_conv
from schedules.copy_schedule import schedule_copy
from schedules.direct import DirectForm
from schedules.space import Value


def schedule_direct(form: DirectForm, config: Mapping[str, Value], intrinsic: str | None, threads: int = 1) -> Any:
    """The scheduled PrimFunc; lanes and taps become the named tensor intrinsic, or plain vector code without one.

    Threads share the outer tiles.
    """
    sch = Schedule(direct_conv(form))

    # 1. The image is copied once, where it must be: padded, converted or given slack.
    schedule_copy(sch, form.copy, threads)

    # 2. The order of the tiles: a weight tile over the whole image, or all weights over an image tile.
    store = sch.get_sblock("requantize")
    n, y, x, g, k, i, b, lane = sch.get_loops(store)
    if config["outer"] == "weights":
        sch.reorder(g, k, n, y, x, i, b, lane)
        outer_tiles, inner_tile = [g, k], x
    else:
        sch.reorder(n, y, x, g, k, i, b, lane)
        outer_tiles, inner_tile = [n, y, x], k
    if threads > 1:
        sch.parallel(sch.fuse(*outer_tiles))

    # 3. Accumulators live as long as one tile, inside the reduction: registers.
    dot = sch.get_sblock("dot")
    sch.compute_at(dot, inner_tile, preserve_unit_loops=True)
    i_dot, b_dot, lane_dot, kh, r, u, j = sch.get_loops(dot)[-7:]
    sch.reorder(kh, r, u, i_dot, b_dot, j, lane_dot)
    if intrinsic is None:  # a block whose reduction was decomposed can't be vectorized any more
        sch.vectorize(lane_dot)
    init = sch.decompose_reduction(dot, kh)
    unroll = int(config["unroll"])
    if unroll > 1:
        _, u_inner = sch.split(u, [None, unroll])
        sch.unroll(u_inner)
    for loop in (i_dot, b_dot, *sch.get_loops(init)[-3:-1], i, b):
        sch.unroll(loop)

    # 4. One instruction a lane block.
    sch.vectorize(lane)
    if intrinsic is not None:
        sch.vectorize(sch.get_loops(init)[-1])
        sch.reorder(lane_dot, j)
        sch.tensorize(lane_dot, intrinsic)
    return sch.mod["main"]
