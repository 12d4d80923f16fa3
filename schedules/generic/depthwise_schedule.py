"""The schedule of a depthwise convolution."""

from __future__ import annotations

from collections.abc import Mapping

from tvm.s_tir import Schedule

from int8tune.schedules.generic.copy_schedule import schedule_copy
from int8tune.schedules.generic.depthwise_compute import depthwise_conv
from int8tune.schedules.generic.depthwise_form import DepthwiseForm
from int8tune.schedules.space import Value
from int8tune.schedules.template import Scheduled


def schedule_depthwise(form: DepthwiseForm, config: Mapping[str, Value], threads: int) -> Scheduled:
    """The scheduled kernel; threads share the outer tiles."""
    definition = depthwise_conv(form)
    sch = Schedule(definition)

    # 1. The image is copied once, where it must be: with a border, or repeated.
    schedule_copy(sch, form.copy, threads)

    # 2. The order of the tiles: a block of channels over the whole image, or all channels of an image tile.
    store = sch.get_sblock("requantize")
    n, y, x, k, i, b, lane = sch.get_loops(store)
    if config["outer"] == "channels":
        sch.reorder(k, n, y, x, i, b, lane)
        outer_tiles, tile = [k], x
    else:
        sch.reorder(n, y, x, k, i, b, lane)
        outer_tiles, tile = [n, y, x], k
    if threads > 1:
        sch.parallel(sch.fuse(*outer_tiles))

    # 3. The whole window of a tile is unrolled: weights and accumulators live in registers.
    dot = sch.get_sblock("dot")
    sch.compute_at(dot, tile, preserve_unit_loops=True)
    sch.unroll(i)
    sch.unroll(b)
    i_dot, b_dot, lane_dot, kh, kw = sch.get_loops(dot)[-5:]
    sch.reorder(b_dot, kh, kw, i_dot, lane_dot)
    sch.vectorize(lane_dot)  # a block whose reduction was decomposed can't be vectorized any more
    init = sch.decompose_reduction(dot, kh)
    for loop in (b_dot, kh, kw, i_dot, *sch.get_loops(init)[-3:-1]):
        sch.unroll(loop)

    # 4. Lanes are those of vectors.
    sch.vectorize(lane)
    return Scheduled(definition, sch)
