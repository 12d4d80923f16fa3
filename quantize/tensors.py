"""The float tensors of a graph that depend on its inputs, and which operators make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

INPUT = "input"


@dataclass(frozen=True, slots=True)
class Producer:
    """What makes a tensor.

    Attributes:
        operator: its type, or `input`.
        node: the name of the node, if it has one.
    """

    operator: str
    node: str

    def __str__(self) -> str:
        return f"{self.operator} `{self.node}`" if self.node else self.operator


def float_tensors(proto: Any, session: Any, sources: Callable[[str], str] = str) -> dict[str, Producer]:
    """Each float tensor that a session returns, in the order of the graph, by the name that the file has for it.

    Args:
        sources: the tensor that a session returns in place of one, whose type is the same.
    """
    types = {value.name: value.type for value in (*session.get_inputs(), *session.get_outputs())}
    made = varying_tensors(proto)
    return {name: producer for name, producer in made.items() if types.get(sources(name)) == "tensor(float)"}


def varying_tensors(proto: Any) -> dict[str, Producer]:
    """The inputs, and what nodes make of them, at the top of the graph; no constants, nothing of these alone."""
    constants = {tensor.name for tensor in proto.graph.initializer}
    found = {value.name: Producer(INPUT, "") for value in proto.graph.input if value.name not in constants}
    for node in proto.graph.node:
        if any(name in found for name in node.input) or (node.attribute and _has_graph(node)):
            found.update((name, Producer(node.op_type, node.name)) for name in node.output if name)
    return found


def _has_graph(node: Any) -> bool:
    """Whether a node has branches or a body, which may read any tensor."""
    return any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)


def int_attribute(node: Any, name: str, default: int) -> int:
    """A whole number that a node has as an attribute."""
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == name), default)


def initializer_array(graph: Any, name: str) -> np.ndarray[Any, Any] | None:
    """A constant of a graph, if it is there; the others are not looked at."""
    from onnx import numpy_helper

    found = next((tensor for tensor in graph.initializer if tensor.name == name), None)
    return None if found is None else numpy_helper.to_array(found)


def initializer_arrays(graph: Any) -> dict[str, np.ndarray[Any, Any]]:
    """The constants of a graph by their names."""
    from onnx import numpy_helper

    return {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
