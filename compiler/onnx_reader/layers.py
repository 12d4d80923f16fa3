"""Convolutions and products of ONNX models as a graph has them: weights [OC, KH, KW, C / groups] or [OC, K]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Kind, Quantization
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError, node_fault
from int8tune.compiler.onnx_reader.quantization import Constant
from int8tune.compiler.padding import same_padding

KERNELS = ("Conv", "Gemm", "MatMul")
MAX_NUMBER = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class KernelForm:
    """What a convolution or product is.

    Attributes:
        weight: moved, with its scales on axis 0.
        order: how it was moved: `OIHW`, `OI` or `IO`.
    """

    kind: Kind
    weight: Constant
    order: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


def kernel_form(file: OnnxFile, node: Node, data: tuple[int, ...], weight: Constant) -> KernelForm:
    """The form of a Conv, Gemm or MatMul on data of a shape; that and weights are quantized.

    Raises:
        ModelError: it is none that a kernel computes.
    """
    read = _convolution if node.computes == "Conv" else _product
    form = read(file, node, data, weight)
    quantization = form.weight.quantization
    if quantization is not None and quantization.axis not in (None, 0):
        raise UnsupportedNodeError("scales of weights must be those of output channels")
    return form


def _convolution(file: OnnxFile, node: Node, data: tuple[int, ...], weight: Constant) -> KernelForm:
    shape = weight.array.shape
    if len(shape) != 4 or len(data) != 4:
        axes = len(data) - 2
        raise UnsupportedNodeError(f"only 2-D convolutions are supported, this one is {axes}-D")
    groups = _number(file, node, "group", 1)
    if data[1] != shape[1] * groups or shape[0] % groups:
        what = f"weights {list(shape)} in {groups} groups don't fit {data[1]} channels"
        raise node_fault(file.name, node, what)
    if tuple(node.attributes.get("kernel_shape", shape[2:])) != shape[2:]:
        raise node_fault(file.name, node, f"its kernel_shape must be that of its weights: {list(shape)}")
    stride, dilation = (pair_of(file, node, name) for name in ("strides", "dilations"))
    padding = padding_of(file, node, data[2:], shape[2:], stride, dilation)
    _require_output(file, node, data, shape, (stride, padding, dilation))
    attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    kind = Kind.DEPTHWISE if groups == data[1] > 1 else Kind.CONV2D
    moved = Constant(weight.name, np.ascontiguousarray(weight.array.transpose(0, 2, 3, 1)), weight.quantization)
    return KernelForm(kind, moved, "OIHW", attributes)


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
) -> None:
    """Raise where onnx infers another shape of the output than a kernel has."""
    stride, padding, dilation = window
    sizes = tuple(
        (data[2 + axis] + padding[axis] + padding[2 + axis] - dilation[axis] * (weight[2 + axis] - 1) - 1)
        // stride[axis]
        + 1
        for axis in (0, 1)
    )
    shape = (data[0], weight[0], *sizes)
    if file.forms[node.outputs[0]][1] != shape or min(shape) < 1:
        found = list(file.forms[node.outputs[0]][1])
        raise node_fault(file.name, node, f"its output must have shape {list(shape)}: {found}")


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
