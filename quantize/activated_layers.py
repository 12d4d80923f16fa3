"""Layers with the activation that is a part of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from int8tune.quantize.errors import QuantizeSpecError
from int8tune.quantize.float_model import FloatModel, shown
from int8tune.quantize.weights import layers_of

ACTIVATIONS = ("Relu", "Clip")


@dataclass(frozen=True, slots=True)
class ActivatedLayer:
    """A convolution or dense layer, with a Relu or Clip that nothing else reads past.

    Attributes:
        name: of its operator, as it may be left in float.
        operator: ONNX's name for what it computes.
        nodes: the names of its operator and of the activation behind it.
        data: the tensor that it reads.
        weight: the name of its weights.
        tensor: what it makes.
    """

    name: str
    operator: str
    nodes: tuple[str, ...]
    data: str
    weight: str
    tensor: str


def activated_layers(proto: Any) -> list[ActivatedLayer]:
    """The layers of a prepared model, in the order of its graph."""
    graph = proto.graph
    readers = readers_of(graph)
    by_input = {name: node for node in graph.node for name in node.input}
    found = []
    for layer in layers_of(graph):
        nodes, tensor = [layer.node.name], layer.node.output[0]
        follower = by_input.get(tensor)
        if readers[tensor] == 1 and follower is not None and follower.op_type in ACTIVATIONS:
            nodes, tensor = [*nodes, follower.name], follower.output[0]
        found.append(
            ActivatedLayer(layer.node.name, layer.node.op_type, tuple(nodes), layer.node.input[0], layer.weight, tensor)
        )
    return found


def required_layers(model: FloatModel) -> list[ActivatedLayer]:
    """The layers of a prepared model.

    Raises:
        QuantizeSpecError: there is none.
    """
    found = activated_layers(model.proto)
    if not found:
        raise QuantizeSpecError(f"{shown(model.path)}: no convolution or dense layer with constant weights is in it")
    return found


def readers_of(graph: Any) -> Counter[str]:
    """How often each tensor is read; what the graph returns is read, too."""
    readers = Counter(name for node in graph.node for name in node.input)
    readers.update(value.name for value in graph.output)
    return readers
