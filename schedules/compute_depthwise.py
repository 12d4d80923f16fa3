"""The int8 depthwise convolution as TIR blocks, before any schedule.

Two ways to sum: multiply-adds for any CPU, and dot products over vertical taps that are packed four to a word. This
module imports TVM, `schedules.depthwise` does not.
"""

# No postponed annotations here: TVMScript reads the buffer types of a function's parameters from its annotations.
# ruff: noqa: E741, N806
import functools
from collections.abc import Callable
from typing import Any

from tvm.script import tirx as T

from schedules.arguments import WEIGHT_ZERO_POINT, params_length, rescale_shape, rescale_type
from schedules.compute import image_copy, residual_type, tile_start, with_arguments_of
from schedules.depthwise import DepthwiseForm
from schedules.epilogue import DTYPES, add_residual, requantize


def depthwise_conv(form: DepthwiseForm) -> Any:
    """The PrimFunc of a depthwise convolution: (data, weight, bias, rescale, params, out), a residual before `out`.

    `acc` and `window_sum` are indexed by tile: [N, OH, column tile, channel tile, column, block, lane]. `quads` holds,
    per input column and channel, four vertical neighbours in one word, the topmost lowest; all outputs whose windows
    contain the column use it.
    """
    work, numerics = form.workload, form.workload.numerics
    N, OH, OC = work.batch, form.output[0], work.out_channels
    U, J, L = form.steps, form.taps, form.lanes
    zero = form.has_window_sum
    kind = "uint8" if form.data_offset else DTYPES[numerics.data]
    weight_kind = "int8" if form.weight_offset else DTYPES[numerics.weight]
    copy_image, multiply_add = image_copy(form.copy), _multiply_add(form)
    pack_quads = _pack_quads(form)
    dot = _dot(form, "dot", lambda weight, k, u, kw, b, l, j: weight[k, u, kw, b, l, j])
    sum_window = _dot(form, "window_sum", lambda ones, k, u, kw, b, l, j: ones[u, l, j])  # noqa: ARG005
    sums = (N, OH, form.column_tiles, form.channel_tiles, form.tile_columns, form.tile_blocks, L)

    @T.prim_func(s_tir=True)
    def depthwise(
        data: T.Buffer((N, work.height, work.width * work.channels), DTYPES[numerics.data]),
        weight: T.Buffer(form.weight_shape, weight_kind),
        bias: T.Buffer((OC,), "int32"),
        rescale: T.Buffer(rescale_shape(numerics, OC), rescale_type(numerics)),
        params: T.Buffer((params_length(numerics),), "int32"),
        residual: T.Buffer(work.output_shape, residual_type(numerics)),
        out: T.Buffer(work.output_shape, DTYPES[numerics.output]),
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        padded = T.sblock_alloc_buffer((N, form.copy.padded_height, form.copy.padded_row_length), kind)
        acc = T.sblock_alloc_buffer(sums, "int32")
        copy_image(data, params, padded)
        if J == 1:
            multiply_add(padded, weight, params, acc)
        else:
            quads = T.sblock_alloc_buffer((N, OH, U, form.padded_size[1], OC), "uint32")
            pack_quads(padded, quads)
            dot(quads, weight, acc)
        if zero:
            ones = T.sblock_alloc_buffer((U, L, J), "int8")
            window_sum = T.sblock_alloc_buffer(sums, "int32")
            for u, l, j in T.grid(U, L, J):
                with T.sblock("ones"):
                    vu, vl, vj = T.axis.remap("SSS", [u, l, j])
                    ones[vu, vl, vj] = T.cast(vu * J + vj < work.window.kernel[0], "int8")
            sum_window(quads, ones, window_sum)
        for n, y, x, k, i, b, l in T.grid(*sums):
            with T.sblock("requantize"):
                vn, vy, vx, vk, vi, vb, vl = T.axis.remap("SSSSSSS", [n, y, x, k, i, b, l])
                out[vn, vy, _column(form, vx, vi), _channel(form, vk, vb, vl)] = add_residual(
                    numerics,
                    requantize(
                        numerics,
                        acc[vn, vy, vx, vk, vi, vb, vl]
                        + bias[_channel(form, vk, vb, vl)]
                        - (params[WEIGHT_ZERO_POINT] * window_sum[vn, vy, vx, vk, vi, vb, vl] if zero else 0),
                        _channel(form, vk, vb, vl),
                        rescale,
                        params,
                    ),
                    residual[vn, vy, _column(form, vx, vi), _channel(form, vk, vb, vl)],
                    params,
                )

    return with_arguments_of(numerics, depthwise)


def _column(form: DepthwiseForm, tile: Any, inner: Any) -> Any:
    return tile_start(tile, form.tile_columns, form.output[1]) + inner


def _channel(form: DepthwiseForm, tile: Any, block: Any, lane: Any) -> Any:
    return tile_start(tile, form.tile_outputs, form.workload.out_channels) + block * form.lanes + lane


def _multiply_add(form: DepthwiseForm) -> Any:
    """A macro (padded, weight, params, acc) with the block `dot`, which takes one tap at a time.

    It subtracts the weight zero point from each weight.
    """
    window, OC = form.workload.window, form.workload.out_channels
    (SH, SW), (DH, DW) = window.stride, window.dilation
    zero = form.workload.numerics.weight_zero_point

    def factor(weight: Any, params: Any) -> Any:
        return T.cast(weight, "int32") - (params[WEIGHT_ZERO_POINT] if zero else 0)

    @T.macro
    def blocks(padded, weight, params, acc):
        for n, y, x, k, i, b, l, kh, kw in T.grid(*acc.shape, *window.kernel):
            with T.sblock("dot"):
                vn, vy, vx, vk, vi, vb, vl, vkh, vkw = T.axis.remap("SSSSSSSRR", [n, y, x, k, i, b, l, kh, kw])
                with T.init():
                    acc[vn, vy, vx, vk, vi, vb, vl] = 0
                acc[vn, vy, vx, vk, vi, vb, vl] += T.cast(
                    padded[
                        vn,
                        vy * SH + vkh * DH,
                        (_column(form, vx, vi) * SW + vkw * DW) * OC + _channel(form, vk, vb, vl),
                    ],
                    "int32",
                ) * factor(weight[vk, vkh, vkw, vb, vl, 0], params)

    return blocks


def _pack_quads(form: DepthwiseForm) -> Any:
    """A macro (padded, quads) with the block `quad`."""
    window, OC = form.workload.window, form.workload.out_channels
    J = form.taps

    def quad(padded: Any, n: Any, y: Any, u: Any, x: Any, c: Any) -> Any:
        def byte(tap: int) -> Any:
            row = y * window.stride[0] + (u * J + tap) * window.dilation[0]
            return T.shift_left(T.cast(padded[n, row, x * OC + c], "uint32"), T.uint32(8 * tap))

        return functools.reduce(T.bitwise_or, map(byte, range(min(J, window.kernel[0]))))

    @T.macro
    def blocks(padded, quads):
        for n, y, u, x, c in T.grid(*quads.shape):
            with T.sblock("quad"):
                vn, vy, vu, vx, vc = T.axis.remap("SSSSS", [n, y, u, x, c])
                quads[vn, vy, vu, vx, vc] = quad(padded, vn, vy, vu, vx, vc)

    return blocks


def _dot(form: DepthwiseForm, name: str, factor: Callable[..., Any]) -> Any:
    """A macro (quads, factors, acc) with a block of this name, which multiplies the bytes of words by s8 factors."""
    SW, DW = form.workload.window.stride[1], form.workload.window.dilation[1]
    U, KW, J = form.steps, form.workload.window.kernel[1], form.taps

    def byte(word: Any, j: Any) -> Any:
        return T.cast(T.bitwise_and(T.shift_right(word, T.cast(j * 8, "uint32")), T.uint32(255)), "int32")

    @T.macro
    def blocks(quads, factors, acc):
        for n, y, x, k, i, b, l, u, kw, j in T.grid(*acc.shape, U, KW, J):
            with T.sblock(name):
                vn, vy, vx, vk, vi, vb, vl = T.axis.remap("SSSSSSS", [n, y, x, k, i, b, l])
                vu, vkw, vj = T.axis.remap("RRR", [u, kw, j])
                with T.init():
                    acc[vn, vy, vx, vk, vi, vb, vl] = 0
                acc[vn, vy, vx, vk, vi, vb, vl] += byte(
                    quads[vn, vy, vu, _column(form, vx, vi) * SW + vkw * DW, _channel(form, vk, vb, vl)], vj
                ) * T.cast(factor(factors, vk, vu, vkw, vb, vl, vj), "int32")

    return blocks
