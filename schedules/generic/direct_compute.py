"""The int8 convolution as TIR blocks, before any schedule: pad, sum windows, dot, requantize.

Blocks are named; templates find them with `schedule.get_sblock`. This module imports TVM, `direct_form` does not.
"""

# No postponed annotations here: TVMScript reads the buffer types of a function's parameters from its annotations.
# ruff: noqa: E741, N806
from typing import Any

from tvm import tirx
from tvm.script import tirx as T

from int8tune.schedules.arguments import PAD_VALUE, WEIGHT_ZERO_POINT, params_length, rescale_shape, rescale_type
from int8tune.schedules.epilogue import DTYPES, add_residual, requantize
from int8tune.schedules.generic.direct_form import DirectForm
from int8tune.schedules.generic.image_copy import ImageCopy
from int8tune.schedules.numerics import Numerics


def image_copy(copy: ImageCopy) -> Any:
    """A macro (data, params, padded) with the blocks `border` and `copy`, or `alias` where nothing is to be done.

    A new one for each function: TVM numbers the blocks of a macro that is used again.
    """

    def column(tile: Any, lane: Any) -> Any:
        return tile_start(tile, copy.lanes, copy.row_length) + lane

    @T.macro
    def blocks(data, params, padded):
        if copy.has_border:
            for n, y, x in T.grid(copy.batch, copy.padded_height, copy.padded_row_length):
                with T.sblock("border"):
                    vn, vy, vx = T.axis.remap("SSS", [n, y, x])
                    padded[vn, vy, vx] = T.cast(params[PAD_VALUE], padded.dtype)
        if copy.needed:
            for n, y, t, l in T.grid(copy.batch, copy.height, copy.tiles, copy.lanes):
                with T.sblock("copy"):
                    vn, vy, vt, vl = T.axis.remap("SSSS", [n, y, t, l])
                    padded[vn, copy.top + vy, copy.left + column(vt, vl)] = data[vn, vy, column(vt, vl) // copy.repeats]
        else:
            for n, y, x in T.grid(copy.batch, copy.height, copy.row_length):
                with T.sblock("alias"):
                    vn, vy, vx = T.axis.remap("SSS", [n, y, x])
                    padded[vn, vy, vx] = data[vn, vy, vx]

    return blocks


def tile_start(tile: Any, size: int, extent: int) -> Any:
    """Where a tile begins; the last one begins early enough to end with the axis."""
    return tile * size if extent % size == 0 else T.min(tile * size, extent - size)


def residual_type(numerics: Numerics) -> str:
    """Type of a kernel's `residual` argument."""
    return DTYPES[numerics.residual.data if numerics.residual else numerics.output]


def with_arguments_of(numerics: Numerics, function: Any) -> Any:
    """A PrimFunc without its argument `residual` where the layer has none: TVMScript knows no optional arguments."""
    if numerics.residual is not None:
        return function
    kept = [param for param in function.params if param.name != "residual"]
    return tirx.PrimFunc(kept, function.body, function.ret_type, function.attrs)


def direct_conv(form: DirectForm) -> Any:
    """The PrimFunc of a direct convolution: (data, weight, bias, rescale, params, out), a residual before `out`.

    `acc` is indexed by tile: [N, OH, column tile, group, channel tile, column, block, lane].
    """
    image, numerics, zero = form.image, form.image.numerics, form.has_window_sum
    N, (OH, OW), G, OC = image.batch, image.output, image.groups, image.out_channels
    copy_image, sum_windows, dot = image_copy(form.copy), _window_sum(form), _dot(form)
    sums = (N, OH, form.column_tiles, G, form.channel_tiles, form.tile_columns, form.tile_blocks, form.lanes)

    def channel(group: Any, tile: Any, block: Any, lane: Any) -> Any:
        first = tile_start(tile, form.tile_outputs, image.group_outputs)
        return group * image.group_outputs + first + block * form.lanes + lane

    @T.prim_func(s_tir=True)
    def conv(
        data: T.Buffer((N, image.height, image.width * image.channels), DTYPES[numerics.data]),
        weight: T.Buffer(form.weight_shape, DTYPES[numerics.weight]),
        bias: T.Buffer((OC,), "int32"),
        rescale: T.Buffer(rescale_shape(numerics, OC), rescale_type(numerics)),
        params: T.Buffer((params_length(numerics),), "int32"),
        residual: T.Buffer((N, OH, OW, OC), residual_type(numerics)),
        out: T.Buffer((N, OH, OW, OC), DTYPES[numerics.output]),
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        padded = T.sblock_alloc_buffer((N, form.copy.padded_height, form.copy.padded_row_length), DTYPES[numerics.data])
        acc = T.sblock_alloc_buffer(sums, "int32")
        copy_image(data, params, padded)
        dot(padded, weight, acc)
        if zero:
            window_sum = T.sblock_alloc_buffer((N, OH, OW, G), "int32")
            sum_windows(padded, window_sum)
        for n, y, x, g, k, i, b, l in T.grid(*sums):
            with T.sblock("requantize"):
                vn, vy, vx, vg, vk, vi, vb, vl = T.axis.remap("SSSSSSSS", [n, y, x, g, k, i, b, l])
                out[vn, vy, _column(form, vx, vi), channel(vg, vk, vb, vl)] = add_residual(
                    numerics,
                    requantize(
                        numerics,
                        acc[vn, vy, vx, vg, vk, vi, vb, vl]
                        + bias[channel(vg, vk, vb, vl)]
                        - (params[WEIGHT_ZERO_POINT] * window_sum[vn, vy, _column(form, vx, vi), vg] if zero else 0),
                        channel(vg, vk, vb, vl),
                        rescale,
                        params,
                    ),
                    residual[vn, vy, _column(form, vx, vi), channel(vg, vk, vb, vl)],
                    params,
                )

    return with_arguments_of(numerics, conv)


def _column(form: DirectForm, tile: Any, inner: Any) -> Any:
    return tile_start(tile, form.tile_columns, form.image.output[1]) + inner


def _dot(form: DirectForm) -> Any:
    """A macro (padded, weight, acc) with the block `dot`."""
    image, KH = form.image, form.image.window.kernel[0]
    (SH, SW), (DH, DW) = image.window.stride, image.window.dilation
    C, CG = image.channels, image.group_channels

    @T.macro
    def blocks(padded, weight, acc):
        for n, y, x, g, k, i, b, l, kh, r, u in T.grid(*acc.shape, KH, image.runs, image.run_length):
            with T.sblock("dot"):
                vn, vy, vx, vg, vk, vi, vb, vl = T.axis.remap("SSSSSSSS", [n, y, x, g, k, i, b, l])
                vkh, vr, vu = T.axis.remap("RRR", [kh, r, u])
                with T.init():
                    acc[vn, vy, vx, vg, vk, vi, vb, vl] = 0
                acc[vn, vy, vx, vg, vk, vi, vb, vl] += T.cast(
                    padded[vn, vy * SH + vkh * DH, (_column(form, vx, vi) * SW + vr * DW) * C + vg * CG + vu],
                    "int32",
                ) * T.cast(weight[vg, vk, vkh, vr, vu, vb, vl], "int32")

    return blocks


def _window_sum(form: DirectForm) -> Any:
    """A macro (padded, window_sum) with the blocks `channel_sum` and `window_sum`: the sum of each output's window."""
    image = form.image
    (SH, SW), (DH, DW) = image.window.stride, image.window.dilation
    C, CG = image.channels, image.group_channels
    pixels = image.width + image.window.padding[1] + image.window.padding[3]

    @T.macro
    def blocks(padded, window_sum):
        channel_sum = T.sblock_alloc_buffer((image.batch, form.copy.padded_height, pixels, image.groups), "int32")
        for n, y, x, g, c in T.grid(*channel_sum.shape, CG):
            with T.sblock("channel_sum"):
                vn, vy, vx, vg, vc = T.axis.remap("SSSSR", [n, y, x, g, c])
                with T.init():
                    channel_sum[vn, vy, vx, vg] = 0
                channel_sum[vn, vy, vx, vg] += T.cast(padded[vn, vy, vx * C + vg * CG + vc], "int32")
        for n, y, x, g, kh, kw in T.grid(*window_sum.shape, *image.window.kernel):
            with T.sblock("window_sum"):
                vn, vy, vx, vg, vkh, vkw = T.axis.remap("SSSSRR", [n, y, x, g, kh, kw])
                with T.init():
                    window_sum[vn, vy, vx, vg] = 0
                window_sum[vn, vy, vx, vg] += channel_sum[vn, vy * SH + vkh * DH, vx * SW + vkw * DW, vg]

    return blocks
