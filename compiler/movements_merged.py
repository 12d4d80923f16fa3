"""Reshapes and transpositions behind each other as one, or as none where they undo each other."""

from __future__ import annotations

from dataclasses import replace

from int8tune.compiler.graph import Graph, Kind, Operator, Value
from int8tune.compiler.operators.base import is_same_quantization
from int8tune.compiler.unused import without_unused


def with_movements_merged(graph: Graph) -> Graph:
    """The graph without reshapes and transpositions that other ones behind them take the place of."""
    merger = _Merger(graph)
    operators = tuple(each for operator in graph.operators for each in merger.merged(operator))
    return without_unused(replace(graph, operators=operators))


class _Merger:
    """Goes through operators in their order."""

    def __init__(self, graph: Graph) -> None:
        self._values, self._outputs = graph.values, set(graph.needed)
        self._made_by: dict[str, Operator] = {}
        self._same: dict[str, str] = {}

    def merged(self, operator: Operator) -> tuple[Operator, ...]:
        """The operator on values that are there; none where its output is one of them."""
        operator = replace(operator, inputs=tuple(self._same.get(name, name) for name in operator.inputs))
        if operator.kind is Kind.RESHAPE:
            operator = self._reshape(operator)
        elif operator.kind is Kind.TRANSPOSE:
            operator = self._transpose(operator)
        elif operator.kind is Kind.MATMUL:
            operator = self._product(operator)
        source, made = operator.inputs[0] if operator.inputs else "", operator.outputs[0]
        if self._is_idle(operator) and made not in self._outputs:
            self._same[made] = source
            return ()
        self._made_by[made] = operator
        return (operator,)

    def _reshape(self, operator: Operator) -> Operator:
        before = self._made_by.get(operator.inputs[0])
        is_reshape = before is not None and before.kind is Kind.RESHAPE
        return replace(operator, inputs=before.inputs) if before is not None and is_reshape else operator

    def _transpose(self, operator: Operator) -> Operator:
        before = self._made_by.get(operator.inputs[0])
        if before is None or before.kind is not Kind.TRANSPOSE:
            return operator
        first = before.attributes["permutation"]
        order = tuple(first[axis] for axis in operator.attributes["permutation"])
        return replace(operator, inputs=before.inputs, attributes={"permutation": order})

    def _product(self, operator: Operator) -> Operator:
        """A product that packs its second input from where it lay before it was transposed."""
        first, second = operator.inputs
        before = self._made_by.get(second)
        if before is None or before.kind is not Kind.TRANSPOSE:
            return operator
        moved = before.attributes["permutation"]
        order = tuple(moved[axis] for axis in operator.attributes["order"])
        return replace(operator, inputs=(first, *before.inputs), attributes={**operator.attributes, "order": order})

    def _is_idle(self, operator: Operator) -> bool:
        """Whether it hands its input on."""
        if operator.kind not in (Kind.RESHAPE, Kind.TRANSPOSE):
            return False
        data, made = self._values[operator.inputs[0]], self._values[operator.outputs[0]]
        order = operator.attributes.get("permutation", ())
        return data.shape == made.shape and list(order) == sorted(order) and _stands_for_the_same(data, made)


def _stands_for_the_same(one: Value, other: Value) -> bool:
    if one.quantization is None or other.quantization is None:
        return one.quantization is other.quantization and one.type == other.type
    is_single = not one.quantization.per_channel and not other.quantization.per_channel
    return is_single and is_same_quantization(one, other)
