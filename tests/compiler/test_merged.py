"""Operators of one value as one table, and movements that undo each other: what is left of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.graph import Graph, Kind
from int8tune.compiler.interpreter import run_reference
from int8tune.compiler.movements_merged import with_movements_merged
from int8tune.compiler.table_graph import with_tables
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.tflite_models import Writer, values_of

EVERY = np.arange(-128, 128, dtype=np.int8)[None]


def swish(outputs: Sequence[str], number: Any = 3) -> bytes:
    """`(x * sigmoid(x)) + number`, then a RELU; some of `share`, `product`, `sum` and `y` are outputs."""
    writer = Writer()
    data = writer.input("x", "s8", (1, 256), 0.05, 3)
    names = {name: writer.tensor(name, "s8", (1, 256), scale, point) for name, scale, point in VALUES}
    writer.operator("LOGISTIC", [data], [names["share"]], "", 1)
    writer.operator("MUL", [data, names["share"]], [names["product"]], "Mul")
    constant = writer.constant("c", "s8", number, 0.1, 0)
    writer.operator("ADD", [names["product"], constant], [names["sum"]], "Add", fusedActivationFunction=3)
    writer.operator("RELU", [names["sum"]], [names["y"]], "", 2)
    return writer.model(*(names[name] for name in outputs))


VALUES = [("share", 1 / 256, -128), ("product", 0.06, -100), ("sum", 0.07, -90), ("y", 0.07, -90)]


def same_outputs(data: bytes, graph: Graph) -> None:
    ours, theirs = run_reference(graph, {"x": EVERY}), values_of(data, {"x": EVERY})
    for name in graph.outputs:
        np.testing.assert_array_equal(ours[name], theirs[name], name, strict=True)


@pytest.mark.parametrize(
    ("outputs", "layers"),
    [
        (["y"], [("share", "product", "sum", "y")]),
        (["product", "y"], [("share", "product"), ("share", "sum", "y")]),
        (["share", "sum"], [("share",), ("product", "sum")]),
    ],
)
def test_what_is_made_of_one_value_is_a_table(outputs: list[str], layers: list[tuple[str, ...]]) -> None:
    data = swish(outputs)
    graph = with_tables(read_tflite(data, "one"))
    assert [(each.kind, each.inputs) for each in graph.operators] == [(Kind.LOOKUP, ("x",))] * len(layers)
    assert [each.layers for each in graph.operators] == layers
    same_outputs(data, graph)


def test_constants_of_several_numbers_make_no_table() -> None:
    data = swish(["y"], np.arange(256).reshape(1, 256) - 128)
    graph = with_tables(read_tflite(data, "one"))
    kinds = [(each.kind, each.inputs[0]) for each in graph.operators]
    assert kinds == [(Kind.LOOKUP, "x"), (Kind.ADD, "product"), (Kind.LOOKUP, "sum")]
    same_outputs(data, graph)


def moved(*steps: tuple[str, Any], outputs: Sequence[int] = (), scale: float = 0.1) -> Graph:
    """Reshapes and transpositions of a value of shape [2, 3, 4], one behind the other; the last one has a scale."""
    writer = Writer()
    shape: tuple[int, ...] = (2, 3, 4)
    made = [writer.input("x", "s8", shape, 0.1, 0)]
    for index, (word, argument) in enumerate(steps):
        shape = tuple(argument) if word == "RESHAPE" else tuple(shape[axis] for axis in argument)
        own = scale if index == len(steps) - 1 else 0.1
        made.append(writer.tensor(f"v{index}", "s8", shape, own, 0))
        options = {"RESHAPE": "Reshape", "TRANSPOSE": "Transpose"}[word]
        places = [writer.constant(f"p{index}", "s32", argument)] if word == "TRANSPOSE" else []
        writer.operator(word, [made[-2], *places], [made[-1]], options, 1)
    last = writer.tensor("y", "s8", shape, 0.2, 0)
    writer.operator("RELU", [made[-1]], [last], "", 2)
    graph = read_tflite(writer.model(last, *(made[1 + index] for index in outputs)), "one")
    merged, feed = with_movements_merged(graph), np.random.default_rng(0).integers(-128, 128, (2, 3, 4)).astype(np.int8)
    expected, ours = (run_reference(each, {"x": feed}) for each in (graph, merged))
    for name in graph.outputs:
        np.testing.assert_array_equal(ours[name], expected[name], name, strict=True)
    return merged


def test_movements_that_undo_each_other_are_left_out() -> None:
    there, back = ("TRANSPOSE", (0, 2, 1)), ("TRANSPOSE", (0, 2, 1))
    flat, whole = ("RESHAPE", (24,)), ("RESHAPE", (2, 4, 3))
    for steps, kinds in (
        ([there, back], []),
        ([there, flat, whole, back], []),
        ([flat, ("RESHAPE", (2, 3, 4))], []),
        ([flat, ("RESHAPE", (6, 4))], [Kind.RESHAPE]),
        ([there, ("TRANSPOSE", (1, 0, 2))], [Kind.TRANSPOSE]),
        ([flat], [Kind.RESHAPE]),
    ):
        assert [each.kind for each in moved(*steps).operators] == [*kinds, Kind.LOOKUP], steps


def test_what_is_read_elsewhere_or_stands_for_something_else_stays() -> None:
    there, back = ("TRANSPOSE", (0, 2, 1)), ("TRANSPOSE", (0, 2, 1))
    assert [each.kind for each in moved(there, back, outputs=[0]).operators] == [Kind.TRANSPOSE, Kind.LOOKUP]
    assert [each.kind for each in moved(there, back, outputs=[1]).operators] == [Kind.TRANSPOSE, Kind.LOOKUP]
    assert [each.kind for each in moved(there, back, scale=0.3).operators] == [Kind.TRANSPOSE, Kind.LOOKUP]
