"""Nodes that make what they take: PyTorch's exporter writes a Cast to its own type in front of each DequantizeLinear.

Left between a layer and what it is fused with, they would keep the two apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from int8tune.compiler.onnx_reader.nodes import Node
from int8tune.compiler.onnx_reader.shapes import Form


def without_idle(nodes: Sequence[Node], forms: Mapping[str, Form], outputs: Collection[str]) -> tuple[Node, ...]:
    """The nodes, in order, but for those that make what they take; what reads theirs reads what they took.

    Args:
        outputs: of the model, whose makers stay.
    """
    return tuple(_others(nodes, forms, frozenset(outputs)))


def _others(nodes: Sequence[Node], forms: Mapping[str, Form], outputs: Collection[str]) -> Iterator[Node]:
    sources: dict[str, str] = {}
    for node in nodes:
        if not sources.keys().isdisjoint(node.inputs):
            node = _reading(node, [sources.get(name, name) for name in node.inputs])
        if _is_idle(node, forms) and node.outputs[0] not in outputs:
            sources[node.outputs[0]] = node.inputs[0]
        else:
            yield node


def _is_idle(node: Node, forms: Mapping[str, Form]) -> bool:
    if len(node.inputs) != 1 or len(node.outputs) != 1 or node.computes not in ("Cast", "Identity"):
        return False
    taken, made = (forms.get(name) for name in (node.inputs[0], node.outputs[0]))
    return taken is not None and taken == made


def _reading(node: Node, inputs: Sequence[str]) -> Node:
    """The node with other inputs."""
    import onnx

    proto = onnx.NodeProto.FromString(node.proto.SerializeToString())
    # One that is written for another may have fewer.
    proto.input[:] = inputs[: len(proto.input)]
    return replace(node, inputs=tuple(inputs), proto=proto)
