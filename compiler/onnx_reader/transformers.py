"""What ONNX Runtime's optimizer fuses, most of it in transformers, as the nodes that it was made of.

Source: ONNX Runtime's docs/ContribOperators.md. What can't be written so stays a node that nothing computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from int8tune.compiler.onnx_reader.nodes import OPSET_OF_SUM_AXES, Node, is_of_microsoft, written
from int8tune.compiler.onnx_reader.qlinear import with_channels_first
from int8tune.compiler.onnx_reader.tensors import Array

FLOAT = 1
MASKED = -10000.0
EPSILON = 1e-12
# The end of an axis, whatever it has.
_END = (1 << 31) - 1
# ONNX Runtime has it in ONNX's domain, whatever the version.
LAYER_NORMALIZATION, OPSET_OF_LAYER_NORMALIZATION = "LayerNormalization", 17
SIMPLIFIED = "SimplifiedLayerNormalization"
# From this one on, axes of means are an input.
OPSET_OF_MEAN_AXES = 18
# From this one on, bounds of a Clip are inputs.
_OPSET_OF_BOUNDS = 11
# Functions of fused convolutions and products, with the attributes that they have.
_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("Relu", "Sigmoid", "Tanh"), ()),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}


class NotWrittenError(Exception):
    """A node has something that is not written as others."""


@dataclass(slots=True, eq=False)
class _Writer:
    """Writes what a node stands for.

    Attributes:
        constants: the file's, which grow by those of the nodes.
        ranks: the axes of values that the file says.
        opset: the version of ONNX's operators.
    """

    node: Node
    opset: int
    constants: MutableMapping[str, Array]
    ranks: Mapping[str, int]
    nodes: list[Node] = field(default_factory=list)

    def apply(self, computes: str, *inputs: str | Array, output: str = "", **attributes: Any) -> str:
        """A node on values by name and constants; the name of its output."""
        name = f"{self.node.outputs[0]}/{len(self.nodes)} {computes}"
        made, taken = output or name, [self._taken(each, f"{name} {at}") for at, each in enumerate(inputs)]
        self.nodes.append(written(name, computes, taken, [made], attributes, self.node.operator))
        return made

    def _taken(self, value: str | Array, name: str) -> str:
        if not isinstance(value, str):
            self.constants[name] = value
            return name
        return value

    def require(self, holds: bool) -> None:
        if not holds:
            raise NotWrittenError

    def attribute(self, name: str, default: Any) -> Any:
        return self.node.attributes.get(name, default)

    def require_only(self, *inputs: int, outputs: tuple[int, ...] = (0,)) -> None:
        """Of its inputs and outputs, those alone may be there."""
        for found, allowed in ((self.node.inputs, inputs), (self.node.outputs, outputs)):
            self.require(all(not name or at in allowed for at, name in enumerate(found)))


def is_fused(node: Node, opset: int) -> bool:
    """Whether a node is written as others: one of ONNX Runtime's, wherever it has it."""
    is_early = node.operator == LAYER_NORMALIZATION and opset < OPSET_OF_LAYER_NORMALIZATION
    return is_early or node.operator == SIMPLIFIED or is_of_microsoft(node, TRANSFORMERS)


def unfused_transformer(
    node: Node, constants: MutableMapping[str, Array], ranks: Mapping[str, int], opset: int
) -> list[Node]:
    """A node that `is_fused` as standard ones; itself, where it has something that these don't say."""
    writer = _Writer(node, opset, constants, ranks)
    try:
        TRANSFORMERS[node.operator](writer)
    except NotWrittenError:
        return [node]
    return writer.nodes


def _number(value: float) -> Array:
    return np.array(value, np.float32)


def _skip_layer_normalization(w: _Writer) -> None:
    """Inputs, those that are added, scale, bias, and a bias of the sum; the sum may be an output."""
    w.require_only(0, 1, 2, 3, 4, outputs=(0, 3))
    _normalized(w, (w.node.input(0), w.node.input(1), w.node.input(4)), w.node.input(2), w.node.input(3))


def _normalized(w: _Writer, summands: tuple[str, ...], scale: str, bias: str, total: int = 3) -> None:
    first, *others = filter(None, summands)
    names = [f"{w.node.outputs[0]}/sum {at}" for at in range(len(others))]
    if len(w.node.outputs) > total and w.node.outputs[total]:
        names[-1] = w.node.outputs[total]
    for name, other in zip(names, others, strict=True):
        first = w.apply("Add", first, other, output=name)
    inputs = [first, scale, *([bias] if bias else [])]
    epsilon = float(w.attribute("epsilon", 1e-5 if w.node.operator == LAYER_NORMALIZATION else EPSILON))
    if w.opset >= OPSET_OF_LAYER_NORMALIZATION:
        w.apply(LAYER_NORMALIZATION, *inputs, output=w.node.outputs[0], axis=-1, epsilon=epsilon)
        return
    rest = w.apply("Sub", first, w.apply("ReduceMean", first, axes=[-1]))
    variance = w.apply("ReduceMean", w.apply("Mul", rest, rest), axes=[-1])
    deviation = w.apply("Sqrt", w.apply("Add", variance, _number(epsilon)))
    scaled = w.apply("Mul", w.apply("Div", rest, deviation), scale, output="" if bias else w.node.outputs[0])
    if bias:
        w.apply("Add", scaled, bias, output=w.node.outputs[0])


def _layer_normalization(w: _Writer) -> None:
    w.require_only(0, 1, 2)
    w.require(w.attribute("axis", -1) == -1)
    _normalized(w, (w.node.input(0),), w.node.input(1), w.node.input(2))


def _skip_simplified(w: _Writer) -> None:
    """Inputs, those that are added, scale, and a bias of the sum; the sum may be an output."""
    w.require_only(0, 1, 2, 3, outputs=(0, 3))
    summands = [name for name in (w.node.input(0), w.node.input(1), w.node.input(3)) if name]
    total = w.node.outputs[3] if len(w.node.outputs) > 3 else ""
    made = summands[0]
    for at, other in enumerate(summands[1:], 2):
        made = w.apply("Add", made, other, output=total if at == len(summands) else "")
    _of_mean_square(w, made, w.node.input(2), float(w.attribute("epsilon", EPSILON)))


def _simplified(w: _Writer) -> None:
    """A normalization without a mean, which ONNX Runtime has in ONNX's domain."""
    w.require_only(0, 1)
    w.require(w.attribute("axis", -1) == -1)
    _of_mean_square(w, w.node.input(0), w.node.input(1), float(w.attribute("epsilon", 1e-5)))


def _of_mean_square(w: _Writer, data: str, scale: str, epsilon: float) -> None:
    square = w.apply("Mul", data, data)
    if w.opset < OPSET_OF_MEAN_AXES:
        mean = w.apply("ReduceMean", square, axes=[-1])
    else:
        mean = w.apply("ReduceMean", square, np.array([-1]))
    deviation = w.apply("Sqrt", w.apply("Add", mean, _number(epsilon)))
    w.apply("Mul", w.apply("Div", data, deviation), scale, output=w.node.outputs[0])


def _quick_gelu(w: _Writer) -> None:
    scaled = w.apply("Mul", w.node.input(0), _number(w.attribute("alpha", 1.702)))
    w.apply("Mul", w.node.input(0), w.apply("Sigmoid", scaled), output=w.node.outputs[0])


def _fused_matmul(w: _Writer) -> None:
    w.require(not (w.attribute("transBatchA", 0) or w.attribute("transBatchB", 0)))
    names = []
    for name, flag in zip(w.node.inputs, ("transA", "transB"), strict=True):
        if w.attribute(flag, 0):
            rank = w.constants[name].ndim if name in w.constants else w.ranks.get(name, 0)
            w.require(rank >= 2)
            name = w.apply("Transpose", name, perm=(*range(rank - 2), rank - 1, rank - 2))
        names.append(name)
    alpha = float(w.attribute("alpha", 1.0))
    made = w.apply("MatMul", *names, output="" if alpha != 1 else w.node.outputs[0])
    if alpha != 1:
        w.apply("Mul", made, _number(alpha), output=w.node.outputs[0])


def _attention(w: _Writer) -> None:
    """Of data, weights and biases of queries, keys and values together."""
    w.require_only(0, 1, 2, 3, 5)
    projected = w.apply("Add", w.apply("MatMul", *w.node.inputs[:2]), w.node.input(2))
    _attended(w, projected, w.node.input(2), w.node.input(3), w.node.input(5))


def _quantized_attention(w: _Writer) -> None:
    """The same with data and weights of 8 bits."""
    w.require_only(0, 1, 2, 3, 4, 5, 6, 7)
    points = [w.node.input(at) for at in (6, 7)]
    w.require(bool(points[0]) or not points[1])
    sums = w.apply("MatMulInteger", *w.node.inputs[:2], *filter(None, points))
    scale = w.apply("Mul", w.node.input(3), w.node.input(4))
    numbers = w.apply("Mul", w.apply("Cast", sums, to=FLOAT), scale)
    _attended(w, w.apply("Add", numbers, w.node.input(2)), w.node.input(2), w.node.input(5), "")


def _attended(w: _Writer, projected: str, bias: str, mask: str, added: str) -> None:
    """From queries, keys and values on the last axis, [B, S, 3 * D], to what these weigh, [B, S, D]."""
    heads = w.attribute("num_heads", 0)
    plain = ("do_rotary", "past_present_share_buffer")
    w.require(not any(w.attribute(name, 0) for name in plain) and not w.attribute("qkv_hidden_sizes", ()))
    w.require(bias in w.constants and heads > 0 and w.constants[bias].size % (3 * heads) == 0)
    size = w.constants[bias].size // (3 * heads)
    split = w.apply("Reshape", projected, np.array([0, 0, 3, heads, size]))
    queries, keys, values = (w.apply("Gather", split, np.array(at), axis=2) for at in range(3))
    scale = float(w.attribute("scale", 0.0)) or 1 / math.sqrt(size)
    _weighed(w, (queries, keys, values), _number(scale), mask, added)


def _multi_head_attention(w: _Writer) -> None:
    """Of queries, keys and values by themselves, [B, S, D], with biases of all three together."""
    w.require_only(0, 1, 2, 3, 4, 5)
    heads, bias = w.attribute("num_heads", 0), w.node.input(3)
    w.require(heads > 0 and all(w.node.inputs[:3]) and len(w.node.inputs) >= 3)
    w.require(all(w.ranks.get(name, 3) == 3 for name in w.node.inputs[:3]))
    width = w.apply("Gather", w.apply("Shape", w.node.input(0)), np.array([2]))
    twice = w.apply("Add", width, width)
    begins: list[str | Array] = [np.array([0]), width, twice]
    ends: list[str | Array] = [width, twice, np.array([_END])]
    parts = []
    for name, begin, end in zip(w.node.inputs[:3], begins, ends, strict=True):
        # Of other ranks no shape can be inferred: values of other forms are not taken for these.
        part = w.apply("Transpose", name, perm=[0, 1, 2])
        if bias:
            part = w.apply("Add", part, w.apply("Slice", bias, begin, end, np.array([0])))
        parts.append(w.apply("Reshape", part, np.array([0, 0, heads, -1])))
    scale: str | Array = _number(float(w.attribute("scale", 0.0)))
    if not w.attribute("scale", 0.0):
        size = w.apply("Gather", w.apply("Shape", parts[0]), np.array(3))
        scale = w.apply("Div", _number(1.0), w.apply("Sqrt", w.apply("Cast", size, to=FLOAT)))
    _weighed(w, (parts[0], parts[1], parts[2]), scale, w.node.input(4), w.node.input(5))


def _weighed(w: _Writer, parts: tuple[str, str, str], scale: str | Array, mask: str, added: str) -> None:
    """Write attention of queries, keys and values of heads, [B, S, H, D each]."""
    queries, values = (w.apply("Transpose", part, perm=[0, 2, 1, 3]) for part in (parts[0], parts[2]))
    keys = w.apply("Transpose", parts[1], perm=[0, 2, 3, 1])
    scores = w.apply("Mul", w.apply("MatMul", queries, keys), scale)
    if mask:
        w.require(w.ranks.get(mask, 0) == 2)
        left_out = w.apply("Sub", _number(1.0), w.apply("Cast", mask, to=FLOAT))
        left_out = w.apply("Mul", left_out, _number(w.attribute("mask_filter_value", MASKED)))
        scores = w.apply("Add", scores, w.apply("Reshape", left_out, np.array([0, 1, 1, -1])))
    if w.attribute("unidirectional", 0):
        scores = w.apply("Add", scores, _later(w, scores))
    if added:
        scores = w.apply("Add", scores, added)
    mixed = w.apply("MatMul", w.apply("Softmax", scores, axis=-1), values)
    joined = w.apply("Transpose", mixed, perm=[0, 2, 1, 3])
    w.apply("Reshape", joined, np.array([0, 0, -1]), output=w.node.outputs[0])


def _later(w: _Writer, scores: str) -> str:
    """What takes keys that come after a query out of its scores, [.., S, L]."""
    shape, places = w.apply("Shape", scores), []
    for axis, form in ((2, [-1, 1]), (3, [1, -1])):
        extent = w.apply("Gather", shape, np.array(axis))
        places.append(w.apply("Reshape", w.apply("Range", np.array(0), extent, np.array(1)), np.array(form)))
    is_later = w.apply("Cast", w.apply("Less", *places), to=FLOAT)
    return w.apply("Mul", is_later, _number(float(np.finfo(np.float32).min)))


def _embed_layer_normalization(w: _Writer) -> None:
    """Words, their places and segments, looked up and added."""
    w.require_only(0, 1, 2, 3, 4, 5, 6, 7, 8, outputs=(0, 1, 2))
    words, segments, word_rows, place_rows, segment_rows, scale, bias = (w.node.input(at) for at in range(7))
    places = w.node.input(8)
    if not places:
        extent = w.apply("Gather", w.apply("Shape", words), np.array(1))
        places = w.apply("Range", np.array(0), extent, np.array(1))
    found = [w.apply("Gather", word_rows, words), w.apply("Gather", place_rows, places)]
    if segments:
        found.append(w.apply("Gather", segment_rows, segments))
    _normalized(w, tuple(found), scale, bias, 2)
    if len(w.node.outputs) > 1 and w.node.outputs[1]:
        # How many words of each sentence the mask has; 0 without one.
        counted = w.node.input(7) or w.apply("Mul", words, np.array(0, np.int32))
        along = {"axes": [1]} if w.opset < OPSET_OF_SUM_AXES else {}
        axes = [] if along else [np.array([1])]
        w.apply("ReduceSum", counted, *axes, output=w.node.outputs[1], keepdims=0, **along)


def _fused_convolution(w: _Writer) -> None:
    """A convolution, another summand, and a function whose numbers are a list."""
    w.require_only(0, 1, 2, 3)
    own = {key: value for key, value in w.node.attributes.items() if not key.startswith("activation")}
    made = w.apply("Conv", *w.node.inputs[:3], **own)
    if w.node.input(3):
        made = w.apply("Add", made, w.node.input(3))
    assert w.node.proto is not None
    listed = [each.floats for each in w.node.proto.attribute if each.name == "activation_params"]
    _activated(w, made, [float(each) for each in (listed[0] if listed else ())])


def _fused_gemm(w: _Writer) -> None:
    own = {key: value for key, value in w.node.attributes.items() if not key.startswith("activation")}
    made = w.apply("Gemm", *w.node.inputs, **own)
    numbers = (w.node.attributes.get(f"activation_{name}") for name in ("alpha", "beta"))
    _activated(w, made, [float(each) for each in numbers if each is not None])


def _activated(w: _Writer, data: str, numbers: list[float]) -> None:
    """The function of a fused node; its numbers are given in the order of its attributes."""
    function = w.attribute("activation", "")
    if not function:
        w.apply("Identity", data, output=w.node.outputs[0])
        return
    names = _ACTIVATIONS.get(function)
    w.require(names is not None and len(numbers) in (0, len(names)))
    if function != "Clip":
        w.apply(function, data, output=w.node.outputs[0], **dict(zip(names or (), numbers, strict=False)))
        return
    w.require(w.opset >= _OPSET_OF_BOUNDS and len(numbers) == 2)
    w.apply("Clip", data, *map(_number, numbers), output=w.node.outputs[0])


def _max_pool_of_channels_last(w: _Writer) -> None:
    kernel = w.attribute("kernel_shape", ())
    w.require(isinstance(kernel, tuple))
    own = dict(w.node.attributes)
    w.nodes.extend(with_channels_first(w.node, len(kernel) + 2, lambda moved: [_max_pool(moved, own)]))


def _max_pool(moved: Node, attributes: Mapping[str, Any]) -> Node:
    return written(moved.name, "MaxPool", moved.inputs, moved.outputs, attributes, moved.operator)


TRANSFORMERS: dict[str, Callable[[_Writer], None]] = {
    LAYER_NORMALIZATION: _layer_normalization,
    "SkipLayerNormalization": _skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": _skip_simplified,
    SIMPLIFIED: _simplified,
    "EmbedLayerNormalization": _embed_layer_normalization,
    "Attention": _attention,
    "QAttention": _quantized_attention,
    "MultiHeadAttention": _multi_head_attention,
    "FusedMatMul": _fused_matmul,
    "QuickGelu": _quick_gelu,
    "FusedConv": _fused_convolution,
    "FusedGemm": _fused_gemm,
    "NhwcMaxPool": _max_pool_of_channels_last,
}
