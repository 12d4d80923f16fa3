"""Sources that are wrong on purpose: one edit of a module's syntax tree each.

An edit is what a slip of the pen would be: the other comparison, the other sign, a number one larger, `min` for `max`,
a rounding left out, two arguments exchanged.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.RShift: ast.LShift,
    ast.LShift: ast.RShift,
    ast.Mod: ast.Add,
}
NAMES = {"min": "max", "max": "min", "trunc": "nearbyint", "floor": "trunc", "any": "all", "all": "any"}
# Calls whose first argument may stand in their place.
LEFT_OUT = frozenset(
    {"rounded_alone", "bounded", "nearest_even", "nearest_away", "abs", "stored", "sorted", "reversed"}
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module's source with one edit.

    Attributes:
        place: the function, what an expression is part of, and what it became: `average: total < 0: 0 -> 1`.
        make: writes the whole module's source; that takes longer than all else.
    """

    place: str
    make: Callable[[], str]

    @property
    def source(self) -> str:
        return self.make()


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where a node stands in a tree: a field of its parent, or an element of a list there."""

    parent: ast.AST
    field: str
    index: int | None

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def mutants_of(source: str, functions: frozenset[str] | None = None) -> list[Mutant]:
    """All mutants of a module, or of these functions in it, in the order of the text; docstrings are left alone."""
    tree = ast.parse(source)
    slots = {id(child): slot for child, slot in _slots(tree)}
    found = []
    for name, node in _nodes(tree):
        if functions is None or name in functions:
            slot = slots[id(node)]
            for variant in _variants(node):
                place = f"{name}: {_shown(slot, node)}: {ast.unparse(node)} -> {ast.unparse(variant)}"
                found.append(Mutant(place, functools.partial(_edited, tree, slot, node, variant)))
    return found


def _edited(tree: ast.Module, slot: _Slot, node: ast.expr, variant: ast.expr) -> str:
    slot.put(variant)
    try:
        return ast.unparse(tree)
    finally:
        slot.put(node)


def _slots(tree: ast.Module) -> Iterator[tuple[ast.AST, _Slot]]:
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if isinstance(value, ast.expr):
                yield value, _Slot(parent, field, None)
            elif isinstance(value, list):
                for index, each in enumerate(value):
                    if isinstance(each, ast.expr):
                        yield each, _Slot(parent, field, index)


def _nodes(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Expressions inside of functions, each with the outermost function's name."""
    for function in tree.body:
        if isinstance(function, ast.FunctionDef | ast.ClassDef):
            for statement in function.body:
                left_alone = _left_alone(statement)
                for node in ast.walk(statement):
                    if isinstance(node, ast.expr) and id(node) not in left_alone:
                        yield function.name, node


def _shown(slot: _Slot, node: ast.expr) -> str:
    """The least that an expression is part of, or itself where that is a statement of many lines."""
    text = ast.unparse(slot.parent)
    return text if isinstance(slot.parent, ast.expr) and "\n" not in text else ast.unparse(node)


def _left_alone(statement: ast.stmt) -> frozenset[int]:
    """Expressions that are part of a type, which nothing computes, or say that `zip` is to check its lengths, by id."""
    found: set[int] = set()
    for each in ast.walk(statement):
        if isinstance(each, ast.keyword) and each.arg == "strict":
            found.add(id(each.value))
        for part in (getattr(each, "annotation", None), getattr(each, "returns", None)):
            if part is not None:
                found |= {id(inner) for inner in ast.walk(part)}
    return frozenset(found)


def _variants(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(left, [operator], [right]) if type(operator) in COMPARISONS:
            yield ast.Compare(left, [COMPARISONS[type(operator)]()], [right])
        case ast.BinOp(left, operator, right) if type(operator) in OPERATORS:
            yield ast.BinOp(left, OPERATORS[type(operator)](), right)
        case ast.UnaryOp(ast.USub() | ast.Not(), operand):
            yield operand
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.IfExp(test, body, otherwise):
            yield ast.IfExp(test, otherwise, body)
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.Call():
            yield from _calls(node)


def _calls(node: ast.Call) -> Iterator[ast.expr]:
    match node.func:
        case ast.Attribute(owner, name, context) if name in NAMES:
            yield ast.Call(ast.Attribute(owner, NAMES[name], context), node.args, node.keywords)
        case ast.Name(name, context) if name in NAMES:
            yield ast.Call(ast.Name(NAMES[name], context), node.args, node.keywords)
        case ast.Name(name) if name in LEFT_OUT and node.args:
            yield node.args[0]
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("Select", "if_then_else"):
        condition, *branches = node.args
        yield ast.Call(node.func, [condition, *reversed(branches)], node.keywords)
