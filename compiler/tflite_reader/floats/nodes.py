"""Writes the ONNX nodes that compute one operator of a TFLite file."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from int8tune.compiler.graph import Value
from int8tune.compiler.islands.island import ELEMENTS
from int8tune.compiler.operators.base import BYTES, Array, scale_of
from int8tune.compiler.tflite_reader.steps import Step, integers

# The version of ONNX's operators that the nodes have.
OPSET = 18
STORED = (*BYTES, "s16")
# Of what is known before the model runs, which TVM computes while it compiles.
MOST_KNOWN_VALUES = 1 << 22


class UnsupportedOperatorError(Exception):
    """An operator that can't be computed in float: why, in one line."""


class Nodes:
    """ONNX nodes of one operator; its inputs are numbers: stored values are dequantized, if it does not move them only.

    Values of 8 bits become numbers outside, by exact kernels; those of 16 bits by nodes.

    Attributes:
        step: the operator.
        outputs: the values that it makes.
        is_raw: it takes and makes stored values as they are.
        nodes: in an order in which they can run.
        constants: what they read besides inputs, by their names for it.
        taken: places of the operator's inputs that they read, by their names for them.
        is_finished: what they make is stored already.
    """

    def __init__(self, step: Step, outputs: Sequence[Value], is_raw: bool) -> None:
        self.step, self.outputs, self.is_raw = step, tuple(outputs), is_raw
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        self.taken: dict[str, int] = {}
        self.is_finished = False
        self._count = 0

    # What the operator has.

    def __len__(self) -> int:
        return len(self.step.inputs)

    def value(self, index: int) -> Value:
        return self.step.inputs[index]

    def shape(self, index: int) -> tuple[int, ...]:
        return self.step.inputs[index].shape

    def options(self, kind: str) -> Any:
        return self.step.options(f"{kind}Options")

    def integers(self, index: int, what: str) -> list[int]:
        """An input of integers that must be constant."""
        found = integers(self.step.inputs[index]) if index < len(self) else None
        if found is None:
            raise UnsupportedOperatorError(f"its {what} must be constant")
        return found

    def axis(self, axis: int, rank: int) -> int:
        """An axis, counted from the first one."""
        if not -rank <= axis < rank:
            raise UnsupportedOperatorError(f"its axis must be one of {rank}: {axis}")
        return axis % rank

    def require_types(self, *types: str) -> None:
        """Raise where the first input, as a number, has none of the types."""
        value = self.step.inputs[0]
        found = "f32" if self.is_stored(value) else value.type
        if found not in types:
            raise UnsupportedOperatorError(f"its values must be {' or '.join(types)}: {found}")

    def require_known(self, shape: Sequence[int]) -> None:
        """Raise where so many values are too many to be constants of a library."""
        if math.prod(shape) > MOST_KNOWN_VALUES:
            raise UnsupportedOperatorError(f"it must have at most {MOST_KNOWN_VALUES:,} values: {list(shape)}")

    def require(self, holds: bool, why: str) -> None:
        if not holds:
            raise UnsupportedOperatorError(why)

    # What is written.

    def input(self, index: int) -> str:
        """The nodes' name of an input."""
        value = self.step.inputs[index]
        if value.constant is not None:
            return self.constant(self.numbers(index))
        name = self.as_it_is(index)
        if value.type != "s16" or not self.is_stored(value):
            return name
        return self.apply("Mul", self.apply("Cast", name, to=ELEMENTS["f32"]), self.number(scale_of(value)))

    def as_it_is(self, index: int) -> str:
        """The nodes' name of an input that is no constant, of 16 bits as it is stored."""
        name = f"x{index}"
        self.taken[name] = index
        return name

    def as_stored(self, name: str, value: Value) -> str:
        """Numbers in 16 bits, where an output has them: halves away from zero."""
        if value.type != "s16" or not self.is_stored(value):
            return name
        steps = self.apply("Div", name, self.number(scale_of(value)))
        whole = self.clipped(half_away(self, steps, np.float32), -(2.0**15), 2.0**15 - 1)
        return self.in_16_bits(whole)

    def in_16_bits(self, name: str) -> str:
        """Whole numbers within their range, by way of 64 bits: to others TVM's importer casts in a dozen operations."""
        return self.apply("Cast", self.apply("Cast", name, to=ELEMENTS["s64"]), to=ELEMENTS["s16"])

    def inputs(self) -> list[str]:
        return [self.input(index) for index in range(len(self))]

    def numbers(self, index: int) -> Array:
        """What a constant stands for."""
        value = self.step.inputs[index]
        if value.constant is None:
            raise UnsupportedOperatorError("its weights must be constant")
        if value.quantization is None or not self.is_stored(value):
            return value.constant
        return value.quantization.numbers(value.constant)

    def bias(self, index: int) -> list[str]:
        """An input of sums, if it is there: stored ones as the numbers that they stand for."""
        if index >= len(self):
            return []
        value = self.step.inputs[index]
        if value.type != "s32" or value.constant is None or value.quantization is None:
            return [self.input(index)]
        return [self.constant(value.quantization.numbers(value.constant))]

    def biased(self, sums: str, index: int = 2) -> str:
        """Sums with their bias, if there is one."""
        for bias in self.bias(index):
            sums = self.apply("Add", sums, bias)
        return sums

    def constant(self, values: Any, dtype: type[np.generic] | None = None) -> str:
        """A constant of the type that the values have, or of another."""
        name = self._name("c")
        self.constants[name] = np.asarray(values, dtype)
        return name

    def number(self, value: float | np.float32) -> str:
        return self.constant(value, np.float32)

    def places(self, values: Sequence[int]) -> str:
        """Integers such as a shape."""
        return self.constant(list(values), np.int64)

    def apply(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """A node; the name of its first output, that of the second one has `.1` behind it."""
        import onnx

        name = self._name("n")
        names = [name, *(f"{name}.{index}" for index in range(1, outputs))]
        self.nodes.append(onnx.helper.make_node(operator, list(inputs), names, **attributes))
        return name

    def like(self, name: str, index: int = 0) -> str:
        """A value in the type of an output."""
        element = self.element(self.outputs[index])
        return self.apply("Cast", name, to=ELEMENTS[element])

    def shaped(self, name: str, shape: Sequence[int]) -> str:
        return self.apply("Reshape", name, self.places(shape))

    def transposed(self, name: str, order: Sequence[int]) -> str:
        return self.apply("Transpose", name, perm=list(order))

    def clipped(self, name: str, low: float, high: float) -> str:
        return self.apply("Clip", name, self.number(low), self.number(high))

    def chosen(self, condition: str, one: str, other: str) -> str:
        """One of two values of the output's type."""
        if not self.is_raw or self.outputs[0].type != "s16":
            return self.apply("Where", condition, one, other)
        # ONNX Runtime chooses among values of 32 bits, not of 16.
        wide = (self.apply("Cast", name, to=ELEMENTS["s32"]) for name in (one, other))
        return self.like(self.apply("Where", condition, *wide))

    def activated(self, name: str, activation: int) -> str:
        """A value behind a fused activation; LiteRT leaves out TANH, but for recurrent operators."""
        match activation:
            case 0:
                return name
            case 1:
                return self.apply("Relu", name)
            case 2:
                return self.clipped(name, -1.0, 1.0)
            case 3:
                return self.clipped(name, 0.0, 6.0)
        raise UnsupportedOperatorError(f"fused activation {activation} is not supported")

    def element(self, value: Value) -> str:
        """The type that the nodes take or make a value of the operator in."""
        return "f32" if self.is_stored(value) and value.type in BYTES else value.type

    def is_stored(self, value: Value) -> bool:
        """Whether a value is stored in steps, and read as numbers."""
        return not self.is_raw and value.type in STORED and value.quantization is not None

    def _name(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"


def half_away(at: Nodes, name: str, dtype: type[np.generic]) -> str:
    """Rounded to integers, halves away from zero; with 0.5 itself, the number before it would be rounded to 1."""
    nearly = at.constant(np.nextafter(dtype(0.5), dtype(0)), dtype)
    whole = at.apply("Floor", at.apply("Add", at.apply("Abs", name), nearly))
    return at.apply("Mul", whole, at.apply("Sign", name))


Reader = Callable[[Nodes], str | Sequence[str]]
