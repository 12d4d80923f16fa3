"""Nodes of an island in the place of one node of a file, written one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from int8tune.compiler.naming import free_name
from int8tune.compiler.onnx_reader.nodes import Node
from int8tune.compiler.onnx_reader.tensors import Array

# Before, the bounds of a Clip are attributes.
OPSET_OF_CLIP_INPUTS = 11


def _slice(data: Array, begin: Array, end: Array, axes: Array, steps: Array | None = None) -> Array:
    places = [slice(None)] * data.ndim
    steps = np.ones_like(begin) if steps is None else steps
    for first, last, axis, step in zip(begin.tolist(), end.tolist(), axes.tolist(), steps.tolist(), strict=True):
        places[axis] = slice(first, last, step)
    return np.asarray(data[tuple(places)])


MOVEMENTS: dict[str, Callable[..., Array]] = {
    "Transpose": lambda data, perm: data.transpose(perm),
    "Gather": lambda data, indices, axis: data.take(indices, axis),
    "Slice": _slice,
}
"""What is computed as it is written, where all that it reads is known."""


class FloatWriter:
    """Writes what computes a node; names of the file are those of the node's inputs and outputs.

    What only moves constants is computed at once, with `known`, the constants of the file.

    Attributes:
        nodes: NodeProtos, in order.
        constants: what they read besides, by names that the node does not have.
    """

    def __init__(self, node: Node, known: Mapping[str, Array] | None = None) -> None:
        self._taken = {*node.inputs, *node.outputs}
        self._prefix = node.outputs[0]
        self._known = known or {}
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
        import onnx

        taken = [each if isinstance(each, str) else self._given(each) for each in inputs]
        arrays = [self.constants.get(name, self._known.get(name)) for name in taken]
        if operator in MOVEMENTS and not output and all(array is not None for array in arrays):
            return self._kept(MOVEMENTS[operator](*arrays, **attributes))
        name = output or self._name(operator)
        self.nodes.append(onnx.helper.make_node(operator, taken, [name], **attributes))
        return name

    def positive(self, values: str) -> str:
        """Values of 0 and more."""
        return self.apply("Relu", values)

    def negative(self, values: str) -> str:
        """Values of 0 and less."""
        return self.apply("Neg", self.positive(self.apply("Neg", values)))

    def clipped(self, values: str, least: float, most: float, opset: int) -> str:
        if opset < OPSET_OF_CLIP_INPUTS:
            return self.apply("Clip", values, min=least, max=most)
        return self.apply("Clip", values, least, most)

    def _kept(self, array: Array) -> str:
        """A constant that is computed now: TVM compiles a kernel for each that it computes."""
        name = self._name("constant")
        self.constants[name] = np.ascontiguousarray(array).reshape(array.shape)
        return name

    def _given(self, values: float | Array) -> str:
        return self.constant(values, values.dtype if isinstance(values, np.ndarray | np.generic) else np.float32)

    def _name(self, what: str) -> str:
        name = free_name(f"{self._prefix}/{what} {len(self._taken)}", self._taken)
        self._taken.add(name)
        return name
