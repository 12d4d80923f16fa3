"""Quantizing in front of what only moves or chooses values, in place of behind it: it is the same, exactly.

Where only layers are quantized, a convolution's numbers are pooled or joined before the next QuantizeLinear takes them.
In front of that it is a part of the convolution, and bytes are moved in place of numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from int8tune.compiler.naming import new_name
from int8tune.compiler.onnx_reader.narrow import has_one_scale
from int8tune.compiler.onnx_reader.nodes import Node, renamed, written
from int8tune.compiler.onnx_reader.tensors import Array

_QUANTIZE, _DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
# What only moves values of its first input. None makes fewer of them but the pool, whose data is a layer's most often.
_MOVES = ("Flatten", "Identity", "MaxPool", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
_JOINS = "Concat"


def with_early_steps(
    nodes: Sequence[Node], constants: Mapping[str, Array], outputs: Collection[str]
) -> tuple[Node, ...]:
    """The nodes in order, with further QuantizeLinear and DequantizeLinear nodes.

    Args:
        outputs: of the model.
    """
    return _Steps(nodes, constants, outputs).moved()


class _Steps:
    """Goes through the nodes from the last to the first."""

    def __init__(self, nodes: Sequence[Node], constants: Mapping[str, Array], outputs: Collection[str]) -> None:
        self._nodes, self._constants = nodes, constants
        self._makers = {name: node for node in nodes for name in node.outputs}
        self._reads = Counter(name for node in nodes for name in node.inputs) + Counter(outputs)
        self._names = {*constants, *(name for node in nodes for name in (*node.inputs, *node.outputs))}
        # Who quantizes a value that nobody else reads.
        self._quantizing: dict[str, Node] = {}

    def moved(self) -> tuple[Node, ...]:
        made: list[Node] = []
        for node in reversed(self._nodes):
            if self._is_single(node) and self._reads[node.input(0)] == 1:
                self._quantizing[node.input(0)] = node
            made += reversed(self._with_steps(node))
        return tuple(reversed(made))

    def _is_single(self, node: Node) -> bool:
        """Whether a node quantizes by one constant scale, of float32, in which its steps stay what they are."""
        is_known = node.computes == _QUANTIZE and has_one_scale(node, self._constants)
        return is_known and self._constants[node.input(1)].dtype == np.float32

    def _with_steps(self, node: Node) -> list[Node]:
        """A node behind those that quantize its data; alone where nothing quantizes what it makes, or that can't be."""
        quantize = self._quantizing.get(node.outputs[0]) if len(node.outputs) == 1 else None
        data = node.inputs if node.computes == _JOINS else node.inputs[:1] if node.computes in _MOVES else ()
        late = [name for name in data if not self._is_early(name)]
        if quantize is None or not late or any(self._reads[name] > 1 for name in late):
            return [node]
        steps: list[Node] = []
        names: dict[str, str] = {}
        for name in late:
            stored, names[name] = (new_name(f"{name}/{what}", self._names) for what in ("stored", "steps"))
            parameters = quantize.inputs[1:]
            first = written(f"{stored}/early", _QUANTIZE, (name, *parameters), (stored,), quantize.attributes)
            steps += [first, written(f"{stored}/number", _DEQUANTIZE, (stored, *parameters), (names[name],))]
            self._quantizing[name] = first
        return [*steps, renamed(node, [names.get(each, each) for each in node.inputs])]

    def _is_early(self, name: str) -> bool:
        """Whether values are quantized already, or were before they were moved, or no node makes them."""
        maker = self._makers.get(name)
        while maker is not None and maker.computes in _MOVES:
            maker = self._makers.get(maker.input(0))
        return maker is None or maker.computes == _DEQUANTIZE
