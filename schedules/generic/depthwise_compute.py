"""The int8 depthwise convolution as TIR blocks, before any schedule.

This module imports TVM, `depthwise_form` does not.
"""

# No postponed annotations here: TVMScript reads the buffer types of a function's parameters from its annotations.
# ruff: noqa: E741, N806
from typing import Any

from tvm.script import tirx as T

from int8tune.schedules.arguments import WEIGHT_ZERO_POINT, params_length, rescale_shape, rescale_type
from int8tune.schedules.epilogue import DTYPES, add_residual, requantize
from int8tune.schedules.generic.depthwise_form import DepthwiseForm
from int8tune.schedules.generic.direct_compute import image_copy, residual_type, tile_start, with_arguments_of


def depthwise_conv(form: DepthwiseForm) -> Any:
    """The PrimFunc of a depthwise convolution: (data, weight, bias, rescale, params, out), a residual before `out`.

    `acc` is indexed by tile: [N, OH, column tile, channel tile, column, block, lane].
    """
    work, numerics = form.workload, form.workload.numerics
    copy_image, multiply_add = image_copy(form.copy), _multiply_add(form)
    sums = (work.batch, form.output[0], form.column_tiles, form.channel_tiles)
    sums = (*sums, form.tile_columns, form.tile_blocks, form.lanes)

    @T.prim_func(s_tir=True)
    def depthwise(
        data: T.Buffer((work.batch, work.height, work.width * work.channels), DTYPES[numerics.data]),
        weight: T.Buffer(form.weight_shape, DTYPES[numerics.weight]),
        bias: T.Buffer((work.out_channels,), "int32"),
        rescale: T.Buffer(rescale_shape(numerics, work.out_channels), rescale_type(numerics)),
        params: T.Buffer((params_length(numerics),), "int32"),
        residual: T.Buffer(work.output_shape, residual_type(numerics)),
        out: T.Buffer(work.output_shape, DTYPES[numerics.output]),
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        padded = T.sblock_alloc_buffer(
            (work.batch, form.copy.padded_height, form.copy.padded_row_length), DTYPES[numerics.data]
        )
        acc = T.sblock_alloc_buffer(sums, "int32")
        copy_image(data, params, padded)
        multiply_add(padded, weight, params, acc)
        for n, y, x, k, i, b, l in T.grid(*sums):
            with T.sblock("requantize"):
                vn, vy, vx, vk, vi, vb, vl = T.axis.remap("SSSSSSS", [n, y, x, k, i, b, l])
                out[vn, vy, _column(form, vx, vi), _channel(form, vk, vb, vl)] = add_residual(
                    numerics,
                    requantize(
                        numerics,
                        acc[vn, vy, vx, vk, vi, vb, vl] + bias[_channel(form, vk, vb, vl)],
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
                ) * factor(weight[vk, vkh, vkw, vb, vl], params)

    return blocks
