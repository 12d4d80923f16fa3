"""Operators that nothing needs: those that compute a shape, where the shape is known before the model runs."""

from __future__ import annotations

from dataclasses import replace

from int8tune.compiler.graph import Graph


def without_unused(graph: Graph) -> Graph:
    """The graph without operators whose values nothing reads, and without these values."""
    needed = set(graph.needed)
    kept = []
    for operator in reversed(graph.operators):
        if needed.intersection(operator.outputs):
            needed.update(operator.inputs)
            kept.append(operator)
    dropped = {name for operator in graph.operators for name in operator.outputs}
    dropped -= {name for operator in kept for name in operator.outputs}
    values = {name: value for name, value in graph.values.items() if name not in dropped}
    return replace(graph, values=values, operators=tuple(reversed(kept)))
