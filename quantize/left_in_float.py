"""Which operators of a model are not quantized, where some of its layers are in float."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from int8tune.quantize.activated_layers import activated_layers
from int8tune.quantize.forms import Form
from int8tune.quantize.options import Options


def left_in_float(proto: Any, options: Options) -> list[str]:
    """The names of what is not quantized: what is skipped, layers of that form, and what lies between these alone.

    Where all layers are in float, all of the model is.
    """
    if Form.FLOAT not in options.forms.values():
        return list(options.skip)
    layers = activated_layers(proto)
    found = {*options.skip, *_named(proto, options.skip)}
    found |= {name for layer in layers if options.forms.get(layer.name) is Form.FLOAT for name in layer.nodes}
    between = {node.name for node in proto.graph.node} - {name for layer in layers for name in layer.nodes} - found
    beside = _neighbours(proto.graph)
    while left := {name for name in between if not beside[name] <= found | between}:
        between -= left
    return [*options.skip, *sorted((found | between) - set(options.skip))]


def _named(proto: Any, names: tuple[str, ...]) -> Iterator[str]:
    """The operators that make tensors of these names."""
    return (node.name for node in proto.graph.node if set(names) & set(node.output))


def _neighbours(graph: Any) -> dict[str, set[str]]:
    """The names of the operators beside each one: which make what it reads, or read what it makes."""
    makers = {output: node.name for node in graph.node for output in node.output}
    found: dict[str, set[str]] = {node.name: set() for node in graph.node}
    for node in graph.node:
        for name in node.input:
            if name in makers:
                found[node.name].add(makers[name])
                found[makers[name]].add(node.name)
    return found
