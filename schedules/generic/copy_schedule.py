"""The schedule of the blocks that copy an image before a convolution reads it."""

from __future__ import annotations

from tvm.s_tir import Schedule

from int8tune.schedules.generic.image_copy import COPY_BYTES, ImageCopy


def schedule_copy(sch: Schedule, copy: ImageCopy, threads: int) -> None:
    """Vectorize the fill and the copy of rows, or remove the copy where it changes nothing."""
    if not copy.needed:
        sch.compute_inline(sch.get_sblock("alias"))
        return
    image, row, *_, lane = sch.get_loops(sch.get_sblock("copy"))
    sch.vectorize(lane)
    if threads > 1:
        sch.parallel(sch.fuse(image, row))
    if copy.has_border:
        # One long loop: LLVM would unroll the rows of a small image completely, and take longer than for all the rest.
        _, lanes = sch.split(sch.fuse(*sch.get_loops(sch.get_sblock("border"))), [None, COPY_BYTES])
        sch.vectorize(lanes)
