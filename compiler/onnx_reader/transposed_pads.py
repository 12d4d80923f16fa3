"""Transposed convolutions whose border follows from the shape of their output, with pads instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from int8tune.compiler.onnx_reader.nodes import Node, written
from int8tune.compiler.onnx_reader.shapes import Form

_SAID_BY_OUTPUT = ("auto_pad", "output_shape")


def with_pads(nodes: Sequence[Node], forms: Mapping[str, Form]) -> tuple[Node, ...]:
    """The nodes; as they are where pads can't say it."""
    return tuple(_padded(node, forms) if node.computes == "ConvTranspose" else node for node in nodes)


def _padded(node: Node, forms: Mapping[str, Form]) -> Node:
    at = node.attributes
    auto = at.get("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "SAME_UPPER", "SAME_LOWER") or not ("output_shape" in at or auto != "NOTSET"):
        return node
    (_, data), (_, weight), (_, made) = (forms[name] for name in (*node.inputs[:2], node.outputs[0]))
    axes = len(data) - 2
    if axes < 1 or not len(data) == len(weight) == len(made):
        return node
    strides, dilations = (at.get(name, (1,) * axes) for name in ("strides", "dilations"))
    added = at.get("output_padding", (0,) * axes)
    if not all(isinstance(each, tuple) and len(each) == axes for each in (strides, dilations, added)):
        return node
    steps = zip(data[2:], weight[2:], made[2:], strides, dilations, added, strict=True)
    totals = [(size - 1) * step + more + (kernel - 1) * wide + 1 - to for size, kernel, to, step, wide, more in steps]
    if min(totals) < 0:
        return node
    less, rest = [total // 2 for total in totals], [total - total // 2 for total in totals]
    pads = (*less, *rest) if auto == "SAME_UPPER" else (*rest, *less)
    attributes = {key: value for key, value in at.items() if key not in _SAID_BY_OUTPUT} | {"pads": pads}
    proto = written(node.name, node.computes, node.inputs, node.outputs, attributes).proto
    return replace(node, attributes=attributes, proto=proto)
