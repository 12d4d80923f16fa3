"""Which tensors of a quantized model have 16 bits, and who reads them so: those that layers of 16-bit data read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from int8tune.quantize.activated_layers import ACTIVATIONS, ActivatedLayer, readers_of

# What these make has the scale of what they read: ONNX Runtime's quantizer gives both one.
_SAME_SCALE = frozenset(
    {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Resize", "MaxPool", "AveragePool", "Slice", "Pad"}
    | {"Split", "Gather", "GatherElements", "TopK"}
)

WordReaders = Mapping[str, frozenset[str]]
"""The operators that read each tensor of 16 bits as such; others read what is left of it in 8 bits."""


def word_readers(graph: Any, layers: Sequence[ActivatedLayer], in_float: Collection[str]) -> WordReaders:
    """The tensors of 16 bits of a graph.

    What a model returns has 16 bits where the layer that makes it reads such.

    Args:
        layers: those of 16-bit data.
        in_float: the operators that are not quantized.
    """
    makers = {output: node for node in graph.node for output in node.output}
    found: dict[str, set[str]] = {}

    def read(tensor: str, reader: str) -> None:
        """Store a tensor in 16 bits, and what it has its values from."""
        known = found.setdefault(tensor, set())
        known |= {reader} - {""}
        maker = makers.get(tensor)
        if maker is not None and maker.op_type in (*_SAME_SCALE, *ACTIVATIONS) and maker.name not in in_float:
            read(maker.input[0], maker.name)

    for layer in layers:
        read(layer.data, layer.name)
        for returned in _returned(graph, layer.tensor):
            read(returned, "")
    return {tensor: frozenset(readers) for tensor, readers in found.items()}


def without_activations(proto: Any, words: WordReaders, in_float: Collection[str]) -> None:
    """Remove each Relu and Clip that makes a tensor of 16 bits and is a part of its range; the graph is changed.

    ONNX Runtime's quantizer keeps them where a tensor is read in 8 bits, too, and would round what is before it.
    """
    graph = proto.graph
    readers = readers_of(graph)
    makers = {output: node for node in graph.node for output in node.output}
    for node in [node for node in graph.node if node.op_type in ACTIVATIONS and node.output[0] in words]:
        maker = makers.get(node.input[0])
        if maker is None or readers[node.input[0]] > 1 or {maker.name, node.name} & set(in_float):
            continue
        maker.output[list(maker.output).index(node.input[0])] = node.output[0]
        graph.node.remove(node)


def read_words(graph: Any, words: WordReaders, in_float: Collection[str]) -> None:
    """Let operators in float read what is stored of a tensor of 16 bits, in a QDQ graph; it is changed.

    ONNX Runtime's quantizer lets them read the tensor before it is stored, if others read it in 8 bits.
    """
    stored = {node.input[0]: node.output[0] for node in graph.node if node.op_type == "QuantizeLinear"}
    numbers = {node.input[0]: node.output[0] for node in reversed(graph.node) if node.op_type == "DequantizeLinear"}
    for node in [node for node in graph.node if node.name in in_float]:
        for at, name in enumerate(node.input):
            if name in words and name in stored:
                node.input[at] = numbers[stored[name]]


def _returned(graph: Any, tensor: str) -> list[str]:
    """A tensor if the graph returns it, or what else it returns of the same values."""
    outputs = {value.name for value in graph.output}
    if tensor in outputs:
        return [tensor]
    readers = [node for node in graph.node if tensor in node.input]
    is_moved = len(readers) == 1 and readers[0].op_type in _SAME_SCALE
    return _returned(graph, readers[0].output[0]) if is_moved else []
