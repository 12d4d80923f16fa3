"""Nodes of ONNX models, and an order in which they can run."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from int8tune.compiler.errors import ModelError
from int8tune.results.text import clipped, printable

MICROSOFT = "com.microsoft"
# Whose first output may be left out.
RECURRENT = ("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM")
MAX_NAMES_OF_A_CYCLE = 4
# From this on the axes of a ReduceSum are an input.
OPSET_OF_SUM_AXES = 13


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One node.

    Attributes:
        name: the node's, or that of its first output.
        operator: what it is in the file, such as `QLinearConv`.
        computes: the float operator, such as `Conv`.
        inputs, outputs: names of values; empty where an optional one is left out.
        proto: what shape inference reads: the node with the operator that it computes.
    """

    name: str
    operator: str
    computes: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    proto: Any = None

    def input(self, index: int) -> str:
        """The name of an input; empty where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else ""


def written(
    name: str,
    computes: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    attributes: Mapping[str, Any] | None = None,
    operator: str = "",
) -> Node:
    """A node that a file doesn't have, without the names of inputs that are left out at the end.

    Args:
        operator: of the node that it is written for, where messages say that.
    """
    import onnx

    behind = max((index + 1 for index, each in enumerate(inputs) if each), default=0)
    inputs, attributes = tuple(inputs[:behind]), attributes or {}
    proto = onnx.helper.make_node(computes, inputs, outputs, name=name)
    # Not as words of the call: a file's attributes may have any name. What has no values has no type.
    known = [(key, value) for key, value in attributes.items() if value is not None and value != ()]
    proto.attribute.extend(onnx.helper.make_attribute(key, value) for key, value in known)
    return Node(name, operator or computes, computes, inputs, tuple(outputs), attributes, proto)


def renamed(node: Node, inputs: Sequence[str], outputs: Sequence[str] | None = None) -> Node:
    """The node with other names of what it takes, and of what it makes where these are given."""
    outputs = node.outputs if outputs is None else outputs
    proto = type(node.proto).FromString(node.proto.SerializeToString())
    # One that is written for another may have fewer.
    proto.input[:], proto.output[:] = inputs[: len(proto.input)], outputs[: len(proto.output)]
    return replace(node, inputs=tuple(inputs), outputs=tuple(outputs), proto=proto)


def is_of_microsoft(node: Node, words: Container[str]) -> bool:
    """Whether a node is one of ONNX Runtime's own operators."""
    return node.operator in words and node.proto is not None and node.proto.domain == MICROSOFT


def quoted(name: str) -> str:
    return f"`{clipped(name)}`"


def model_fault(model: str, what: str) -> ModelError:
    """A fault in one line, whatever names are in it."""
    return ModelError(printable(f"{model}: {what}"))


class UnsupportedNodeError(Exception):
    """A node is right, and no kernel computes it; the message says why. Whoever reads the model goes on without it."""


def node_fault(model: str, node: Node, what: str) -> ModelError:
    return model_fault(model, f"node {quoted(node.name)} ({clipped(node.operator)}): {what}")


def in_order(nodes: Sequence[Node], known: Iterable[str], outputs: Sequence[str], model: str) -> tuple[Node, ...]:
    """The nodes, each behind those that make what it reads; as they are where that is so already.

    Raises:
        ModelError: a value is made twice, or never, or needs itself.
    """
    known = set(known)
    made_by = _makers(nodes, known, model)
    for node in nodes:
        for name in node.inputs:
            if name and name not in made_by and name not in known:
                raise node_fault(model, node, f"it reads {quoted(name)}, which nothing makes")
    for name in outputs:
        if name not in made_by and name not in known:
            raise model_fault(model, f"the model's output {quoted(name)} is made by no node")
    if len(set(outputs)) < len(outputs):
        raise model_fault(model, "two outputs of the model have one name")
    return tuple(nodes[index] for index in _sorted(nodes, made_by, model))


def _makers(nodes: Sequence[Node], known: set[str], model: str) -> dict[str, int]:
    made_by: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.outputs):
            if name in made_by or name in known:
                raise node_fault(model, node, f"it makes {quoted(name)}, which something else makes, too")
            made_by[name] = index
    return made_by


def _sorted(nodes: Sequence[Node], made_by: Mapping[str, int], model: str) -> list[int]:
    """A depth-first search without recursion: a node is `open` while what it reads is put in order."""
    order: list[int] = []
    finished, open_ = set[int](), set[int]()
    for start in range(len(nodes)):
        path = [start]
        while path:
            index = path[-1]
            if index in finished or index in open_:
                path.pop()
                if index not in finished:
                    finished.add(index)
                    order.append(index)
                continue
            open_.add(index)
            for name in reversed(nodes[index].inputs):
                maker = made_by.get(name)
                if maker is None or maker in finished:
                    continue
                if maker in open_:
                    raise _cycle(nodes, [at for at in path if at in open_ and at not in finished], maker, model)
                path.append(maker)
    return order


def _cycle(nodes: Sequence[Node], path: list[int], first: int, model: str) -> ModelError:
    names = [quoted(nodes[index].name) for index in path[path.index(first) :]]
    shown = [*names[:MAX_NAMES_OF_A_CYCLE], *(["..."] if len(names) > MAX_NAMES_OF_A_CYCLE else []), names[0]]
    return node_fault(model, nodes[first], f"it needs its own output: {' -> '.join(shown)}")
