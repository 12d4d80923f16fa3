"""Convolutions and products of ONNX models as a graph has them: weights [OC, KH, KW, C / groups] or [OC, K]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Kind, Quantization, Value
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.frames import Frames, of_images
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError, node_fault
from int8tune.compiler.onnx_reader.quantization import Constant
from int8tune.compiler.onnx_reader.tensors import TYPES
from int8tune.compiler.operators.base import BYTES
from int8tune.compiler.padding import same_padding
from int8tune.compiler.transposed import Plan, Transposed, plan_of, spread_fault

KERNELS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
MAX_NUMBER = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class KernelForm:
    """What a convolution or product is.

    Attributes:
        weight: moved, with its scales on axis 0.
        order: how it was moved: `OIHW`, `IOHW`, `OI` or `IO`.
        image: the shape that the data of a convolution has, [N, C, H, W]; those of one dimension have one row.
        made: the shape of its output then.
        plan: of a transposed one.
        frames: of one of three dimensions, whose images these are.
    """

    kind: Kind
    weight: Constant
    order: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    image: tuple[int, ...] = ()
    made: tuple[int, ...] = ()
    plan: Plan | None = None
    frames: Frames | None = None


def kernel_form(
    file: OnnxFile, node: Node, data: tuple[int, ...], weight: Constant, has_frames: bool = False
) -> KernelForm:
    """The form of a node that is in `KERNELS` on data of a shape; that and weights are quantized.

    Raises:
        ModelError: it is none that a kernel computes.

    Args:
        has_frames: whether one of three dimensions may become one of images.
    """
    if has_frames and node.computes == "Conv" and len(data) == len(weight.array.shape) == 5:
        images = of_images(file, node, data, weight)
        return replace(kernel_form(file, images.node, images.data, images.weight), frames=images.frames)
    if node.computes.startswith("Conv") and len(data) == len(weight.array.shape) == 3:
        data, node = (*data[:2], 1, data[2]), with_one_row(node)
        weight = replace(weight, array=weight.array[:, :, None])
    read = {"Conv": _convolution, "ConvTranspose": _transposed}.get(node.computes, _product)
    form = read(file, node, data, weight)
    quantization = form.weight.quantization
    if quantization is not None and quantization.axis not in (None, 0):
        raise UnsupportedNodeError("scales of weights must be those of output channels")
    points = 1 if quantization is None else len(np.unique(quantization.zero_point))
    if points > 1:
        raise UnsupportedNodeError(f"its weights have {points} zero points, a kernel takes one")
    return form


def kernel_reason(node: Node, data: Value | None, weight: Constant | None) -> str:
    """Why a convolution or product, of what is quantized of its data and known of its weights, is no layer."""
    if weight is None:
        return (
            "it multiplies two computed values, a kernel takes ones of 8 bits with one scale each, or constant weights"
        )
    if data is None:
        return "its data is not quantized"
    if weight.quantization is None:
        return "its weights are not quantized"
    if node.computes == "MatMul" and weight.array.ndim != 2:
        return f"its weights must have two axes, these have {weight.array.ndim}: {list(weight.array.shape)}"
    for role, element in (("data", data.type), ("weights", TYPES[weight.array.dtype])):
        if element not in BYTES:
            return f"its {role} must be 8-bit integers: {element}"
    return "its output is not quantized"


def _convolution(file: OnnxFile, node: Node, data: tuple[int, ...], weight: Constant) -> KernelForm:
    shape = weight.array.shape
    _require_image(data, shape)
    groups = _number(file, node, "group", 1)
    if data[1] != shape[1] * groups or shape[0] % groups:
        what = f"weights {list(shape)} in {groups} groups don't fit {data[1]} channels"
        raise node_fault(file.name, node, what)
    if tuple(node.attributes.get("kernel_shape", shape[2:])) != shape[2:]:
        raise node_fault(file.name, node, f"its kernel_shape must be that of its weights: {list(shape)}")
    stride, dilation = (pair_of(file, node, name) for name in ("strides", "dilations"))
    padding = padding_of(file, node, data[2:], shape[2:], stride, dilation)
    made = _require_output(file, node, data, shape, (stride, padding, dilation))
    attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    kind = Kind.DEPTHWISE if groups == data[1] > 1 else Kind.CONV2D
    moved = Constant(weight.name, np.ascontiguousarray(weight.array.transpose(0, 2, 3, 1)), weight.quantization)
    return KernelForm(kind, moved, "OIHW", attributes, data, made)


def _transposed(file: OnnxFile, node: Node, data: tuple[int, ...], weight: Constant) -> KernelForm:
    """A transposed convolution, whose weights are [C, OC / groups, KH, KW] in the file."""
    shape, groups, at = weight.array.shape, _number(file, node, "group", 1), node.attributes
    _require_image(data, shape)
    if shape[0] != data[1] or shape[0] % groups or tuple(at.get("kernel_shape", shape[2:])) != shape[2:]:
        what = f"weights {list(shape)} in {groups} groups don't fit {data[1]} channels and its kernel_shape"
        raise node_fault(file.name, node, what)
    if "output_shape" in at or at.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise UnsupportedNodeError("its border must be said by pads: auto_pad and output_shape are not supported")
    stride, dilation = (pair_of(file, node, name) for name in ("strides", "dilations"))
    padding = padding_of(file, node, data[2:], shape[2:], stride, dilation)
    made = _image_of(file.forms[node.outputs[0]][1])
    layer = Transposed((data[2], data[3]), (made[2], made[3]), stride, (padding[0], padding[1]), dilation, groups)
    reach = [step * (each - 1) + 1 for step, each in zip(dilation, shape[2:], strict=True)]
    if made[:2] != (data[0], groups * shape[1]) or any(pad >= each for pad, each in zip(padding, reach, strict=False)):
        raise UnsupportedNodeError(f"its pads must be less than its kernel: {padding}, {list(shape)}")
    split = weight.array.reshape(groups, shape[0] // groups, *shape[1:])
    array = np.ascontiguousarray(split.transpose(0, 2, 3, 4, 1).reshape(made[1], *shape[2:], shape[0] // groups))
    quantization = weight.quantization
    assert quantization is not None
    if quantization.axis == 1:
        each = np.tile(np.arange(shape[1]), groups)
        quantization = Quantization(quantization.scale[each], quantization.zero_point[each], 0)
    elif quantization.axis is not None:
        raise UnsupportedNodeError("scales of weights must be those of output channels")
    if fault := spread_fault(layer, array.shape):
        raise UnsupportedNodeError(fault)
    plan = plan_of(layer, array, int(quantization.zero_point[0]))
    form = Constant(weight.name, array, quantization)
    return KernelForm(Kind.CONV2D, form, "IOHW", {"groups": groups}, data, made, plan)


def with_one_row(node: Node) -> Node:
    """A node on values of one dimension as one on images of one row."""
    at = dict(node.attributes)
    for name in ("strides", "dilations", "kernel_shape"):
        if isinstance(at.get(name), tuple):
            at[name] = (1, *at[name])
    pads = at.get("pads")
    if isinstance(pads, tuple) and len(pads) == 2:
        at["pads"] = (0, pads[0], 0, pads[1])
    return replace(node, attributes=at)


def _image_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The images of a shape: one of a row, or one for each frame."""
    if len(shape) == 5:
        return shape[0] * shape[2], shape[1], *shape[3:]
    return (*shape[:2], 1, shape[2]) if len(shape) == 3 else shape


def _require_image(data: tuple[int, ...], weight: tuple[int, ...]) -> None:
    if len(data) != 4 or len(weight) != 4:
        known = "1-D and 2-D convolutions, and 3-D ones of 8-bit data with constant scales, are supported"
        raise UnsupportedNodeError(f"{known}: this one is {len(data) - 2}-D")


def padding_of(
    file: OnnxFile,
    node: Node,
    image: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, int],
    dilation: tuple[int, int],
) -> tuple[int, int, int, int]:
    """Top, left, bottom, right."""
    auto = node.attributes.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for axis in (0, 1):
            less, more = same_padding(image[axis], kernel[axis], stride[axis], dilation[axis])
            before.append(less if auto == "SAME_UPPER" else more)
            after.append(more if auto == "SAME_UPPER" else less)
        return before[0], before[1], after[0], after[1]
    if auto not in ("NOTSET", "VALID"):
        raise node_fault(file.name, node, "auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    pads = node.attributes.get("pads", (0, 0, 0, 0)) if auto == "NOTSET" else (0, 0, 0, 0)
    if not isinstance(pads, tuple) or len(pads) != 4 or not all(0 <= pad <= MAX_NUMBER for pad in pads):
        raise node_fault(file.name, node, f"pads must be four integers of 0 to {MAX_NUMBER}")
    return pads[0], pads[1], pads[2], pads[3]


def _require_output(
    file: OnnxFile, node: Node, data: tuple[int, ...], weight: tuple[int, ...], window: tuple[tuple[int, ...], ...]
) -> tuple[int, ...]:
    """The shape of the output; raise where onnx infers another one."""
    stride, padding, dilation = window
    sizes = tuple(
        (data[2 + axis] + padding[axis] + padding[2 + axis] - dilation[axis] * (weight[2 + axis] - 1) - 1)
        // stride[axis]
        + 1
        for axis in (0, 1)
    )
    shape = (data[0], weight[0], *sizes)
    if _image_of(file.forms[node.outputs[0]][1]) != shape or min(shape) < 1:
        found = list(file.forms[node.outputs[0]][1])
        raise node_fault(file.name, node, f"its output must have shape {list(shape)}: {found}")
    return shape


def _product(file: OnnxFile, node: Node, data: tuple[int, ...], weight: Constant) -> KernelForm:
    at = node.attributes
    if node.computes == "Gemm" and (at.get("transA", 0) or at.get("alpha", 1.0) != 1 or at.get("beta", 1.0) != 1):
        raise UnsupportedNodeError("Gemm must have transA = 0 and alpha = beta = 1")
    if weight.array.ndim != 2 or len(data) < 2 or (node.computes == "Gemm" and len(data) != 2):
        raise UnsupportedNodeError(f"weights must have two axes: {list(weight.array.shape)}")
    order = "OI" if node.computes == "Gemm" and at.get("transB", 0) else "IO"
    array, quantization = weight.array, weight.quantization
    if order == "IO":
        array = np.ascontiguousarray(array.T)
        if quantization is not None and quantization.axis is not None:
            quantization = Quantization(quantization.scale, quantization.zero_point, 1 - quantization.axis)
    if data[-1] != array.shape[1]:
        raise node_fault(file.name, node, f"weights {list(weight.array.shape)} don't fit data {list(data)}")
    return KernelForm(Kind.DENSE, Constant(weight.name, array, quantization), order)


def _number(file: OnnxFile, node: Node, name: str, default: int) -> int:
    value = node.attributes.get(name, default)
    if not isinstance(value, int) or not 1 <= value <= MAX_NUMBER:
        raise _number_fault(file, node, name)
    return value


def pair_of(file: OnnxFile, node: Node, name: str) -> tuple[int, int]:
    """Two positive integers of an attribute, 1 where it is absent."""
    values = node.attributes.get(name, (1, 1))
    if not isinstance(values, tuple) or len(values) != 2 or not all(1 <= value <= MAX_NUMBER for value in values):
        raise _number_fault(file, node, name)
    return values[0], values[1]


def _number_fault(file: OnnxFile, node: Node, name: str) -> ModelError:
    return node_fault(file.name, node, f"{name} must be integers of 1 to {MAX_NUMBER}")
