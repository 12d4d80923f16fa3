"""What an island is: nodes of an ONNX file as they are, their constants, and which of their values go in and out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.compiler.graph import Graph, Kind, Operator, Value

Array = npt.NDArray[Any]
ISLAND = "island"
# That of the oldest files that have all types of values which an island may have.
FILE_VERSION = 10


@dataclass(frozen=True, slots=True)
class FloatNode:
    """What is said of a node that is computed in float.

    Attributes:
        operator: what the file calls it, such as `LayerNormalization`.
        layer: its name.
        reason: why no integer kernel computes it.
    """

    operator: str
    layer: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Island:
    """Nodes that are computed in float, in an order in which they can run.

    Attributes:
        nodes: each a serialized NodeProto of ONNX.
        inputs: what the nodes call the values that the graph's operator takes, in its order.
        outputs: the same for what it makes.
        constants: what the nodes read besides, by the names that they have for it.
        opset: the version of ONNX's operators.
        parts: one for each node.
        macs: multiply-adds of its products and convolutions.
        is_alone: it is no part of a larger one: what it makes would be computed again by each that reads it.
    """

    nodes: tuple[bytes, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, Array]
    opset: int
    parts: tuple[FloatNode, ...]
    macs: int = 0
    is_alone: bool = False


def island_of(operator: Operator) -> Island:
    """The island that an operator of kind FLOAT is."""
    found = operator.attributes[ISLAND]
    assert isinstance(found, Island)
    return found


def islands_of(graph: Graph) -> list[Island]:
    """The islands of a graph, in the order in which they run."""
    return [island_of(operator) for operator in graph.operators if operator.kind is Kind.FLOAT]


def exact_operators(graph: Graph) -> int:
    """How many operators integer kernels compute, bit for bit, without transpositions that are not in the file."""
    return sum(bool(each.operator) and each.kind not in (Kind.FLOAT, Kind.OTHER) for each in graph.operators)


def float_operators(graph: Graph) -> dict[str, int]:
    """How many nodes of each operator are computed in float, the most frequent first."""
    counts = Counter(part.operator for island in islands_of(graph) for part in island.parts)
    return dict(counts.most_common())


def entries_read(operator: Operator, value: str) -> int | None:
    """How many entries a constant has of which one of an island's inputs chooses, as a word chooses of a table's rows.

    Args:
        value: the input's name in the graph.

    Returns:
        The least number, where it chooses several times; None where it chooses nothing.
    """
    import onnx

    island, found = island_of(operator), []
    made = {inside for inside, outside in zip(island.inputs, operator.inputs, strict=True) if outside == value}
    for node in map(onnx.NodeProto.FromString, island.nodes):
        table = island.constants.get(node.input[0]) if node.op_type == "Gather" else None
        if table is not None and node.input[1] in made:
            axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
            found.append(int(np.shape(table)[axis]))
        elif made.intersection(node.input):
            made.update(node.output)
    return min(found, default=None)


def onnx_model(operator: Operator, values: Mapping[str, Value]) -> Any:
    """An island as a model of its own, which takes and makes what the operator does."""
    import onnx

    island = island_of(operator)
    graph = onnx.GraphProto(name="island")
    graph.node.extend(onnx.NodeProto.FromString(node) for node in island.nodes)
    for name, array in island.constants.items():
        graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array, order="C"), name))
    for ends, names, outside in (
        (graph.input, island.inputs, operator.inputs),
        (graph.output, island.outputs, operator.outputs),
    ):
        for name, value in zip(names, (values[each] for each in outside), strict=True):
            ends.append(onnx.helper.make_tensor_value_info(name, ELEMENTS[value.type], value.shape))
    domains = {node.domain for node in graph.node} - {"", "ai.onnx"}
    imports = [onnx.helper.make_opsetid("", island.opset), *(onnx.helper.make_opsetid(each, 1) for each in domains)]
    return onnx.helper.make_model(graph, ir_version=FILE_VERSION, opset_imports=imports)


# Numbers of ONNX's types by a graph's.
ELEMENTS = {"f32": 1, "u8": 2, "s8": 3, "u16": 4, "s16": 5, "s32": 6, "s64": 7, "bool": 9, "f16": 10, "f64": 11}
