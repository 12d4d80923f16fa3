"""Nodes that make what they take: PyTorch's exporter writes a Cast to its own type in front of each DequantizeLinear.

Left between a layer and what it is fused with, they would keep the two apart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from int8tune.compiler.onnx_reader.nodes import Node, renamed
from int8tune.compiler.onnx_reader.shapes import Form


def without_idle(nodes: Sequence[Node], forms: Mapping[str, Form], outputs: Collection[str]) -> tuple[Node, ...]:
    """The nodes, in order, but for those that make what they take; what reads theirs reads what they took.

    Args:
        outputs: of the model, which keep their names; what is an input or a constant, too, stays a node's.
    """
    names = _names_of_outputs(nodes, forms, outputs)
    made: list[Node] = []
    for node in nodes:
        node = _named(node, names)
        if _is_idle(node, forms) and node.outputs[0] not in outputs:
            names[node.outputs[0]] = node.inputs[0]
        elif node.inputs[:1] != node.outputs[:1]:
            made.append(node)
    return tuple(made)


def _names_of_outputs(nodes: Sequence[Node], forms: Mapping[str, Form], outputs: Collection[str]) -> dict[str, str]:
    """The names of outputs, by those of the values that idle nodes make them of."""
    makers = {name for node in nodes for name in node.outputs}
    names: dict[str, str] = {}
    for node in reversed(nodes):
        output = names.get(node.outputs[0], node.outputs[0])
        taken = node.inputs[0] if node.inputs else ""
        is_free = taken in makers and taken not in outputs and taken not in names
        if output in outputs and is_free and _is_idle(node, forms):
            names[taken] = output
    return names


def _is_idle(node: Node, forms: Mapping[str, Form]) -> bool:
    if len(node.inputs) != 1 or len(node.outputs) != 1 or node.computes not in ("Cast", "Identity"):
        return False
    taken, made = (forms.get(name) for name in (node.inputs[0], node.outputs[0]))
    return taken is not None and taken == made


def _named(node: Node, names: Mapping[str, str]) -> Node:
    """The node with other names of values."""
    if names.keys().isdisjoint((*node.inputs, *node.outputs)):
        return node
    inputs, outputs = ([names.get(name, name) for name in each] for each in (node.inputs, node.outputs))
    return renamed(node, inputs, outputs)
