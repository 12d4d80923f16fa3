"""Numbers that others have written down for quantized operators, held against what a file with one operator gives.

They are those of the tests of TensorFlow Lite Micro (github.com/tensorflow/tflite-micro, Apache License 2.0,
tensorflow/lite/micro/kernels/*_test.cc). Numbers are quantized as there; nothing may differ by more than it allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.interpreter import run_reference
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.tflite_models import DTYPES, Writer

pytest.importorskip("tflite", reason="needs the extra `models`")

RELU, RELU_N1_TO_1, RELU6 = 1, 2, 3
SAME, VALID = 0, 1


@dataclass(frozen=True, slots=True)
class Tensor:
    """Numbers of a tensor, and how they are stored; without a scale they are its stored values."""

    values: Sequence[float]
    shape: tuple[int, ...]
    scale: float
    zero_point: int = 0
    element: str = "s8"

    @property
    def stored(self) -> Any:
        limits = np.iinfo(DTYPES[self.element])
        steps = np.round(np.asarray(self.values, np.float64) / self.scale) + self.zero_point
        return np.clip(steps, limits.min, limits.max).astype(DTYPES[self.element]).reshape(self.shape)


def steps(values: Sequence[int], shape: tuple[int, ...], scale: float = 0.25, zero_point: int = 0) -> Tensor:
    """A tensor whose stored values are known."""
    return Tensor([(value - zero_point) * scale for value in values], shape, scale, zero_point)


@dataclass(frozen=True, slots=True)
class Vector:
    """An operator on inputs and constants, what it makes, and by how many steps that may differ.

    Attributes:
        options: the class of its options in the schema, without its end.
    """

    word: str
    inputs: tuple[Tensor, ...]
    output: Tensor
    options: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    constants: tuple[Tensor, ...] = ()
    tolerance: int = 0
    is_shape_first: bool = False

    def file(self) -> bytes:
        w = Writer()
        taken = [w.input(f"x{at}", *_form(each)) for at, each in enumerate(self.inputs)]
        for at, each in enumerate(self.constants):
            taken.append(w.constant(f"c{at}", each.element, each.stored, each.scale, each.zero_point))
        if self.is_shape_first:
            taken = [w.constant("shape", "s32", self.output.shape), *reversed(taken)]
        made = w.tensor("y", *_form(self.output))
        w.operator(self.word, taken, [made], self.options, **self.fields)
        return w.model(made)


def _form(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.element, tensor.shape, tensor.scale, tensor.zero_point


ONCE = {"strideH": 1, "strideW": 1}
TWICE = {"strideH": 2, "strideW": 2}
WINDOW = {"filterHeight": 2, "filterWidth": 2}
POOLED, POOL = (1, 2, 4, 1), (1, 1, 2, 1)
ROW = [1, 2, 3, 4, 5]
SHARES = [0.011656231, 0.031684921, 0.086128544, 0.234121657, 0.636408647]
LOGISTIC = [0.73105858, 0.88079708, 0.95257413, 0.98201379, 0.99330715]
UNITS = [1, 2, 3, 4, 5, 6, 7, 8, -9, -10, 1, 2, 3, 4, 5, 6, 7, -8, 9, -10]
FIRST, SECOND = [-2.01, -1.01, -0.01, 0.98], [1.01, 1.99, 2.99, 4.02]


def pool(word: str, values: Sequence[int], made: Sequence[int], scale: float, **fields: Any) -> Vector:
    shape = POOLED if fields.get("strideH") == 1 else POOL
    inputs = (steps(values, POOLED, scale),)
    return Vector(f"{word}_POOL_2D", inputs, steps(made, shape, scale), "Pool2D", {**WINDOW, **fields})


def convolution(activation: int, made: Sequence[float]) -> Vector:
    inputs = (Tensor([1, 1, 1, 1, 2, 2, 2, 2, 1, 2, 3, 4, 1, 2, 3, 4], (2, 2, 4, 1), 0.5),)
    weight = Tensor([1, 2, 3, 4, -1, 1, -1, 1, -1, -1, 1, 1], (3, 2, 2, 1), 0.5)
    constants = weight, Tensor([1, 2, 3], (3,), 0.25, element="s32")
    fields = {**TWICE, "padding": VALID, "fusedActivationFunction": activation}
    return Vector("CONV_2D", inputs, Tensor(made, (2, 1, 2, 3), 1.0), "Conv2D", fields, constants)


def depthwise() -> Vector:
    inputs = (Tensor([1, 2, 7, 8, 3, 4, 9, 10, 5, 6, 11, 12], (1, 3, 2, 2), 0.5),)
    values = [1, 2, 3, 4, -9, 10, -11, 12, 5, 6, 7, 8, 13, -14, 15, -16]
    constants = Tensor(values, (1, 2, 2, 4), 0.5), Tensor([1, 2, 3, 4], (4,), 0.25, element="s32")
    output = Tensor([71, -34, 99, -20, 91, -26, 127, -4], (1, 2, 1, 4), 1.0)
    fields = {**ONCE, "padding": VALID, "depthMultiplier": 2}
    return Vector("DEPTHWISE_CONV_2D", inputs, output, "DepthwiseConv2D", fields, constants)


def dense(rows: Sequence[int], bias: Sequence[int], made: Sequence[int], activation: int = 0) -> Vector:
    """A dense layer: each row of its weights is 1 to 10, all with the sign of that row."""
    inputs = (Tensor(UNITS, (2, 10), 1.0, -1),)
    weight = Tensor([sign * value for sign in rows for value in range(1, 11)], (3, 10), 1.0)
    constants, output = (weight, Tensor(bias, (3,), 1.0, element="s32")), Tensor(made, (2, 3), 0.5, -1)
    fields = {"fusedActivationFunction": activation}
    return Vector("FULLY_CONNECTED", inputs, output, "FullyConnected", fields, constants)


def transposed() -> Vector:
    values = [184, 412, 568, 528, 678, 1347, 1689, 1434, 1494, 2715, 3057, 2442, 1968, 3352, 3652, 2760]
    inputs = (Tensor(range(1, 33), (1, 4, 4, 2), 1.0, -128),)
    constants, output = (Tensor(range(1, 19), (1, 3, 3, 2), 1.0),), Tensor(values, (1, 4, 4, 1), 20.0, -128)
    fields = {**ONCE, "padding": SAME}
    return Vector("TRANSPOSE_CONV", inputs, output, "TransposeConv", fields, constants, 1, is_shape_first=True)


def added(activation: int, made: Sequence[float]) -> Vector:
    shape = (1, 2, 2, 1)
    inputs = Tensor(FIRST, shape, 0.25, -10), Tensor(SECOND, shape, 0.5, 4)
    return Vector("ADD", inputs, Tensor(made, shape, 1.0, 13), "Add", {"fusedActivationFunction": activation})


def multiplied(activation: int, made: Sequence[float]) -> Vector:
    shape = (1, 2, 2, 1)
    inputs = Tensor([-0.8, 0.2, 0.9, 0.7], shape, 0.01), Tensor([0.6, 0.4, 0.9, 0.8], shape, 0.01)
    return Vector("MUL", inputs, Tensor(made, shape, 0.01), "Mul", {"fusedActivationFunction": activation})


def softmax(values: Sequence[float], made: Sequence[float], shape: tuple[int, ...]) -> Vector:
    inputs, output = (Tensor(values, shape, 0.1),), Tensor(made, shape, 1 / 256, -128)
    return Vector("SOFTMAX", inputs, output, "Softmax", {"beta": 1.0})


def logistic(values: Sequence[float], made: Sequence[float]) -> Vector:
    scale, shape = (0.1, (2, 5)) if max(values) < 10 else (1.0, (1, 10))
    return Vector("LOGISTIC", (Tensor(values, shape, scale),), Tensor(made, shape, 1 / 256, -128), tolerance=1)


AVERAGED, FALLING = [12, -24, 32, 16, 12, 8, 40, 28], [-value for value in ROW]
VECTORS: dict[str, Vector] = {
    "average pool": pool("AVERAGE", AVERAGED, [2, 29], 0.25, **TWICE, padding=VALID),
    "average pool, RELU6": pool("AVERAGE", AVERAGED, [2, 24], 0.25, **TWICE, padding=VALID, fusedActivationFunction=3),
    "average pool, SAME": pool("AVERAGE", AVERAGED, [2, 14, 29, 22, 10, 24, 34, 28], 0.25, **ONCE, padding=SAME),
    "max pool": pool("MAX", [0, 6, 2, 4, 3, 2, 10, 7], [6, 10], 1.0, **TWICE, padding=VALID),
    "max pool, RELU": pool(
        "MAX", [-3, -12, 4, 8, -6, -4, 20, 14], [0, 20], 0.5, **TWICE, padding=VALID, fusedActivationFunction=RELU
    ),
    "max pool, RELU_N1_TO_1": pool(
        "MAX", [-2, -6, -2, -4, -3, -2, 10, 7], [-1, 1], 1.0, **TWICE, padding=VALID, fusedActivationFunction=2
    ),
    "max pool, RELU6": pool(
        "MAX", [0, -6, 12, 4, -3, -2, 10, 7], [0, 6], 1.0, **TWICE, padding=VALID, fusedActivationFunction=RELU6
    ),
    "convolution": convolution(0, [18, 2, 5, 18, 2, 5, 17, 4, 3, 37, 4, 3]),
    "depthwise": depthwise(),
    "dense": dense((1, 1, 1), (1, 2, 3), (24, 25, 26, 58, 59, 60)),
    "dense, RELU": dense((1, -1, 1), (1, -2, 3), (24, 0, 26, 58, 0, 60), RELU),
    "transposed convolution": transposed(),
    "add": added(0, [-1, 1, 3, 5]),
    "add, RELU_N1_TO_1": added(RELU_N1_TO_1, [-1, 1, 1, 1]),
    "mul": multiplied(0, [-0.48, 0.08, 0.81, 0.56]),
    "mul, RELU": multiplied(RELU, [0, 0.08, 0.81, 0.56]),
    "softmax of a row": softmax(ROW, SHARES, (1, 5)),
    "softmax of two rows": softmax([*ROW, *FALLING], [*SHARES, *reversed(SHARES)], (2, 5)),
    "logistic": logistic([*ROW, *FALLING], [*LOGISTIC, *(1 - value for value in LOGISTIC)]),
    "logistic of a wide range": logistic(
        [1, 2, 3, 4, 93, -1, -2, -3, -4, -93],
        [*LOGISTIC[:4], 1, *(1 - value for value in LOGISTIC[:4]), 0],
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_values_are_those_that_others_wrote_down(name: str) -> None:
    vector = VECTORS[name]
    graph = read_tflite(vector.file(), "one")
    ours = run_reference(graph, {f"x{at}": each.stored for at, each in enumerate(vector.inputs)})["y"]
    difference = np.abs(ours.astype(np.int64) - vector.output.stored)
    assert ours.shape == vector.output.shape
    assert difference.max() <= vector.tolerance, (ours.tolist(), vector.output.stored.tolist())
