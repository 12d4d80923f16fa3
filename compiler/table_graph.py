"""Operators that make something of one 8-bit value, element by element, as one table of 256 each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from int8tune.compiler.graph import Graph, Kind, Operator, Value
from int8tune.compiler.operators import FAMILIES
from int8tune.compiler.operators.base import BYTES, Array, every_stored
from int8tune.compiler.unused import without_unused
from int8tune.schedules.operands import DTYPES

ELEMENT_BY_ELEMENT = (
    Kind.LOOKUP,
    Kind.ADD,
    Kind.SUBTRACT,
    Kind.MULTIPLY,
    Kind.DIVIDE,
    Kind.MINIMUM,
    Kind.MAXIMUM,
    Kind.SQUARED_DIFFERENCE,
    Kind.PRELU,
    Kind.ELEMENTWISE,
)


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """A value that is a function of another one.

    Attributes:
        of: the name of the other one.
        operators: that compute it from there, the last one behind the others.
    """

    of: str
    entries: Array
    operators: tuple[Operator, ...]


@np.errstate(all="ignore")  # scales of a file may be anything
def with_tables(graph: Graph) -> Graph:
    """The graph with a LOOKUP for each value that is a function of one 8-bit value; what nothing needs is left out.

    An entry is what the operators' references make of it.
    """
    tables: dict[str, _Table] = {}
    for operator in graph.operators:
        found = _table_of(operator, graph.values, tables) if operator.kind in ELEMENT_BY_ELEMENT else None
        if found is not None:
            tables[operator.outputs[0]] = found
    folded = {name: table for name, table in tables.items() if len(table.operators) > 1 or _is_folded(table)}
    operators = tuple(_lookup(each, folded.get(each.outputs[0])) for each in graph.operators)
    made = without_unused(replace(graph, operators=operators))
    kept = {each.outputs[0] for each in made.operators}
    return replace(made, operators=tuple(_named(each, folded.get(each.outputs[0]), kept) for each in made.operators))


def _is_folded(table: _Table) -> bool:
    return table.operators[-1].kind is not Kind.LOOKUP


def _table_of(operator: Operator, values: Mapping[str, Value], tables: Mapping[str, _Table]) -> _Table | None:
    output = values[operator.outputs[0]]
    computed = dict.fromkeys(name for name in operator.inputs if values[name].constant is None)
    numbers = [values[name].constant for name in operator.inputs if name not in computed]
    roots = {tables[name].of if name in tables else name for name in computed}
    if len(roots) != 1 or any(number is None or number.size != 1 for number in numbers):
        return None
    (root,) = roots
    if values[root].shape != output.shape or values[root].type not in BYTES:
        return None
    every = every_stored(values[root]).astype(DTYPES[values[root].type])
    taken, arrays = [], []
    for name in operator.inputs:
        value, constant = values[name], values[name].constant
        entries = constant.reshape(1) if constant is not None else tables[name].entries if name in tables else every
        taken.append(replace(value, shape=entries.shape))
        arrays.append(entries)
    made = FAMILIES[operator.kind].reference(operator, taken, replace(output, shape=every.shape), arrays)
    before = dict.fromkeys(each for name in computed if name in tables for each in tables[name].operators)
    return _Table(root, np.ascontiguousarray(made), (*before, operator))


def _lookup(operator: Operator, table: _Table | None) -> Operator:
    if table is None:
        return operator
    attributes = {"table": table.entries}
    return replace(operator, kind=Kind.LOOKUP, inputs=(table.of,), clamp=None, attributes=attributes)


def _named(operator: Operator, table: _Table | None, kept: set[str]) -> Operator:
    """The operator, called by what it computes: also by those that are left out."""
    if table is None:
        return operator
    gone = [each for each in table.operators[:-1] if each.outputs[0] not in kept]
    return replace(operator, layers=tuple(name for each in (*gone, operator) for name in each.layers))
