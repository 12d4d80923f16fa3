"""What ONNX Runtime's optimizer fuses, most of it in transformers, as the nodes that it was made of.

Source: ONNX Runtime's docs/ContribOperators.md. What can't be written so stays a node that nothing computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import numpy as np

from int8tune.compiler.onnx_reader.embeddings import write_embedding, write_quantized_embedding
from int8tune.compiler.onnx_reader.fused_writer import FLOAT, FusedWriter, NotWrittenError, number
from int8tune.compiler.onnx_reader.nodes import OPSET_OF_SUM_AXES, Node, is_of_microsoft, written
from int8tune.compiler.onnx_reader.normalizations import (
    LAYER_NORMALIZATION,
    OPSET_OF_LAYER_NORMALIZATION,
    SIMPLIFIED,
    write_layer_normalization,
    write_simplified,
    write_skip_layer_normalization,
    write_skip_simplified,
)
from int8tune.compiler.onnx_reader.qlinear import with_channels_first
from int8tune.compiler.onnx_reader.tensors import Array

MASKED = -10000.0
# The end of an axis, whatever it has.
_END = (1 << 31) - 1
# From this one on, bounds of a Clip are inputs.
_OPSET_OF_BOUNDS = 11
# Functions of fused convolutions and products, with the attributes that they have.
_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("Relu", "Sigmoid", "Tanh"), ()),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}


def is_fused(node: Node, opset: int) -> bool:
    """Whether a node is written as others: one of ONNX Runtime's, wherever it has it."""
    is_early = node.operator == LAYER_NORMALIZATION and opset < OPSET_OF_LAYER_NORMALIZATION
    return is_early or node.operator == SIMPLIFIED or is_of_microsoft(node, TRANSFORMERS)


def unfused_transformer(
    node: Node, constants: MutableMapping[str, Array], ranks: Mapping[str, int], opset: int
) -> list[Node]:
    """A node that `is_fused` as standard ones; itself, where it has something that these don't say."""
    writer = FusedWriter(node, opset, constants, ranks)
    try:
        TRANSFORMERS[node.operator](writer)
    except NotWrittenError:
        return [node]
    return writer.nodes


def _quick_gelu(w: FusedWriter) -> None:
    scaled = w.apply("Mul", w.node.input(0), number(w.real("alpha", 1.702)))
    w.apply("Mul", w.node.input(0), w.apply("Sigmoid", scaled), output=w.node.outputs[0])


def _fused_matmul(w: FusedWriter) -> None:
    """A product, each operand of which may be transposed: its batch axes behind its rows first, then its last two."""
    w.require(len(w.node.inputs) == 2)
    names = []
    for name, side in zip(w.node.inputs, "AB", strict=True):
        moves, turns = w.attribute(f"transBatch{side}", 0), w.attribute(f"trans{side}", 0)
        if moves or turns:
            rank = w.constants[name].ndim if name in w.constants else w.ranks.get(name, 0)
            w.require(rank >= 2)
            axes = [*range(1, rank - 1), 0, rank - 1] if moves else [*range(rank)]
            name = w.apply("Transpose", name, perm=(*axes[:-2], *(axes[:-3:-1] if turns else axes[-2:])))
        names.append(name)
    alpha = w.real("alpha", 1.0)
    made = w.apply("MatMul", *names, output="" if alpha != 1 else w.node.outputs[0])
    if alpha != 1:
        w.apply("Mul", made, number(alpha), output=w.node.outputs[0])


def _expand_dims(w: FusedWriter) -> None:
    """An axis of one element, at a place that is known."""
    axis = w.constants.get(w.node.input(1))
    w.require(axis is not None and axis.size == 1 and axis.dtype.kind == "i")
    places = np.asarray(axis, np.int64).reshape(1)
    if w.opset < OPSET_OF_SUM_AXES:
        w.apply("Unsqueeze", w.node.input(0), axes=tuple(places.tolist()), output=w.node.outputs[0])
    else:
        w.apply("Unsqueeze", w.node.input(0), places, output=w.node.outputs[0])


def _attention(w: FusedWriter) -> None:
    """Attention of data, with weights and biases of queries, keys and values together."""
    w.require_only(0, 1, 2, 3, 5)
    projected = w.apply("Add", w.apply("MatMul", *w.node.inputs[:2]), w.node.input(2))
    _attended(w, projected, w.node.input(2), w.node.input(3), w.node.input(5))


def _quantized_attention(w: FusedWriter) -> None:
    """The same with data and weights of 8 bits."""
    w.require_only(0, 1, 2, 3, 4, 5, 6, 7)
    points = [w.node.input(at) for at in (6, 7)]
    w.require(bool(points[0]) or not points[1])
    sums = w.apply("MatMulInteger", *w.node.inputs[:2], *filter(None, points))
    scale = w.apply("Mul", w.node.input(3), w.node.input(4))
    numbers = w.apply("Mul", w.apply("Cast", sums, to=FLOAT), scale)
    _attended(w, w.apply("Add", numbers, w.node.input(2)), w.node.input(2), w.node.input(5), "")


def _attended(w: FusedWriter, projected: str, bias: str, mask: str, added: str) -> None:
    """From queries, keys and values on the last axis, [B, S, 3 * D], to what these weigh, [B, S, D]."""
    heads = w.whole("num_heads", 0)
    plain = ("do_rotary", "past_present_share_buffer")
    w.require(not any(w.attribute(name, 0) for name in plain) and not w.attribute("qkv_hidden_sizes", ()))
    w.require(bias in w.constants and heads > 0 and w.constants[bias].size % (3 * heads) == 0)
    size = w.constants[bias].size // (3 * heads)
    w.require(size > 0)
    split = w.apply("Reshape", projected, np.array([0, 0, 3, heads, size]))
    queries, keys, values = (w.apply("Gather", split, np.array(at), axis=2) for at in range(3))
    scale = w.real("scale", 0.0) or 1 / math.sqrt(size)
    _weighed(w, (queries, keys, values), number(scale), mask, added)


def _multi_head_attention(w: FusedWriter) -> None:
    """Attention of queries, keys and values by themselves, [B, S, D], with biases of all three together."""
    w.require_only(0, 1, 2, 3, 4, 5)
    heads, bias = w.whole("num_heads", 0), w.node.input(3)
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
    scale: str | Array = number(w.real("scale", 0.0))
    if not w.real("scale", 0.0):
        size = w.apply("Gather", w.apply("Shape", parts[0]), np.array(3))
        scale = w.apply("Div", number(1.0), w.apply("Sqrt", w.apply("Cast", size, to=FLOAT)))
    _weighed(w, (parts[0], parts[1], parts[2]), scale, w.node.input(4), w.node.input(5))


def _weighed(w: FusedWriter, parts: tuple[str, str, str], scale: str | Array, mask: str, added: str) -> None:
    """Write attention of queries, keys and values of heads, [B, S, H, D each]."""
    queries, values = (w.apply("Transpose", part, perm=[0, 2, 1, 3]) for part in (parts[0], parts[2]))
    keys = w.apply("Transpose", parts[1], perm=[0, 2, 3, 1])
    scores = w.apply("Mul", w.apply("MatMul", queries, keys), scale)
    if mask:
        w.require(w.ranks.get(mask, 0) == 2)
        left_out = w.apply("Sub", number(1.0), w.apply("Cast", mask, to=FLOAT))
        left_out = w.apply("Mul", left_out, number(w.real("mask_filter_value", MASKED)))
        scores = w.apply("Add", scores, w.apply("Reshape", left_out, np.array([0, 1, 1, -1])))
    if w.attribute("unidirectional", 0):
        scores = w.apply("Add", scores, _later(w, scores))
    if added:
        scores = w.apply("Add", scores, added)
    mixed = w.apply("MatMul", w.apply("Softmax", scores, axis=-1), values)
    joined = w.apply("Transpose", mixed, perm=[0, 2, 1, 3])
    w.apply("Reshape", joined, np.array([0, 0, -1]), output=w.node.outputs[0])


def _later(w: FusedWriter, scores: str) -> str:
    """What takes keys that come after a query out of its scores, [.., S, L]."""
    shape, places = w.apply("Shape", scores), []
    for axis, form in ((2, [-1, 1]), (3, [1, -1])):
        extent = w.apply("Gather", shape, np.array(axis))
        places.append(w.apply("Reshape", w.apply("Range", np.array(0), extent, np.array(1)), np.array(form)))
    is_later = w.apply("Cast", w.apply("Less", *places), to=FLOAT)
    return w.apply("Mul", is_later, number(float(np.finfo(np.float32).min)))


def _fused_convolution(w: FusedWriter) -> None:
    """A convolution, another summand, and a function whose numbers are a list."""
    w.require_only(0, 1, 2, 3)
    made = w.apply("Conv", *w.node.inputs[:3], **_own(w))
    if w.node.input(3):
        made = w.apply("Add", made, w.node.input(3))
    assert w.node.proto is not None
    listed = [each.floats for each in w.node.proto.attribute if each.name == "activation_params"]
    _activated(w, made, [float(each) for each in (listed[0] if listed else ())])


def _own(w: FusedWriter) -> dict[str, Any]:
    """The attributes of a node before a function was fused with it; none of them is a word of the writer."""
    w.require("output" not in w.node.attributes)
    return {key: value for key, value in w.node.attributes.items() if not key.startswith("activation")}


def _fused_gemm(w: FusedWriter) -> None:
    made = w.apply("Gemm", *w.node.inputs, **_own(w))
    names = (f"activation_{name}" for name in ("alpha", "beta"))
    _activated(w, made, [w.real(name, 0.0) for name in names if name in w.node.attributes])


def _activated(w: FusedWriter, data: str, numbers: list[float]) -> None:
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
    w.apply("Clip", data, *map(number, numbers), output=w.node.outputs[0])


def _max_pool_of_channels_last(w: FusedWriter) -> None:
    kernel = w.attribute("kernel_shape", ())
    w.require(isinstance(kernel, tuple))
    own = dict(w.node.attributes)
    w.nodes.extend(with_channels_first(w.node, len(kernel) + 2, lambda moved: [_max_pool(moved, own)]))


def _max_pool(moved: Node, attributes: Mapping[str, Any]) -> Node:
    return written(moved.name, "MaxPool", moved.inputs, moved.outputs, attributes, moved.operator)


TRANSFORMERS: dict[str, Callable[[FusedWriter], None]] = {
    LAYER_NORMALIZATION: write_layer_normalization,
    "SkipLayerNormalization": write_skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": write_skip_simplified,
    SIMPLIFIED: write_simplified,
    "EmbedLayerNormalization": write_embedding,
    "QEmbedLayerNormalization": write_quantized_embedding,
    "Attention": _attention,
    "QAttention": _quantized_attention,
    "MultiHeadAttention": _multi_head_attention,
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul"), _fused_matmul),
    "ExpandDims": _expand_dims,
    "QuickGelu": _quick_gelu,
    "FusedConv": _fused_convolution,
    "FusedGemm": _fused_gemm,
    "NhwcMaxPool": _max_pool_of_channels_last,
}
