"""conv2d and dense with the int8 intrinsic that TVM has for Advanced SIMD, as MetaSchedule would use it.

Rows of four outputs share a register of weights; the sums of a row of `tile_columns` pixels stay in registers.
"""

# No postponed annotations here: TVMScript reads the buffer types of a function's parameters from its annotations.
# ruff: noqa: E741, N806
from typing import Any

import tvm.s_tir.tensor_intrin.arm_cpu  # noqa: F401
from tvm import s_tir
from tvm.s_tir.tensor_intrin.arm_cpu import ARM_DOT_4x4_i8_NEON_INTRIN
from tvm.script import tirx as T

from int8tune.schedules.arguments import PAD_VALUE, params_length, rescale_shape, rescale_type
from int8tune.schedules.epilogue import DTYPES, requantize
from int8tune.schedules.image import Image
from int8tune.schedules.tiles import tile_sizes

LANES, TAPS = 4, 4
MAX_TILE_COLUMNS = 8


def tile_columns_of(image: Image) -> tuple[int, ...]:
    """Sizes of tiles that divide a row."""
    width = image.output[1]
    return tuple(size for size in {1, *tile_sizes(width, MAX_TILE_COLUMNS), 2, 4} if width % size == 0 and size <= 8)


def stock_conv(image: Image, tile_columns: int) -> Any:
    """The scheduled PrimFunc of a convolution of s8 data, whose channels are filled up to fours."""
    schedule = s_tir.Schedule(_conv(image))
    dot, done = schedule.get_sblock("dot"), schedule.get_sblock("requantize")
    n, y, x, b, l = schedule.get_loops(done)
    outer, inner = schedule.split(x, [None, tile_columns])
    schedule.reorder(n, y, outer, b, inner, l)
    schedule.vectorize(l)
    schedule.unroll(inner)
    schedule.compute_at(dot, b, preserve_unit_loops=True)
    *_, column, lane, kh, kw, word, tap = schedule.get_loops(dot)
    schedule.reorder(kh, kw, word, column, lane, tap)
    schedule.unroll(column)
    init = schedule.decompose_reduction(dot, kh)
    schedule.vectorize(schedule.get_loops(init)[-1])
    schedule.tensorize(schedule.get_loops(dot)[-2], ARM_DOT_4x4_i8_NEON_INTRIN)
    if _copies(image):
        *_, channels = schedule.get_loops(schedule.get_sblock("pad"))
        schedule.vectorize(schedule.split(channels, [None, TAPS])[1])
    return schedule.mod["main"]


def _copies(image: Image) -> bool:
    return any(image.window.padding) or image.channels % TAPS != 0


def _conv(image: Image) -> Any:
    numerics, OC = image.numerics, image.out_channels
    (N, H, W, C), (OH, OW) = (image.batch, image.height, image.width, image.channels), image.output
    (KH, KW), (SH, SW), (DH, DW) = image.window.kernel, image.window.stride, image.window.dilation
    top, left, bottom, right = image.window.padding
    words, blocks = -(-C // TAPS), -(-OC // LANES)
    padded_shape = (N, H + top + bottom, W + left + right, words * TAPS)

    @T.macro
    def pad(data, params, padded):
        for n, y, x, c in T.grid(*padded_shape):
            with T.sblock("pad"):
                vn, vy, vx, vc = T.axis.remap("SSSS", [n, y, x, c])
                padded[vn, vy, vx, vc] = T.if_then_else(
                    top <= vy and vy < top + H and left <= vx and vx < left + W and vc < C,
                    data[vn, vy - top, vx - left, vc],
                    T.cast(params[PAD_VALUE], "int8"),
                )

    @T.macro
    def dot(data, weight, acc):
        for n, y, x, b, l, kh, kw, w, t in T.grid(N, OH, OW, blocks, LANES, KH, KW, words, TAPS):
            with T.sblock("dot"):
                vn, vy, vx, vb, vl, vkh, vkw, vw, vt = T.axis.remap("SSSSSRRRR", [n, y, x, b, l, kh, kw, w, t])
                with T.init():
                    acc[vn, vy, vx, vb, vl] = 0
                acc[vn, vy, vx, vb, vl] = acc[vn, vy, vx, vb, vl] + T.cast(
                    data[vn, vy * SH + vkh * DH, vx * SW + vkw * DW, vw * TAPS + vt], "int32"
                ) * T.cast(weight[vb, vkh, vkw, vw, vl, vt], "int32")

    @T.prim_func(s_tir=True)
    def conv(
        data: T.Buffer((N, H, W, C), "int8"),
        weight: T.Buffer((blocks, KH, KW, words, LANES, TAPS), "int8"),
        bias: T.Buffer((blocks * LANES,), "int32"),
        rescale: T.Buffer(rescale_shape(numerics, blocks * LANES), rescale_type(numerics)),
        params: T.Buffer((params_length(numerics),), "int32"),
        out: T.Buffer((N, OH, OW, blocks, LANES), DTYPES[numerics.output]),
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        acc = T.sblock_alloc_buffer((N, OH, OW, blocks, LANES), "int32")
        if _copies(image):
            padded = T.sblock_alloc_buffer(padded_shape, "int8")
            pad(data, params, padded)
            dot(padded, weight, acc)
        else:
            dot(data, weight, acc)
        for n, y, x, b, l in T.grid(N, OH, OW, blocks, LANES):
            with T.sblock("requantize"):
                vn, vy, vx, vb, vl = T.axis.remap("SSSSS", [n, y, x, b, l])
                out[vn, vy, vx, vb, vl] = requantize(
                    numerics, acc[vn, vy, vx, vb, vl] + bias[vb * LANES + vl], vb * LANES + vl, rescale, params
                )

    return conv
