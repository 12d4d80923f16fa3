"""The schedule of a depthwise convolution, with the instruction left to the template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm.s_tir import Schedule

from schedules.compute_depthwise import depthwise_conv
from schedules.copy_schedule import schedule_copy
from schedules.depthwise import DepthwiseForm
from schedules.space import Value


def schedule_depthwise(
    form: DepthwiseForm, config: Mapping[str, Value], intrinsic: str | None, threads: int = 1
) -> Any:
    """The scheduled PrimFunc; lanes and taps become the named tensor intrinsic, or plain vector code without one.

    Threads share the outer tiles.
    """
    sch = Schedule(depthwise_conv(form))

    # 1. The image is copied once, where it must be: padded, converted or repeated.
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

    # 3. The whole window of a tile is unrolled: packed columns, weights and accumulators live in registers.
    dots = ("dot", "window_sum") if form.has_window_sum else ("dot",)
    for name in dots:
        sch.compute_at(sch.get_sblock(name), tile, preserve_unit_loops=True)
    if form.taps > 1:
        _schedule_quads(sch, form, tile)
    sch.unroll(i)
    sch.unroll(b)

    # 4. One instruction a lane block.
    sch.vectorize(lane)
    for name in dots:
        _schedule_dot(sch, name, intrinsic)
    return sch.mod["main"]


def _schedule_dot(sch: Schedule, name: str, intrinsic: str | None) -> None:
    dot = sch.get_sblock(name)
    i, b, lane, kh, kw = sch.get_loops(dot)[-5:] if intrinsic is None else sch.get_loops(dot)[-6:-1]
    sch.reorder(b, kh, kw, i, lane)
    if intrinsic is None:  # a block whose reduction was decomposed can't be vectorized any more
        sch.vectorize(lane)
    init = sch.decompose_reduction(dot, kh)
    for loop in (b, kh, kw, i, *sch.get_loops(init)[-3:-1]):
        sch.unroll(loop)
    if intrinsic is not None:
        sch.vectorize(sch.get_loops(init)[-1])
        sch.tensorize(lane, intrinsic)


def _schedule_quads(sch: Schedule, form: DepthwiseForm, tile: Any) -> None:
    quad = sch.get_sblock("quad")
    sch.compute_at(quad, tile, preserve_unit_loops=True)
    step, column, channel = sch.get_loops(quad)[-3:]
    _, lane = sch.split(channel, [None, form.lanes])
    sch.vectorize(lane)
    sch.unroll(step)
    sch.unroll(column)
