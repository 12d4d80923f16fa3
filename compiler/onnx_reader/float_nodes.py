"""ONNX nodes that compute numbers element by element, as functions of trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.nodes import Node
from int8tune.compiler.onnx_reader.quantization import Constant
from int8tune.compiler.onnx_reader.trees import Apply, Number, Tree
from int8tune.compiler.operators.base import FloatArray
from int8tune.compiler.operators.elementwise import BINARY, UNARY
from int8tune.compiler.operators.functions import FUNCTIONS, gelu, gelu_tanh


@dataclass(frozen=True, slots=True, eq=False)
class Applied:
    """A node whose inputs are trees; None for one that is left out.

    Attributes:
        own: which inputs nothing else reads.
    """

    file: OnnxFile
    node: Node
    inputs: tuple[Tree | None, ...]
    own: tuple[bool, ...]

    @property
    def operands(self) -> tuple[Tree, ...]:
        return tuple(each for each in self.inputs if each is not None)

    def scalar(self, index: int, name: str, default: float) -> np.float32 | None:
        """A number that is an attribute in old versions and an input in new ones; None where it is no single one."""
        tree = self.inputs[index] if index < len(self.inputs) else None
        if tree is None:
            value = self.node.attributes.get(name, default)
            return np.float32(value) if isinstance(value, int | float) else None
        is_one = isinstance(tree, Number) and tree.constant.array.size == 1
        return np.float32(tree.constant.real.reshape(-1)[0]) if is_one else None  # type: ignore[union-attr]


Made = Apply | None


def binary(name: str, *operands: Tree) -> Made:
    """A function of two trees; None where their shapes don't fit, or it is one that is not taken."""
    if name == "subtract" and operands[0] is operands[1]:
        return None
    try:
        return Apply(name, BINARY[name], operands)
    except ValueError:
        return None


def number(value: Any, name: str) -> Number:
    """A tree for numbers that the file has in another form."""
    return Number(name, Constant(name, np.asarray(value, np.float32)))


def is_number(tree: Tree, value: float) -> bool:
    """Whether a tree is a single number that is not quantized, or nearly so."""
    is_one = isinstance(tree, Number) and tree.constant.array.size == 1 and tree.constant.quantization is None
    return is_one and bool(np.isclose(tree.constant.real.reshape(-1)[0], value, rtol=1e-5, atol=1e-8))  # type: ignore[union-attr]


def _attributes(node: Node, names: Sequence[tuple[str, float]]) -> FloatArray | None:
    """The numbers that a node's attributes are, or their defaults; None where one of a file is no number."""
    values = [node.attributes.get(*each) for each in names]
    return np.array(values, np.float32) if all(isinstance(each, int | float) for each in values) else None


def _binary(name: str) -> Callable[[Applied], Made]:
    return lambda at: binary(name, *at.operands) if len(at.operands) == 2 else None


def _product(at: Applied) -> Made:
    """ONNX Runtime makes a quotient of a reciprocal and a product."""
    if len(at.operands) != 2:
        return None
    for one, other, own in zip(at.operands, at.operands[::-1], at.own, strict=False):
        if own and isinstance(one, Apply) and one.name == "divide" and is_number(one.operands[0], 1):
            return binary("divide", other, one.operands[1])
    return binary("multiply", *at.operands)


def _of_several(name: str) -> Callable[[Applied], Made]:
    def made(at: Applied) -> Made:
        if len(at.operands) < 2:
            return None
        first, *rest = at.operands
        return reduce(lambda one, other: one and binary(name, one, other), rest, first)  # type: ignore[return-value, arg-type]

    return made


def _unary(name: str, *numbers: tuple[str, float]) -> Callable[[Applied], Made]:
    def made(at: Applied) -> Made:
        values = _attributes(at.node, numbers)
        return None if values is None or len(at.operands) != 1 else Apply(name, UNARY[name][1], at.operands, values)

    return made


def _relu(at: Applied) -> Made:
    return binary("maximum", *at.operands, number(0, f"{at.node.name}/zero"))


def _clip(at: Applied) -> Made:
    low, high = at.scalar(1, "min", -np.inf), at.scalar(2, "max", np.inf)
    made: Made = None
    for bound, name in ((low, "maximum"), (high, "minimum")):
        if bound is None or np.isnan(bound):
            return None
        if np.isfinite(bound):
            made = binary(name, made or at.operands[0], number(bound, f"{at.node.name}/{name}"))
    return made


def _power(at: Applied) -> Made:
    """Squares and cubes, which ONNX Runtime multiplies."""
    exponent, base = at.scalar(1, "", np.nan), at.operands[0]
    if exponent not in (2, 3):
        return None
    square = binary("multiply", base, base)
    return square if exponent == 2 or square is None else binary("multiply", square, base)


def _function(at: Applied) -> Made:
    """One whose values only a table has."""
    function, *names = FUNCTIONS[at.node.computes]
    numbers = _attributes(at.node, names)
    if numbers is None or len(at.operands) != 1 or not np.isfinite(numbers).all():
        return None
    return Apply("", function, at.operands, numbers)


def _gelu(at: Applied) -> Made:
    approximate = at.node.attributes.get("approximate", "none")
    function = {"none": gelu, "tanh": gelu_tanh}.get(approximate)
    return Apply("", function, at.operands) if function is not None and len(at.operands) == 1 else None


def _normalization(at: Applied) -> Made:
    """BatchNormalization: a product and a sum with numbers of each channel."""
    if len(at.operands) != 5 or len(at.node.outputs) > 1 or at.node.attributes.get("training_mode"):
        return None
    data, *parameters = at.operands
    if len(data.shape) < 2 or not all(isinstance(each, Number) and len(each.shape) == 1 for each in parameters):
        return None
    scale, bias, mean, variance = (each.constant.real.astype(np.float32) for each in parameters)  # type: ignore[union-attr]
    given = _attributes(at.node, [("epsilon", 1e-5)])
    if given is None:
        return None
    epsilon = given[0]
    with np.errstate(all="ignore"):
        factor = scale * (np.float32(1) / np.sqrt(variance + epsilon))
        offset = bias - mean * factor
    if not (np.isfinite(factor) & np.isfinite(offset)).all():
        return None
    rest = (1,) * (len(data.shape) - 2)
    names = (f"{at.node.name}/factor", f"{at.node.name}/offset")
    made = binary("multiply", data, number(factor.reshape(-1, *rest), names[0]))
    return made and binary("add", made, number(offset.reshape(-1, *rest), names[1]))


NODES: dict[str, Callable[[Applied], Made]] = {
    **dict.fromkeys(FUNCTIONS, _function),
    "Add": _binary("add"),
    "Sub": _binary("subtract"),
    "Mul": _product,
    "Div": _binary("divide"),
    "PRelu": _binary("prelu"),
    "Min": _of_several("minimum"),
    "Max": _of_several("maximum"),
    "Sum": _of_several("add"),
    "Pow": _power,
    "Relu": _relu,
    "Clip": _clip,
    "LeakyRelu": _unary("leaky", ("alpha", 0.01)),
    "Abs": _unary("abs"),
    "Neg": _unary("negate"),
    "Gelu": _gelu,
    "BatchNormalization": _normalization,
}
"""What makes trees of nodes; None where a node is none."""
