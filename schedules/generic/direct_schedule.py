"""The schedule of a direct convolution."""

from __future__ import annotations

from collections.abc import Mapping

from tvm.s_tir import Schedule

from int8tune.schedules.generic.copy_schedule import schedule_copy
from int8tune.schedules.generic.direct_compute import direct_conv
from int8tune.schedules.generic.direct_form import DirectForm
from int8tune.schedules.space import Value
from int8tune.schedules.template import Scheduled


def schedule_direct(form: DirectForm, config: Mapping[str, Value], threads: int) -> Scheduled:
    """The scheduled kernel; threads share the outer tiles."""
    definition = direct_conv(form)
    sch = Schedule(definition)

    # 1. The image is copied once, where it must be: with a border.
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
    i_dot, b_dot, lane_dot, kh, r, u = sch.get_loops(dot)[-6:]
    sch.reorder(kh, r, u, i_dot, b_dot, lane_dot)
    sch.vectorize(lane_dot)  # a block whose reduction was decomposed can't be vectorized any more
    init = sch.decompose_reduction(dot, kh)
    unroll = int(config["unroll"])
    if unroll > 1:
        _, u_inner = sch.split(u, [None, unroll])
        sch.unroll(u_inner)
    for loop in (i_dot, b_dot, *sch.get_loops(init)[-3:-1], i, b):
        sch.unroll(loop)

    # 4. Lanes are those of vectors.
    sch.vectorize(lane)
    return Scheduled(definition, sch)
