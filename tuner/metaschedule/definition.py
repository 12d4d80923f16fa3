"""A layer as MetaSchedule gets it: pad, sum and requantize as TIR blocks, not scheduled. This module imports TVM."""

# No postponed annotations here: TVMScript reads the buffer types of a function's parameters from its annotations.
# ruff: noqa: E741, N806
from typing import Any

from tvm.script import tirx as T

from int8tune.schedules.arguments import PAD_VALUE, params_length, rescale_shape, rescale_type
from int8tune.schedules.border import Classes
from int8tune.schedules.epilogue import DTYPES, add_residual, requantize
from int8tune.schedules.generic.direct_compute import residual_type, with_arguments_of
from int8tune.schedules.intrinsics import cuda
from int8tune.schedules.template import Kernel
from int8tune.schedules.x86.registers import TAPS
from int8tune.tuner.metaschedule.form import DepthwiseForm, DotForm, MatrixForm, PeerForm


def kernel_of(form: PeerForm, function: Any) -> Kernel:
    """A function of the form, scheduled or not, as the rest of the program takes kernels."""
    return Kernel(function, form, form.data_shape, form.output_shape)


def layer_function(form: PeerForm) -> Any:
    """The PrimFunc of a layer, (data, weight, bias, rescale, params, out), a residual before `out`: as all kernels."""
    numerics = form.image.numerics
    pad, dot, finish = _pad(form), *_blocks(form)
    sums = (*form.output_shape[:3], form.blocks, form.lanes) if isinstance(form, DotForm) else form.output_shape
    data_type = DTYPES[numerics.data]

    @T.prim_func(s_tir=True)
    def layer(
        data: T.Buffer(form.data_shape, data_type),
        weight: T.Buffer(form.weight_shape, "int8"),
        bias: T.Buffer((form.bias_length,), "int32"),
        rescale: T.Buffer(rescale_shape(numerics, form.image.out_channels), rescale_type(numerics)),
        params: T.Buffer((params_length(numerics),), "int32"),
        residual: T.Buffer(form.output_shape, residual_type(numerics)),
        out: T.Buffer(form.output_shape, DTYPES[numerics.output]),
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        acc = T.sblock_alloc_buffer(sums, "int32")
        if form.copied:
            padded = T.sblock_alloc_buffer(form.copy_shape, data_type)
            pad(data, params, padded)
            dot(padded, weight, acc)
        else:
            dot(data, weight, acc)
        finish(acc, bias, rescale, params, residual, out)

    return with_arguments_of(numerics, layer)


def _pad(form: PeerForm) -> Any:
    """A macro (data, params, padded) with the block `pad`."""
    _, H, W, C = form.data_shape
    top, left, _, _ = form.image.window.padding

    def border(params: Any, dtype: str) -> Any:
        return T.int8(0) if isinstance(form, MatrixForm) else T.cast(params[PAD_VALUE], dtype)

    @T.macro
    def blocks(data, params, padded):
        for n, y, x, c in T.grid(*form.copy_shape):
            with T.sblock("pad"):
                vn, vy, vx, vc = T.axis.remap("SSSS", [n, y, x, c])
                padded[vn, vy, vx, vc] = T.if_then_else(
                    top <= vy and vy < top + H and left <= vx and vx < left + W and vc < C,
                    data[vn, vy - top, vx - left, vc],
                    border(params, padded.dtype),
                )

    return blocks


def _blocks(form: PeerForm) -> tuple[Any, Any]:
    """The macros with the blocks `dot` and `requantize`."""
    if isinstance(form, DepthwiseForm):
        return _depthwise(form), _requantize_channels(form, 0)
    if isinstance(form, MatrixForm):
        return _product(form), _requantize_rows(form)
    return _dot(form), _requantize_blocks(form) if form.fills_blocks else _requantize_channels(form, form.lanes)


def _dot(form: DotForm) -> Any:
    """A macro (data, weight, acc): the innermost loops over lanes and taps are those of the dot product."""
    image = form.image
    (N, OH, OW), (KH, KW) = form.output_shape[:3], image.window.kernel
    (SH, SW), (DH, DW) = image.window.stride, image.window.dilation

    @T.macro
    def blocks(data, weight, acc):
        for n, y, x, b, l, kh, kw, w, t in T.grid(N, OH, OW, form.blocks, form.lanes, KH, KW, form.words, TAPS):
            with T.sblock("dot"):
                vn, vy, vx, vb, vl, vkh, vkw, vw, vt = T.axis.remap("SSSSSRRRR", [n, y, x, b, l, kh, kw, w, t])
                with T.init():
                    acc[vn, vy, vx, vb, vl] = 0
                acc[vn, vy, vx, vb, vl] = acc[vn, vy, vx, vb, vl] + T.cast(
                    data[vn, vy * SH + vkh * DH, vx * SW + vkw * DW, vw * TAPS + vt], "int32"
                ) * T.cast(weight[vb, vkh, vkw, vw, vl, vt], "int32")

    return blocks


def _depthwise(form: DepthwiseForm) -> Any:
    """A macro (data, weight, acc)."""
    (SH, SW), (DH, DW) = form.image.window.stride, form.image.window.dilation

    @T.macro
    def blocks(data, weight, acc):
        for n, y, x, c, kh, kw in T.grid(*form.output_shape, *form.image.window.kernel):
            with T.sblock("dot"):
                vn, vy, vx, vc, vkh, vkw = T.axis.remap("SSSSRR", [n, y, x, c, kh, kw])
                with T.init():
                    acc[vn, vy, vx, vc] = 0
                acc[vn, vy, vx, vc] = acc[vn, vy, vx, vc] + T.cast(
                    data[vn, vy * SH + vkh * DH, vx * SW + vkw * DW, vc], "int32"
                ) * T.cast(weight[vkh, vkw, vc], "int32")

    return blocks


def _product(form: MatrixForm) -> Any:
    """A macro (data, weight, acc)."""
    image = form.image
    (OH, OW), (SH, SW), (DH, DW) = image.output, image.window.stride, image.window.dilation

    @T.macro
    def blocks(data, weight, acc):
        for r, o, kh, kw, c in T.grid(*form.output_shape, *image.window.kernel, image.channels):
            with T.sblock("dot"):
                vr, vo, vkh, vkw, vc = T.axis.remap("SSRRR", [r, o, kh, kw, c])
                with T.init():
                    acc[vr, vo] = 0
                acc[vr, vo] = acc[vr, vo] + T.cast(
                    data[vr // (OH * OW), vr // OW % OH * SH + vkh * DH, vr % OW * SW + vkw * DW, vc], "int32"
                ) * T.cast(weight[vo, vkh, vkw, vc], "int32")

    return blocks


def _requantize_blocks(form: DotForm) -> Any:
    """A macro (acc, bias, rescale, params, residual, out), all of the shape [N, OH, OW, blocks, lanes]."""
    numerics, lanes = form.image.numerics, form.lanes

    @T.macro
    def blocks(acc, bias, rescale, params, residual, out):
        for n, y, x, b, l in T.grid(*form.output_shape):
            with T.sblock("requantize"):
                vn, vy, vx, vb, vl = T.axis.remap("SSSSS", [n, y, x, b, l])
                out[vn, vy, vx, vb, vl] = add_residual(
                    numerics,
                    requantize(
                        numerics,
                        acc[vn, vy, vx, vb, vl] + bias[vb * lanes + vl],
                        vb * lanes + vl,
                        rescale,
                        params,
                    ),
                    residual[vn, vy, vx, vb, vl],
                    params,
                )

    return blocks


def _requantize_channels(form: DotForm | DepthwiseForm, lanes: int) -> Any:
    """A macro (acc, bias, rescale, params, residual, out), out of the shape [N, OH, OW, OC]; sums may be in blocks."""
    numerics = form.image.numerics

    def place(channel: Any) -> list[Any]:
        return [channel // lanes, channel % lanes] if lanes else [channel]

    @T.macro
    def blocks(acc, bias, rescale, params, residual, out):
        for n, y, x, c in T.grid(*form.output_shape):
            with T.sblock("requantize"):
                vn, vy, vx, vc = T.axis.remap("SSSS", [n, y, x, c])
                out[vn, vy, vx, vc] = add_residual(
                    numerics,
                    requantize(numerics, acc[(vn, vy, vx, *place(vc))] + bias[vc], vc, rescale, params),
                    residual[vn, vy, vx, vc],
                    params,
                )

    return blocks


def _requantize_rows(form: MatrixForm) -> Any:
    """A macro (acc, bias, rescale, params, residual, out), all but the arguments of the shape [rows, OC]."""
    numerics, (OH, OW), channels = form.image.numerics, form.image.output, form.image.out_channels
    (rows, _), (columns, beside) = form.classes

    def bias_at(row: Any, channel: Any) -> Any:
        if len(form.border_taps) == 1:
            return channel
        border_class = _class_at(rows, row // OW % OH) * len(beside) + _class_at(columns, row % OW)
        return border_class * channels + channel

    @T.macro
    def blocks(acc, bias, rescale, params, residual, out):
        for r, c in T.grid(*form.output_shape):
            with T.sblock("requantize"):
                vr, vc = T.axis.remap("SS", [r, c])
                out[vr, vc] = add_residual(
                    numerics,
                    requantize(numerics, acc[vr, vc] + bias[bias_at(vr, vc)], vc, rescale, params, cuda.fused),
                    residual[vr, vc],
                    params,
                    cuda.fused,
                )

    return blocks


def _class_at(classes: Classes, index: Any) -> Any:
    """The class of an output row or column, without comparisons: TVM's simplifier fails on vectors of those."""
    return sum((T.min(T.max(index - (at - 1), 0), 1) for at in classes.changes), T.int32(0))
