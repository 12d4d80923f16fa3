"""Nodes of an island in the place of one node of a file, written one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from int8tune.compiler.onnx_reader.nodes import Node
from int8tune.compiler.onnx_reader.tensors import Array


class FloatWriter:
    """Writes what computes a node; names of the file are those of the node's inputs and outputs.

    Attributes:
        nodes: NodeProtos, in order.
        constants: what they read besides, by names that the node does not have.
    """

    def __init__(self, node: Node) -> None:
        self._taken = {*node.inputs, *node.outputs}
        self._prefix = node.outputs[0]
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        name = self._name("constant")
        self.constants[name] = np.asarray(values, dtype)
        return name

    def apply(self, operator: str, *inputs: str | float | Array, output: str = "", **attributes: Any) -> str:
        """Write a node; the name of what it makes.

        Args:
            inputs: names, or numbers and arrays, which become constants of their type or of float32.
        """
        return self.split(operator, *inputs, outputs=(output or self._name(operator),), **attributes)[0]

    def split(
        self, operator: str, *inputs: str | float | Array, outputs: int | tuple[str, ...], **attributes: Any
    ) -> tuple[str, ...]:
        """The same for a node that makes several values, of these names or of new ones."""
        import onnx

        taken = [each if isinstance(each, str) else self._given(each) for each in inputs]
        names = outputs if isinstance(outputs, tuple) else tuple(self._name(operator) for _ in range(outputs))
        self.nodes.append(onnx.helper.make_node(operator, taken, names, **attributes))
        return names

    def _given(self, values: float | Array) -> str:
        return self.constant(values, values.dtype if isinstance(values, np.ndarray) else np.float32)

    def _name(self, what: str) -> str:
        name = f"{self._prefix}/{what} {len(self._taken)}"
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        return name
