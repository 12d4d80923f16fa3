"""Quantized ONNX models of drawn operators, one behind the other, whose types, scales and zero points are drawn.

Other models of tests are as one tool or another writes them: of one type, with zero points that fit. These are not, as
files that someone made by hand or by several tools.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.models.onnx_models import Writer

IMAGE = (1, 8, 8, 8)
OPSET = 14
MOST_CHANNELS, MOST_PIXELS = 32, 16
TYPES = (np.int8, np.uint8)
# Types and zero points: all of one type, without zero points, of any, each of its own.
HABITS = ("one", "symmetric", "any", "mixed")
# Behind which a Relu or a Clip is drawn.
BEFORE_BOUNDS = ("Conv", "depthwise", "Add", "Mul", "constant Add", "constant Mul", "Sub", "AveragePool", "Concat")


@dataclass(frozen=True, slots=True)
class Numbers:
    """A value that has been dequantized, of four axes."""

    name: str
    shape: tuple[int, int, int, int]


class DrawnGraph(Writer):
    """A chain of operators, each of which may take any value before it.

    Attributes:
        values: what the next operator may take, the last one behind the others.
    """

    def __init__(self, seed: int, steps: int) -> None:
        super().__init__(IMAGE)
        self.rng = np.random.default_rng(seed)
        self._count = 0
        self._habit = str(self.rng.choice(HABITS))
        self._type = TYPES[self.rng.integers(2)]
        self.values = [Numbers(self.stored("x"), IMAGE)]
        while steps:
            steps -= self._step(str(self.rng.choice(list(OPERATORS))))

    def file(self) -> bytes:
        return bytes(self.model(self.values[-1].name, opset=OPSET).SerializeToString())

    def named(self, values: Any, dtype: Any = np.float32) -> str:
        """A constant."""
        self._count += 1
        return self.constant(f"c{self._count}", values, dtype)

    def apply(self, operator: str, *inputs: str, **attributes: Any) -> str:
        self._count += 1
        return self.node(operator, inputs, f"v{self._count}", **attributes)

    def stored(self, name: str, scale: float | None = None) -> str:
        """A value behind QuantizeLinear and DequantizeLinear, of a scale that makes ties more often than others do."""
        dtype = TYPES[self.rng.integers(2)] if self._habit == "mixed" else self._type
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        points = {"symmetric": [0], "one": [low], "any": [int(self.rng.integers(low, high + 1))]}
        points["mixed"] = [low, (low + high + 1) // 2, *points["any"]]
        scales = (0.05, 0.1, 0.025, 2.0 ** -int(self.rng.integers(2, 7)), self.rng.uniform(0.01, 0.1))
        steps = self.named(scale or self.rng.choice(scales))
        inputs = steps, self.named(self.rng.choice(points[self._habit]), dtype)
        return self.apply("DequantizeLinear", self.apply("QuantizeLinear", name, *inputs), *inputs)

    def any_of(self, value: Numbers) -> str:
        """Another value of that shape, or the same."""
        return str(self.rng.choice([each.name for each in self.values if each.shape == value.shape]))

    def dequantized(self, values: Any, scale: Any, dtype: Any) -> str:
        """A quantized constant, of a scale for each of the first axis, or of one."""
        axis = {"axis": 0} if np.ndim(scale) else {}
        stored, steps = self.named(values, dtype), self.named(scale)
        return self.apply("DequantizeLinear", stored, steps, self.named(np.zeros_like(scale), dtype), **axis)

    def _step(self, operator: str) -> bool:
        """Draw an operator's input and write it; False where it takes no such input."""
        value = self.values[-1] if self.rng.random() < 0.6 else self.values[self.rng.integers(len(self.values))]
        made = OPERATORS[operator](self, value)
        if made is None:
            return False
        if operator in BEFORE_BOUNDS and self.rng.random() < 0.3:
            bounds = [self.named(0.0), self.named(6.0)]
            made = self.apply("Relu", made) if self.rng.random() < 0.6 else self.apply("Clip", made, *bounds)
        self.values.append(Numbers(self.stored(made), self._shape(made)))
        return True

    def _shape(self, name: str) -> tuple[int, int, int, int]:
        (info,) = (each for each in self.model(name, opset=OPSET).graph.output if each.name == name)
        one, channels, height, width = (dim.dim_value for dim in info.type.tensor_type.shape.dim)
        return one, channels, height, width


Make = Callable[[DrawnGraph, Numbers], str | None]


def _convolution(is_depthwise: bool) -> Make:
    def make(g: DrawnGraph, value: Numbers) -> str:
        channels, size = value.shape[1], int(g.rng.choice([1, 3]))
        made = channels if is_depthwise else int(g.rng.choice([8, 16]))
        shape = (made, 1 if is_depthwise else channels, size, size)
        scales = g.rng.uniform(0.002, 0.02, made).astype(np.float32)
        inputs = [value.name, g.dequantized(g.rng.integers(-127, 128, shape), scales, np.int8)]
        if g.rng.random() < 0.6:
            inputs.append(g.named(g.rng.normal(size=made)))
        window = {"pads": [size // 2] * 4, "strides": [int(g.rng.choice([1, 1, 2]))] * 2}
        return g.apply("Conv", *inputs, group=channels if is_depthwise else 1, **window)

    return make


def _applied(operator: str, **attributes: Any) -> Make:
    return lambda g, value: g.apply(operator, value.name, **attributes)


def _pair(operator: str) -> Make:
    return lambda g, value: g.apply(operator, value.name, g.any_of(value))


def _constant_pair(operator: str) -> Make:
    def make(g: DrawnGraph, value: Numbers) -> str:
        shape = (value.shape[1], 1, 1) if g.rng.random() < 0.7 else ()
        constant = g.dequantized(g.rng.integers(0, 100, shape), np.float32(0.05), TYPES[g.rng.integers(2)])
        return g.apply(operator, *g.rng.permutation([value.name, constant]))

    return make


def _gated(g: DrawnGraph, value: Numbers) -> str:
    """A SiLU, with a QuantizeLinear between its nodes or without."""
    gate = g.apply("Sigmoid", value.name)
    return g.apply("Mul", value.name, g.stored(gate, 1 / 255) if g.rng.random() < 0.6 else gate)


def _excited(g: DrawnGraph, value: Numbers) -> str:
    """Squeeze and excitation."""
    mean = g.stored(g.apply("GlobalAveragePool", value.name))
    gate = g.apply(str(g.rng.choice(["Sigmoid", "HardSigmoid"])), mean)
    return g.apply("Mul", value.name, g.stored(gate, 1 / 255))


def _gelu(g: DrawnGraph, value: Numbers) -> str:
    share = g.apply("Erf", g.apply("Div", value.name, g.named(np.sqrt(2))))
    doubled = g.apply("Mul", value.name, g.apply("Add", share, g.named(1.0)))
    return g.apply("Mul", doubled, g.named(0.5))


def _pooled(operator: str, **window: Any) -> Make:
    return lambda g, value: g.apply(operator, value.name, **window) if min(value.shape[2:]) >= 4 else None


def _joined(g: DrawnGraph, value: Numbers) -> str | None:
    others = [each for each in g.values if each.shape[2:] == value.shape[2:]]
    other = others[g.rng.integers(len(others))]
    fits = value.shape[1] + other.shape[1] <= MOST_CHANNELS
    return g.apply("Concat", value.name, other.name, axis=1) if fits else None


def _part(g: DrawnGraph, value: Numbers) -> str | None:
    channels = value.shape[1]
    bounds = [g.named([bound], np.int64) for bound in (1, channels - 1, 1)]
    return g.apply("Slice", value.name, *bounds) if channels > 2 else None


def _resized(g: DrawnGraph, value: Numbers) -> str | None:
    mode = str(g.rng.choice(["nearest", "linear"]))
    attributes = {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    inputs = [value.name, "", g.named([1, 1, 2, 2])]
    return g.apply("Resize", *inputs, **attributes) if max(value.shape[2:]) < MOST_PIXELS else None


def _padded(g: DrawnGraph, value: Numbers) -> str:
    modes = ["constant", "reflect", "edge"] if min(value.shape[2:]) > 2 else ["constant"]
    return g.apply("Pad", value.name, g.named([0, 0, 1, 1, 0, 0, 1, 1], np.int64), mode=str(g.rng.choice(modes)))


def _spread(g: DrawnGraph, value: Numbers) -> str | None:
    fits = value.shape[1] % 4 == 0 and max(value.shape[2:]) < MOST_PIXELS
    return g.apply("DepthToSpace", value.name, blocksize=2) if fits else None


OPERATORS: Mapping[str, Make] = {
    "Conv": _convolution(is_depthwise=False),
    "depthwise": _convolution(is_depthwise=True),
    **{word: _pair(word) for word in ("Add", "Mul", "Sub", "Max", "Min")},
    **{f"constant {word}": _constant_pair(word) for word in ("Add", "Mul")},
    **{word: _applied(word) for word in ("Relu", "Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "GlobalAveragePool")},
    "SiLU": _gated,
    "GELU": _gelu,
    "squeeze and excitation": _excited,
    "MaxPool": _pooled("MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
    "AveragePool": _pooled("AveragePool", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1),
    "Softmax": _applied("Softmax", axis=1),
    "Softmax of rows": _applied("Softmax", axis=-1),
    "Transpose": _applied("Transpose", perm=[0, 1, 3, 2]),
    "Concat": _joined,
    "Slice": _part,
    "Resize": _resized,
    "Pad": _padded,
    "DepthToSpace": _spread,
}
