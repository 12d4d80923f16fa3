"""What writes a node that ONNX Runtime's optimizer fused as the nodes that it was made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from int8tune.compiler.onnx_reader.nodes import Node, written
from int8tune.compiler.onnx_reader.tensors import Array

FLOAT = 1


class NotWrittenError(Exception):
    """A node has something that is not written as others."""


@dataclass(slots=True, eq=False)
class FusedWriter:
    """Writes what a node stands for.

    Attributes:
        constants: the file's, which grow by those of the nodes.
        ranks: the axes of values that the file says.
        opset: the version of ONNX's operators.
    """

    node: Node
    opset: int
    constants: MutableMapping[str, Array]
    ranks: Mapping[str, int]
    nodes: list[Node] = field(default_factory=list)

    def apply(self, computes: str, /, *inputs: str | Array, output: str = "", **attributes: Any) -> str:
        """A node on values by name and constants; the name of its output."""
        name = f"{self.node.outputs[0]}/{len(self.nodes)} {computes}"
        made, taken = output or name, [self._taken(each, f"{name} {at}") for at, each in enumerate(inputs)]
        self.nodes.append(written(name, computes, taken, [made], attributes, self.node.operator))
        return made

    def _taken(self, value: str | Array, name: str) -> str:
        if not isinstance(value, str):
            self.constants[name] = value
            return name
        return value

    def require(self, holds: bool) -> None:
        if not holds:
            raise NotWrittenError

    def attribute(self, name: str, default: Any) -> Any:
        return self.node.attributes.get(name, default)

    def real(self, name: str, default: float) -> float:
        """An attribute that is a finite number."""
        value = self.attribute(name, default)
        self.require(isinstance(value, int | float) and abs(value) < math.inf)
        return float(value)

    def whole(self, name: str, default: int) -> int:
        """An attribute that is a whole number."""
        value = self.attribute(name, default)
        self.require(isinstance(value, int))
        assert isinstance(value, int)
        return value

    def require_only(self, *inputs: int, outputs: tuple[int, ...] = (0,)) -> None:
        """Raise unless the inputs and outputs that are there are among those."""
        for found, allowed in ((self.node.inputs, inputs), (self.node.outputs, outputs)):
            self.require(all(not name or at in allowed for at, name in enumerate(found)))


def number(value: float) -> Array:
    return np.array(value, np.float32)
