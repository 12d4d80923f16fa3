"""Nodes in an order in which they can run, which ONNX demands of a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def sort_nodes(graph: Any) -> None:
    """Move each node behind all that it reads; what is in order stays as it is. A graph has no circle."""
    makers = {label: at for at, node in enumerate(graph.node) for label in node.output if label}
    behind = [sorted({makers[label] for label in _read(node) if label in makers}) for node in graph.node]
    order: dict[int, None] = {}
    for last in range(len(behind)):
        waiting = [last]
        while waiting:
            before = [at for at in behind[waiting[-1]] if at not in order]
            if before:
                waiting += reversed(before)
            else:
                order[waiting.pop()] = None
    nodes = [graph.node[at] for at in order]
    del graph.node[:]
    graph.node.extend(nodes)


def _read(node: Any) -> Iterator[str]:
    """What a node reads, also within its graphs."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else ())):
            for inner in graph.node:
                yield from _read(inner)
            yield from (info.name for info in graph.output)
