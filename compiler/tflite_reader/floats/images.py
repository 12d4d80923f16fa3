"""TFLite operators on images [N, H, W, C] as ONNX nodes, which have them as [N, C, H, W].

Sources: the reference kernels of TensorFlow Lite of the same names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from int8tune.compiler.operators.resize import nearest_positions
from int8tune.compiler.padding import same_padding
from int8tune.compiler.tflite_reader.floats.hybrid import (
    is_hybrid,
    quantized,
    require_symmetric,
    stored_weight,
    weight_scale,
)
from int8tune.compiler.tflite_reader.floats.nodes import Nodes, Reader
from int8tune.compiler.tflite_reader.operators import SAME, VALID, window_padding

TO_CHANNELS_FIRST, TO_CHANNELS_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
# The place of a TRANSPOSE_CONV's data, behind its shape and its weights.
TRANSPOSED_DATA = 2
Pair = tuple[int, int]


def _convolution(at: Nodes) -> str:
    at.require_types("f32")
    at.require(len(at) in (2, 3) and len(at.shape(0)) == len(at.shape(1)) == 4, "its data and weights need four axes")
    options, (*_, channels), (made, *kernel, taken) = at.options("Conv2D"), at.shape(0), at.shape(1)
    at.require(channels % taken == 0, f"{channels} channels can't be shared by filters of {taken}")
    name = _windowed(at, options, (kernel[0], kernel[1]), (0, 3, 1, 2), channels // taken)
    at.require(made % (channels // taken) == 0, f"{made} filters can't be shared by {channels // taken} groups")
    return at.activated(name, options.FusedActivationFunction())


def _depthwise(at: Nodes) -> str:
    at.require_types("f32")
    at.require(len(at) in (2, 3) and len(at.shape(0)) == len(at.shape(1)) == 4, "its data and weights need four axes")
    options, channels, (first, *kernel, made) = at.options("DepthwiseConv2D"), at.shape(0)[3], at.shape(1)
    at.require(first == 1 and made % channels == 0, f"weights {at.shape(1)} don't fit {channels} channels")
    name = _windowed(at, options, (kernel[0], kernel[1]), (3, 0, 1, 2), channels)
    return at.activated(name, options.FusedActivationFunction())


def _volume(at: Nodes) -> str:
    """A convolution of [N, D, H, W, C] by weights [D, H, W, C, OC]."""
    at.require_types("f32")
    at.require(len(at) in (2, 3) and len(at.shape(0)) == len(at.shape(1)) == 5, "its data and weights need five axes")
    options, (_, *image, channels), (*kernel, taken, _made) = at.options("Conv3D"), at.shape(0), at.shape(1)
    at.require(channels == taken, f"its weights must be those of {channels} channels: {taken}")
    stride = options.StrideD(), options.StrideH(), options.StrideW()
    dilation = options.DilationDFactor(), options.DilationHFactor(), options.DilationWFactor()
    _require_steps(at, (*stride, *dilation), options.Padding())
    pads = [(0, 0)] * 3
    if options.Padding() == SAME:
        pads = [same_padding(*each) for each in zip(image, kernel, stride, dilation, strict=True)]
    steps: dict[str, Any] = {"pads": [*(one for one, _ in pads), *(other for _, other in pads)], "strides": stride}
    data = at.transposed(at.input(0), (0, 4, 1, 2, 3))
    made = at.apply("Conv", data, _turned(at, 1, (4, 3, 0, 1, 2)), *at.bias(2), dilations=dilation, **steps)
    return at.activated(at.transposed(made, (0, 2, 3, 4, 1)), options.FusedActivationFunction())


def _windowed(at: Nodes, options: Any, kernel: Pair, order: tuple[int, ...], groups: int) -> str:
    """A convolution; `order` makes ONNX's weights of the file's."""
    stride, dilation = (options.StrideH(), options.StrideW()), (options.DilationHFactor(), options.DilationWFactor())
    _require_steps(at, stride + dilation, options.Padding())
    padding = window_padding(options.Padding(), at.shape(0), kernel, stride, dilation)

    def convolved(image: str, *weights: str) -> str:
        image = at.transposed(image, TO_CHANNELS_FIRST)
        steps = {"pads": list(padding), "strides": list(stride), "dilations": list(dilation)}
        made = at.apply("Conv", image, *weights, outputs=1, group=groups, **steps)
        return at.transposed(made, TO_CHANNELS_LAST)

    if not is_hybrid(at):
        return convolved(at.input(0), _turned(at, 1, order), *at.bias(2))
    return _hybrid(at, convolved, order, order[0])


def _hybrid(at: Nodes, convolved: Callable[..., str], order: tuple[int, ...], axis: int, data: int = 0) -> str:
    """A convolution of images that are quantized at run time; `axis` is that of output channels in the weights."""
    require_symmetric(at)
    channels, (batch, *rest) = at.shape(1)[axis], at.shape(data)
    found = quantized(at, at.shaped(at.input(data), (batch, math.prod(rest))))
    weight = np.ascontiguousarray(stored_weight(at).transpose(order))
    sums = convolved(at.shaped(found.steps(at), at.shape(data)), at.constant(weight))
    name = at.apply("Mul", sums, at.constant(weight_scale(at.value(1), channels)))
    return at.biased(at.apply("Mul", name, at.shaped(found.scale, (batch, 1, 1, 1))), max(data, 1) + 1)


def _turned(at: Nodes, index: int, order: tuple[int, ...]) -> str:
    """An input with other axes, of a constant before the model runs."""
    if at.value(index).constant is None:
        return at.transposed(at.input(index), order)
    return at.constant(np.ascontiguousarray(at.numbers(index).transpose(order)))


def _require_steps(at: Nodes, steps: tuple[int, ...], padding: int) -> None:
    fine = all(1 <= step <= 1 << 16 for step in steps) and padding in (SAME, VALID)
    at.require(fine, f"stride {steps[:2]}, dilation or kernel {steps[2:]} or padding {padding} is out of range")


def _transposed_convolution(at: Nodes) -> str:
    at.require(len(at) in (3, 4) and len(at.shape(1)) == len(at.shape(2)) == 4, "it must have weights and an image")
    at.require(at.value(2).type == "f32", f"its values must be f32: {at.value(2).type}")
    options, kernel, image = at.options("TransposeConv"), at.shape(1)[1:3], at.shape(2)[1:3]
    stride, shape = (options.StrideH(), options.StrideW()), at.outputs[0].shape
    at.require(len(shape) == 4, f"its output must have four axes: {shape}")
    _require_steps(at, (*stride, *kernel), options.Padding())
    steps = _transposed_steps(at, image, kernel, stride, options.Padding())

    def convolved(data: str, *weights: str) -> str:
        made = at.apply("ConvTranspose", at.transposed(data, TO_CHANNELS_FIRST), *weights, outputs=1, **steps)
        return at.transposed(made, TO_CHANNELS_LAST)

    order = 3, 0, 1, 2
    if is_hybrid(at, TRANSPOSED_DATA):
        name = _hybrid(at, convolved, order, 0, TRANSPOSED_DATA)
    else:
        name = convolved(at.input(TRANSPOSED_DATA), _turned(at, 1, order), *at.bias(TRANSPOSED_DATA + 1))
    return at.activated(name, options.FusedActivationFunction())


def _transposed_steps(
    at: Nodes, image: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: int
) -> dict[str, Any]:
    """The attributes by which a transposed convolution makes the operator's output."""
    begin, end, more = [], [], []
    for axis, (extent, taps, step) in enumerate(zip(image, kernel, stride, strict=True)):
        whole, made = (extent - 1) * step + taps, at.outputs[0].shape[1 + axis]
        begin.append(same_padding(made, taps, step, 1)[0] if padding == SAME else 0)
        rest = whole - made - begin[axis]
        end.append(max(rest, 0))
        more.append(max(-rest, 0))
    fits = all(each < step for each, step in zip(more, stride, strict=True))
    at.require(fits, f"its output is too large: {at.outputs[0].shape}")
    return {"strides": list(stride), "pads": [*begin, *end], "output_padding": more}


def _transposed_volume(at: Nodes) -> str:
    """A transposed convolution of [N, D, H, W, C] by weights [D, H, W, OC, C]."""
    at.require(len(at) in (3, 4) and len(at.shape(1)) == len(at.shape(2)) == 5, "it must have weights and a volume")
    at.require(at.value(2).type == "f32" and len(at.outputs[0].shape) == 5, "its data must be a volume of f32")
    options, kernel, image = at.options("Conv3D"), at.shape(1)[:3], at.shape(2)[1:4]
    stride = options.StrideD(), options.StrideH(), options.StrideW()
    _require_steps(at, (*stride, *kernel), options.Padding())
    dilation = options.DilationDFactor(), options.DilationHFactor(), options.DilationWFactor()
    at.require(dilation == (1, 1, 1), f"its dilation must be 1: {dilation}")
    steps = _transposed_steps(at, image, kernel, stride, options.Padding())
    data = at.transposed(at.input(TRANSPOSED_DATA), (0, 4, 1, 2, 3))
    made = at.apply("ConvTranspose", data, _turned(at, 1, (4, 3, 0, 1, 2)), *at.bias(TRANSPOSED_DATA + 1), **steps)
    return at.activated(at.transposed(made, (0, 2, 3, 4, 1)), options.FusedActivationFunction())


def _pool(operator: str) -> Reader:
    def read(at: Nodes) -> str:
        at.require_types("f32")
        at.require(len(at.shape(0)) == 4, f"its image must have four axes: {at.shape(0)}")
        options = at.options("Pool2D")
        kernel, stride = (options.FilterHeight(), options.FilterWidth()), (options.StrideH(), options.StrideW())
        _require_steps(at, stride + kernel, options.Padding())
        padding = window_padding(options.Padding(), at.shape(0), kernel, stride, (1, 1))
        image = at.transposed(at.input(0), TO_CHANNELS_FIRST)
        if operator == "L2_POOL_2D":
            image = at.apply("Mul", image, image)
        name = at.apply(
            "MaxPool" if operator == "MAX_POOL_2D" else "AveragePool",
            image,
            kernel_shape=list(kernel),
            strides=list(stride),
            pads=list(padding),
        )
        name = at.apply("Sqrt", name) if operator == "L2_POOL_2D" else name
        return at.activated(at.transposed(name, TO_CHANNELS_LAST), options.FusedActivationFunction())

    return read


def _resize_bilinear(at: Nodes) -> str:
    at.require_types("f32")
    made, options = at.outputs[0].shape, at.options("ResizeBilinear")
    at.require(len(at.shape(0)) == len(made) == 4, f"its image must have four axes: {at.shape(0)}")
    corners, centers = bool(options.AlignCorners()), bool(options.HalfPixelCenters())
    at.require(not (corners and centers), "corners can't be aligned where pixels have centres")
    at.require(not (corners and 1 in made[1:3]), "corners can't be aligned on an axis of one value")
    mode = "align_corners" if corners else "half_pixel" if centers else "asymmetric"
    sizes = at.places((made[0], made[3], made[1], made[2]))
    image = at.transposed(at.input(0), TO_CHANNELS_FIRST)
    name = at.apply("Resize", image, "", "", sizes, mode="linear", coordinate_transformation_mode=mode)
    return at.transposed(name, TO_CHANNELS_LAST)


def _resize_nearest(at: Nodes) -> str:
    """The rows and columns that the integer kernel takes."""
    made, options = at.outputs[0].shape, at.options("ResizeNearestNeighbor")
    at.require(len(at.shape(0)) == len(made) == 4, f"its image must have four axes: {at.shape(0)}")
    name = at.input(0)
    for axis in (1, 2):
        places = nearest_positions(
            at.shape(0)[axis], made[axis], bool(options.AlignCorners()), bool(options.HalfPixelCenters())
        )
        name = at.apply("Gather", name, at.places(places.tolist()), axis=axis)
    return name


def _local_response(at: Nodes) -> str:
    at.require_types("f32")
    options = at.options("LocalResponseNormalization")
    radius, channels = options.Radius(), at.shape(0)[-1]
    at.require(len(at.shape(0)) == 4 and 0 <= radius <= channels, f"its radius must be within {channels}: {radius}")
    size = 2 * radius + 1
    image = at.transposed(at.input(0), TO_CHANNELS_FIRST)
    alpha, beta, bias = float(options.Alpha() * size), float(options.Beta()), float(options.Bias())
    name = at.apply("LRN", image, size=size, alpha=alpha, beta=beta, bias=bias)
    return at.transposed(name, TO_CHANNELS_LAST)


READERS: dict[str, Reader] = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    "CONV_3D": _volume,
    "CONV_3D_TRANSPOSE": _transposed_volume,
    "TRANSPOSE_CONV": _transposed_convolution,
    **{word: _pool(word) for word in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")},
    "RESIZE_BILINEAR": _resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": _resize_nearest,
    "LOCAL_RESPONSE_NORMALIZATION": _local_response,
}
RAW = ("RESIZE_NEAREST_NEIGHBOR",)
