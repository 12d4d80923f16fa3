"""Expressions as operators of a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from int8tune.compiler.graph import Kind, Value
from int8tune.compiler.onnx_reader.quantization import Constant
from int8tune.compiler.onnx_reader.trees import NONE, Apply, Leaf, Number, Tree
from int8tune.compiler.onnx_reader.values import GraphValues
from int8tune.compiler.operators.base import dequantized, every_stored, is_same_quantization
from int8tune.compiler.operators.elementwise import TABLE, Operation
from int8tune.compiler.operators.float_tables import mapped

EXTREMA = {"minimum": Kind.MINIMUM, "maximum": Kind.MAXIMUM}


def expression_operator(tree: Apply, values: GraphValues, made: str) -> tuple[Kind, dict[str, Any], list[str]]:
    """Kind, attributes and inputs of the operator that makes a value."""
    output = values.by_name[made]
    if tree.is_table:
        (name,) = tree.leaves
        data = _leaf(values, name)
        if data.shape == tree.shape:
            return Kind.LOOKUP, {"table": mapped(data, output, tree.value)}, [data.name]
    if tree.name in EXTREMA and all(not isinstance(each, Apply) for each in tree.operands):
        inputs = [values.operand(each.name) for each in tree.operands]
        if all(value is not None and is_same_quantization(value, output) for value in inputs):
            return EXTREMA[tree.name], {}, [value.name for value in inputs if value is not None]
    writer = _Writer(tree, values)
    return Kind.ELEMENTWISE, {"operations": tuple(writer.operations)}, [value.name for value in writer.inputs]


class _Writer:
    """Operations of a tree, each once."""

    def __init__(self, tree: Apply, values: GraphValues) -> None:
        self._values = values
        ends = dict.fromkeys(_ends(tree))
        self.inputs = [self._value(end) for end in ends]
        self._places: dict[Tree, int] = {end: index for index, end in enumerate(ends)}
        self.operations: list[Operation] = []
        self._place(tree)

    def _value(self, end: Leaf | Number) -> Value:
        if isinstance(end, Leaf):
            return _leaf(self._values, end.name)
        constant = Constant(end.name, end.constant.real.astype(np.float32))
        return self._values.by_name[self._values.constant(constant, "numbers")]

    def _place(self, tree: Tree) -> int:
        """Where an operation finds what a tree makes."""
        if tree not in self._places:
            assert isinstance(tree, Apply)
            if _has_table(tree):
                (name,) = tree.leaves
                (leaf,) = {each for each in _leaves(tree) if each.name == name}
                data = _leaf(self._values, name)
                entries = np.broadcast_to(tree.value(dequantized(every_stored(data), data)), 256)
                operation = Operation(TABLE, (self._places[leaf],), np.ascontiguousarray(entries))
            else:
                operands = tuple(self._place(each) for each in tree.operands)
                operation = Operation(tree.name, operands, tree.numbers if tree.numbers.size else NONE)
            self.operations.append(operation)
            self._places[tree] = len(self.inputs) + len(self.operations) - 1
        return self._places[tree]


def _ends(tree: Apply) -> Iterator[Leaf | Number]:
    """Inputs of the operations of a tree."""
    if _has_table(tree):
        yield from _leaves(tree)
        return
    for each in tree.operands:
        if isinstance(each, Apply):
            yield from _ends(each)
        else:
            yield each


def _leaves(tree: Apply) -> Iterator[Leaf]:
    for each in tree.operands:
        if isinstance(each, Apply):
            yield from _leaves(each)
        elif isinstance(each, Leaf):
            yield each


def _has_table(tree: Apply) -> bool:
    """Whether a function of one value is computed by a table."""
    return tree.is_table and not _is_named(tree)


def _is_named(tree: Apply) -> bool:
    return bool(tree.name) and all(_is_named(each) for each in tree.operands if isinstance(each, Apply))


def _leaf(values: GraphValues, name: str) -> Value:
    found = values.operand(name)
    assert found is not None
    return found
