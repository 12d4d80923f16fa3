"""QuantizeLinear and DequantizeLinear in float16 as those in float32 with a Cast: ONNX Runtime computes in binary32.

From version 23 on it divides in the type that `precision` says, which is the scale's otherwise: those of float16 stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from int8tune.compiler.graph import ElementType
from int8tune.compiler.naming import new_name
from int8tune.compiler.onnx_reader.nodes import Node, node_fault, written
from int8tune.compiler.onnx_reader.tensors import Array

_QUANTIZE, _DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
# ONNX's numbers of types.
_FLOAT, _HALF = 1, 10
OPSET_OF_PRECISION = 23


class HalfScales:
    """Writes nodes without constant scales of float16.

    Attributes:
        quantizing: the file's QuantizeLinear nodes that were written anew, whose data must be float16, too.
    """

    def __init__(self, constants: MutableMapping[str, Array], opset: int) -> None:
        self._constants, self._opset = constants, opset
        self._names: set[str] = set()
        self.quantizing: list[Node] = []

    def replaced(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """The nodes in order; the constants get scales in float32."""
        self._names = {*self._constants, *(name for node in nodes for name in (*node.inputs, *node.outputs))}
        return tuple(made for node in nodes for made in self._replaced(node))

    def require_halves(self, forms: Mapping[str, tuple[ElementType, tuple[int, ...]]], model: str) -> None:
        """Raise ModelError where numbers of other types meet scales of float16."""
        for node in self.quantizing:
            element = forms[node.input(0)][0]
            if element != "f16":
                raise node_fault(model, node, f"its data must be f16 as its scale is: {element}")

    def _replaced(self, node: Node) -> Iterable[Node]:
        scale = self._constants.get(node.input(1)) if node.computes in (_QUANTIZE, _DEQUANTIZE) else None
        if scale is None:
            return [node]
        if node.computes == _DEQUANTIZE:
            made = node.attributes.get("output_dtype", 0) or (_HALF if scale.dtype == np.float16 else _FLOAT)
            is_known = made in (_FLOAT, _HALF) and (scale.dtype == np.float16 or made == _HALF)
            return self._dequantized(node, made == _HALF) if is_known else [node]
        if scale.dtype != np.float16:
            return [node]
        if self._opset >= OPSET_OF_PRECISION and node.attributes.get("precision", 0) != _FLOAT:
            return [node]  # whose reader says why not
        self.quantizing.append(node)
        return self._quantized(node)

    def _full(self, node: Node) -> str:
        """The name of a node's scale in float32."""
        name = new_name(f"{node.input(1)}/f32", self._names)
        self._constants[name] = self._constants[node.input(1)].astype(np.float32)
        return name

    def _quantized(self, node: Node) -> list[Node]:
        number, scale = new_name(f"{node.outputs[0]}/f32", self._names), self._full(node)
        return [_cast(node, node.input(0), number, _FLOAT), self._stored(node, number, scale)]

    def _stored(self, node: Node, number: str, scale: str) -> Node:
        kept = {key: value for key, value in node.attributes.items() if key != "precision"}
        return _with(node, (number, scale), node.outputs, kept)

    def _dequantized(self, node: Node, is_half: bool) -> list[Node]:
        kept = {key: value for key, value in node.attributes.items() if key != "output_dtype"}
        made = new_name(f"{node.outputs[0]}/f32", self._names) if is_half else node.outputs[0]
        number = _with(node, (node.input(0), self._full(node)), (made,), kept)
        return [number, _cast(node, made, node.outputs[0], _HALF)] if is_half else [number]


def _with(node: Node, inputs: Sequence[str], outputs: Sequence[str], kept: Mapping[str, Any]) -> Node:
    """The node on numbers of float32."""
    return written(node.name, node.computes, (*inputs, *node.inputs[2:]), outputs, kept, node.operator)


def _cast(node: Node, source: str, made: str, to: int) -> Node:
    return written(f"{node.name}/cast", "Cast", (source,), (made,), {"to": to}, node.operator)
