"""GELUs in the parts that frameworks write them in, which ONNX Runtime computes as one function."""

from __future__ import annotations

import numpy as np

from int8tune.compiler.onnx_reader.float_nodes import is_number
from int8tune.compiler.onnx_reader.trees import Apply, Tree
from int8tune.compiler.operators.functions import FUNCTIONS, gelu

ROOT = float(np.sqrt(2))
ERF = FUNCTIONS["Erf"][0]


def with_gelu(tree: Apply) -> Apply:
    """The tree with `x * (1 + erf(x / sqrt(2))) * 0.5` as one function of x, wherever it is."""
    return _with_gelu(tree, {})


def _with_gelu(tree: Apply, known: dict[Apply, Apply]) -> Apply:
    if tree not in known:
        operands = tuple(_with_gelu(each, known) if isinstance(each, Apply) else each for each in tree.operands)
        made = Apply(tree.name, tree.function, operands, tree.numbers)
        data = _gelu_of(made)
        known[tree] = made if data is None else Apply("", gelu, (data,))
    return known[tree]


def _gelu_of(tree: Apply) -> Tree | None:
    """What a tree is the GELU of; None if it is none."""
    factors = _factors(tree)
    if factors is None or len(factors) != 3:
        return None
    halves = [each for each in factors if is_number(each, 0.5)]
    shares = [each for each in factors if _data_of_share(each) is not None]
    if len(halves) != 1 or len(shares) != 1:
        return None
    (data,) = (each for each in factors if each is not halves[0] and each is not shares[0])
    return data if _data_of_share(shares[0]) is data else None


def _factors(tree: Apply) -> list[Tree] | None:
    """Three factors of two products."""
    if tree.name != "multiply":
        return None
    for one, other in (tree.operands, tree.operands[::-1]):
        if isinstance(one, Apply) and one.name == "multiply":
            return [*one.operands, other]
    return None


def _data_of_share(tree: Tree) -> Tree | None:
    """The x of `1 + erf(x / sqrt(2))`."""
    if not isinstance(tree, Apply) or tree.name != "add":
        return None
    for one, other in (tree.operands, tree.operands[::-1]):
        if is_number(other, 1) and isinstance(one, Apply) and one.function is ERF:
            (inner,) = one.operands
            if isinstance(inner, Apply) and inner.name == "divide" and is_number(inner.operands[1], ROOT):
                return inner.operands[0]
    return None
