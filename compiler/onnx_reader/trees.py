"""Expressions of numbers: 8-bit values that stand for them, constants, and functions of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from int8tune.compiler.onnx_reader.quantization import Constant
from int8tune.compiler.operators.base import FloatArray

NONE = np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """What a DequantizeLinear makes of an 8-bit value; `name` is of its output."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A constant, stored values where it is quantized, and a name that no other has."""

    name: str
    constant: Constant

    @property
    def shape(self) -> tuple[int, ...]:
        return self.constant.array.shape


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """A function of other trees.

    Attributes:
        name: of the function in `compiler.operators.elementwise`; empty where only a table has its values.
        function: of arrays of binary32, whose numbers come behind the operands.
        numbers: of the function.
        leaves: names of the values that it is a function of.
        is_single: all its constants are single numbers.
    """

    name: str
    function: Callable[..., Any]
    operands: tuple[Tree, ...]
    numbers: FloatArray = field(default_factory=lambda: NONE)
    shape: tuple[int, ...] = field(init=False)
    count: int = field(init=False)
    leaves: frozenset[str] = field(init=False)
    is_single: bool = field(init=False)

    def __post_init__(self) -> None:
        """Say what follows from the operands.

        Raises:
            ValueError: their shapes don't fit each other.
        """
        applied = [each for each in self.operands if isinstance(each, Apply)]
        names = {each.name for each in self.operands if isinstance(each, Leaf)}
        single = (each.constant.array.size == 1 for each in self.operands if isinstance(each, Number))
        derived = {
            "shape": np.broadcast_shapes(*(each.shape for each in self.operands)),
            "count": 1 + sum(each.count for each in applied),
            "leaves": frozenset(names.union(*(each.leaves for each in applied))),
            "is_single": all(single) and all(each.is_single for each in applied),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @property
    def is_table(self) -> bool:
        """Whether it is a function of one stored value."""
        return self.is_single and len(self.leaves) == 1

    @property
    def is_computable(self) -> bool:
        """Whether tables and named functions compute it."""
        if self.is_table:
            return True
        return bool(self.name) and all(each.is_computable for each in self.operands if isinstance(each, Apply))

    def value(self, leaf: FloatArray) -> FloatArray:
        """What it makes of numbers, one after the other, that the only leaf is."""
        taken = [_value(each, leaf) for each in self.operands]
        made: FloatArray = np.asarray(self.function(*taken, *self.numbers), np.float32)
        return made


Tree = Leaf | Number | Apply


def _value(tree: Tree, leaf: FloatArray) -> Any:
    if isinstance(tree, Leaf):
        return leaf
    return tree.constant.real.reshape(-1).astype(np.float32) if isinstance(tree, Number) else tree.value(leaf)
