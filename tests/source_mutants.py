"""Sources that are wrong on purpose: one edit of a module's syntax tree each.

An edit is what a slip of the pen would be: the other comparison, the other sign, a number one larger, `min` for `max`,
a rounding left out, two arguments exchanged.
"""

from __future__ import annotations

import ast
import copy
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

Edit = Callable[[ast.AST], ast.AST | None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module's source with one edit.

    Attributes:
        place: the function, what an expression is part of, and what it became: `average: total < 0: 0 -> 1`.
        source: of the whole module.
    """

    place: str
    source: str


def mutants_of(source: str, functions: frozenset[str] | None = None) -> list[Mutant]:
    """All mutants of a module, or of these functions in it, in the order of the text; docstrings are left alone."""
    tree = ast.parse(source)
    found = []
    for name, index, node in _nodes(tree):
        if functions is not None and name not in functions:
            continue
        for variant in _variants(node):
            whole = copy.deepcopy(tree)
            # Both trees are walked in one order, so a node is known by its number.
            old = next(each for _, at, each in _nodes(whole) if at == index)
            _replace(whole, old, variant)
            place = f"{name}: {_shown(tree, node)}: {ast.unparse(node)} -> {ast.unparse(variant)}"
            found.append(Mutant(place, ast.unparse(ast.fix_missing_locations(whole))))
    return found


def _nodes(tree: ast.Module) -> Iterator[tuple[str, int, ast.expr]]:
    """Expressions inside of functions, each with the outermost function's name and a number."""
    number = 0
    for function in tree.body:
        if isinstance(function, ast.FunctionDef | ast.ClassDef):
            for statement in function.body:
                for node in ast.walk(statement):
                    number += 1
                    if isinstance(node, ast.expr) and not _is_left_alone(node, statement):
                        yield function.name, number, node


def _shown(tree: ast.Module, node: ast.expr) -> str:
    """The least that an expression is part of, or itself where that is a statement of many lines."""
    parent = next(each for each in ast.walk(tree) if any(node is child for child in ast.iter_child_nodes(each)))
    text = ast.unparse(parent)
    return text if isinstance(parent, ast.expr) and "\n" not in text else ast.unparse(node)


def _is_left_alone(node: ast.expr, statement: ast.stmt) -> bool:
    """Whether an expression is part of a type, which nothing computes, or says that `zip` is to check its lengths."""
    for each in ast.walk(statement):
        if isinstance(each, ast.keyword) and each.arg == "strict" and each.value is node:
            return True
        kept = [getattr(each, "annotation", None), getattr(each, "returns", None)]
        if any(part is not None and any(node is inner for inner in ast.walk(part)) for part in kept):
            return True
    return False


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


def _replace(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, field, new)
                return
            if isinstance(value, list):
                for index, each in enumerate(value):
                    if each is old:
                        value[index] = new
                        return
