"""Nodes that take quantized values and make one, and what they are in a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from int8tune.compiler.graph import Kind, Value
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.nodes import Node
from int8tune.compiler.onnx_reader.quantization import Constant


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a node is.

    Attributes:
        inputs: how many of the node's inputs the operator takes; others are constants that its attributes say.
        taken: the shape that its data has for the operator; None for its own.
        made: the shape that the operator makes, before it becomes the output's; None for that of the output.
    """

    kind: Kind
    attributes: Mapping[str, Any]
    inputs: int = 1
    taken: tuple[int, ...] | None = None
    made: tuple[int, ...] | None = None


# What a reader gives instead: why a node has no kind.
Reason = str


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One output of a node that takes quantized values and makes one.

    Attributes:
        inputs: of the node; None for what is not quantized, or left out.
        output: as it is stored.
        index: of the output among the node's.
        constants: what is known, by every name.
        is_raw: the node takes and makes stored values themselves, no scale is between them in the file.
    """

    file: OnnxFile
    node: Node
    inputs: tuple[Value | None, ...]
    output: Value
    index: int
    constants: Mapping[str, Constant]
    is_raw: bool = False

    @property
    def data(self) -> Value:
        assert self.inputs[0] is not None
        return self.inputs[0]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    def number(self, name: str, default: float) -> float:
        value = self.node.attributes.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def integers(self, index: int, name: str) -> tuple[int, ...] | None:
        """A list of integers that is an attribute in old versions and an input in new ones; None where it is absent."""
        if name in self.node.attributes:
            value = self.node.attributes[name]
            return value if isinstance(value, tuple) else None
        constant = self.constants.get(self.node.input(index))
        if constant is None or constant.array.dtype.kind != "i":
            return None
        return tuple(int(each) for each in constant.array.reshape(-1))

    def is_computed(self, index: int) -> bool:
        """Whether an input is there, and not known before the model runs."""
        return bool(self.node.input(index)) and self.node.input(index) not in self.constants
