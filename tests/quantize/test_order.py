"""Nodes that are put in an order in which they can run."""

from __future__ import annotations

from typing import Any

import pytest

from int8tune.quantize.order import sort_nodes

onnx = pytest.importorskip("onnx", reason="needs the extra `quantize`")


def node(*inputs: str, makes: str, **graphs: Any) -> Any:
    return onnx.helper.make_node("If" if graphs else "Sum", list(inputs), [makes], name=makes, **graphs)


def order_of(*nodes: Any) -> list[str]:
    graph = onnx.helper.make_graph(nodes, "g", [], [])
    sort_nodes(graph)
    assert [each.output[0] for each in graph.node] == [each.name for each in graph.node]
    return [each.name for each in graph.node]


def test_what_is_in_order_stays() -> None:
    nodes = [node("x", makes=name) for name in "zyw0ba"]
    assert order_of(*nodes, node("a", "z", makes="last")) == [*"zyw0ba", "last"]


def test_nodes_come_behind_what_they_read_in_the_order_in_which_that_was() -> None:
    assert order_of(
        node("c", "b", "x", makes="d"), node("x", makes="a"), node("a", "", makes="c"), node("x", makes="b")
    ) == [*("a", "c", "b", "d")]


def test_graphs_within_nodes_read_what_is_outside() -> None:
    inner = {
        "then_branch": onnx.helper.make_graph(
            [node("seen", makes="own")], "then", [], [onnx.ValueInfoProto(name="own")]
        ),
        "else_branch": onnx.helper.make_graph([], "else", [], [onnx.ValueInfoProto(name="passed")]),
    }
    found = order_of(node("condition", makes="chosen", **inner), node("x", makes="passed"), node("x", makes="seen"))
    assert found[-1] == "chosen"


def test_a_chain_may_be_long() -> None:
    count = 5_000
    nodes = [node(f"n{at - 1}" if at else "x", makes=f"n{at}") for at in range(count)]
    assert order_of(*nodes[::-1]) == [f"n{at}" for at in range(count)]
