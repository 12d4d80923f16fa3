"""Operators of two quantized values, for all 65,536 pairs of bytes and many sets of scales and zero points.

What a model's own runtime computes is what the references and the compiled library give, whichever summand comes first,
alone and in the kernel of a layer. A layer's own output takes every value: it is a convolution that hands on its data.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.file_layout import with_file_layouts
from int8tune.compiler.graph import Graph
from int8tune.compiler.model import read_model
from int8tune.compiler.quantized_layers import quantized_layers
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.operands import Addend
from int8tune.schedules.oracle.reference import add_binary32
from int8tune.schedules.target import Target
from tests.support.models import onnx_models, tflite_models
from tests.support.models.compiled import assert_exact
from tests.support.models.onnx_operators import compared, operator_model
from tests.support.run.probes import host_target
from tests.support.run.thinned import one_in

Array = npt.NDArray[Any]
CHANNELS, EXTENT = 16, 64
ORDERS = {"straight": 1, "reversed": -1}
DTYPES = {"u8": np.uint8, "s8": np.int8}

# Sets of scales and zero points in a model: a few, which show the faults that are known, and all.
FEW, MANY, CHUNK = range(1), range(102), 6
CHUNKS = [
    FEW,
    *(pytest.param(MANY[at : at + CHUNK], marks=pytest.mark.slow) for at in range(0, len(MANY), CHUNK)),
]


@dataclass(frozen=True, slots=True)
class Parameters:
    """Scales and zero points of both summands and of what is made of them."""

    scales: tuple[float, float, float]
    zero_points: tuple[int, int, int]


def drawn(kind: str, seed: int) -> Parameters:
    """Decimal fractions, of which many sums are nearly ties; any numbers; and powers of two, whose sums are ties."""
    rng = np.random.default_rng([seed, 2 + (kind == "s8")])
    match seed % 3:
        case 0:
            scales = rng.integers(5, 60, 3) / 100
        case 1:
            scales = 2.0 ** rng.uniform(-3, 1, 3)
        case _:
            scales = 2.0 ** rng.integers(-3, 1, 3)
    one, other, made = scales.astype(np.float32).tolist()
    points = rng.integers(*RANGES[kind], 3, endpoint=True)
    return Parameters((one, other, made), tuple(points.tolist()))


def every_pair(kind: str, channel_axis: int) -> tuple[Array, Array]:
    """All pairs of stored values, as two images; each channel has every value of the second one."""
    low, high = RANGES[kind]
    one, other = np.divmod(np.arange(65536), 256)
    axes = (EXTENT, EXTENT, CHANNELS)
    images = [np.moveaxis(part.reshape(axes), -1, channel_axis - 1)[None] for part in (one, other)]
    assert high - low == 255
    return images[0] + low, images[1] + low


def in_layers(graph: Graph) -> tuple[int, int]:
    """How many additions have a layer's own output first, and how many have it second; all other sums are alone."""
    owns = [
        layer.addition.inputs.index(layer.operator.outputs[0])
        for layer in quantized_layers(with_file_layouts(graph))
        if layer.addition is not None
    ]
    return owns.count(0), owns.count(1)


# ONNX Runtime.


class OnnxModel(onnx_models.Writer):
    """Sums, products and concatenations of two images of stored values, quantized in many ways."""

    def __init__(self, kind: str) -> None:
        super().__init__([1, CHANNELS, EXTENT, EXTENT], "x0")
        self.kind, self.low = kind, RANGES[kind][0]
        self.outputs, self.values = list[str](), list[str]()
        self.inputs.append(onnx_models.onnx.helper.make_tensor_value_info("x1", onnx_models.FLOAT, None))
        self.inputs[1].CopyFrom(self.inputs[0])
        self.inputs[1].name = "x1"
        for index in range(2):
            self.stored(f"x{index}", f"q{index}", 1.0, self.low)

    def stored(self, value: str, name: str, scale: float, zero_point: int) -> str:
        """Quantize a value; the numbers that its stored values stand for."""
        parameters = [self.constant(f"{name}.s", scale), self.constant(f"{name}.z", zero_point, DTYPES[self.kind])]
        self.values.append(self.node("QuantizeLinear", [value, *parameters], name))
        return self.node("DequantizeLinear", [name, *parameters], f"{name}.d")

    def handed_on(self, index: int, name: str, parameters: Parameters, is_depthwise: bool) -> str:
        """A layer whose stored outputs are those of an input, and stand for other numbers."""
        scale, zero_point = parameters.scales[index], parameters.zero_points[index]
        weight = np.ones(CHANNELS) if is_depthwise else np.eye(CHANNELS)
        shape, groups = (CHANNELS, -1, 1, 1), CHANNELS if is_depthwise else 1
        scales = self.constant(f"{name}.ws", scale)
        stored = self.constant(f"{name}.w", weight.reshape(shape), np.int8), self.constant(f"{name}.wz", 0, np.int8)
        bias = self.constant(f"{name}.b", np.full(CHANNELS, self.low - zero_point), np.int32)
        inputs = [
            f"q{index}.d",
            self.node("DequantizeLinear", [stored[0], scales, stored[1]], f"{name}.wd"),
            self.node("DequantizeLinear", [bias, scales], f"{name}.bd"),
        ]
        return self.stored(self.node("Conv", inputs, f"{name}.c", group=groups), name, scale, zero_point)

    def made(self, operator: str, inputs: Sequence[str], name: str, parameters: Parameters, **attributes: Any) -> None:
        self.stored(
            self.node(operator, inputs, f"{name}.r", **attributes),
            name,
            parameters.scales[2],
            parameters.zero_points[2],
        )
        self.outputs.append(name)

    def add(self, parameters: Parameters, seed: int) -> None:
        """Every operator of one set of parameters, in both orders."""
        for word, order in ORDERS.items():
            name = f"{seed}.{word}"
            layers = [self.handed_on(index, f"{name}.{index}", parameters, (index + seed) % 2 == 0) for index in (1, 0)]
            self.made("Add", layers[::-order], f"{name}.fused", parameters)
        layers = [self.handed_on(index, f"{seed}.{index}", parameters, False) for index in (0, 1)]
        for word, order in ORDERS.items():
            name = f"{seed}.{word}"
            self.made("Add", layers[::order], f"{name}.add", parameters)
            for operator in ("Mul", "Sub", "Div", "Min", "Max", "PRelu"):
                self.made(operator, layers[::order], f"{name}.{operator.lower()}", parameters)
            self.made("Concat", layers[::order], f"{name}.concat", parameters, axis=1)


@pytest.fixture
def fusing_onnxruntime() -> None:
    """Skips where ONNX Runtime adds by another kernel, whose rounding differs."""
    pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")
    cpuinfo = Path("/proc/cpuinfo")
    flags = set(cpuinfo.read_text().split()) if cpuinfo.exists() else set()
    if platform.system() != "Linux" or not flags >= {"avx2", "fma"}:
        pytest.skip("ONNX Runtime fuses multiplications and additions on Linux, x86 with AVX2 and FMA only")


@pytest.mark.usefixtures("fusing_onnxruntime")
@pytest.mark.matrix
@pytest.mark.parametrize("kind", one_in(2, ["u8", "s8"]))
@pytest.mark.parametrize("seeds", CHUNKS, ids=str)
def test_every_pair_is_onnxruntime_s(seeds: range, kind: str, native: Target, tmp_path: Path) -> None:
    model = OnnxModel(kind)
    for seed in seeds:
        model.add(drawn(kind, seed), seed)
    path = tmp_path / "pairs.onnx"
    path.write_bytes(model.model(*model.outputs).SerializeToString())
    feeds = {f"x{i}": (image - model.low).astype(np.float32) for i, image in enumerate(every_pair(kind, 1))}
    # Values that are no outputs may become u8 where they are s8; then their sum is one of numbers.
    theirs = onnx_models.values_of(path.read_bytes(), model.values, feeds)
    graph = read_model(path)
    assert in_layers(graph) == (len(seeds), len(seeds))
    ours = assert_exact(graph, native, feeds, tmp_path)
    for name in model.outputs:
        np.testing.assert_array_equal(ours[name], theirs[name], name, strict=True)
    kept = [len(np.unique(theirs[f"{seed}.straight.fused"])) for seed in seeds]
    assert np.mean(kept) > 64, "too few values to show anything"


def pair_with_an_order(parameters: Parameters) -> tuple[int, int]:
    """Two stored values whose sum depends on which one is first."""
    (one, other, made), points = parameters.scales, parameters.zero_points
    ratio = (np.array([one, other], np.float32) / np.float32(made)).astype(np.float32)
    values = tuple(image.ravel() for image in every_pair("u8", 3))
    sums = []
    for order in ORDERS.values():
        first, second = points[:2][::order]
        addend = Addend(np.empty(0, np.uint8), 0, 255, second, points[2], ratio=ratio[::order])
        sums.append(add_binary32(*values[::order], first, addend).clip(0, 255))
    place = np.flatnonzero(sums[0] != sums[1])[0]
    return int(values[0][place]), int(values[1][place])


SPREADS = [
    ((1, 1), (1, 1)),
    ((1, 2), (1, 2)),
    ((2, 1), (2, 3)),
    ((2, 3), (2, 1)),
    ((3,), (2, 3)),
    ((1,), (2, 3)),
    ((2, 3), (1,)),
    ((3, 1, 1), (2, 3, 1, 1)),
    ((3, 1, 1), (2, 3, 4, 5)),
    ((2, 3, 4, 5), (3, 1, 1)),
    ((1, 1), (2, 1, 1)),
    ((2, 1, 1), (1, 1)),
]


@pytest.mark.usefixtures("fusing_onnxruntime")
@pytest.mark.parametrize("shapes", one_in(5, [(each,) for each in SPREADS]))
@pytest.mark.parametrize("seed", one_in(2, [0, 3]))
@pytest.mark.matrix(at_most=1)
def test_the_order_of_summands_is_onnxruntime_s(seed: int, shapes: Any, tmp_path: Path) -> None:
    """It adds the second one first where a single number is the first one, or is spread over several values."""
    parameters = drawn("u8", seed)
    pair = pair_with_an_order(parameters)
    forms = [
        (shape, scale, point)
        for shape, scale, point in zip(shapes, parameters.scales[:2], parameters.zero_points[:2], strict=True)
    ]
    model = operator_model("Add", forms, (parameters.scales[2], parameters.zero_points[2]))
    feeds = {
        f"x{index}": np.full(shape, (stored - point) * np.float32(scale), np.float32)
        for index, (stored, (shape, scale, point)) in enumerate(zip(pair, forms, strict=True))
    }
    graph, differ = compared(model, feeds)
    assert differ == 0
    assert_exact(graph, host_target(None), feeds, tmp_path)


# LiteRT.


class TfliteModel(tflite_models.Writer):
    """The same by the operators of TFLite."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.low, self.made = kind, RANGES[kind][0], list[int]()
        self.data = [self.input(f"x{index}", kind, (1, EXTENT, EXTENT, CHANNELS), 1.0, self.low) for index in range(2)]

    def handed_on(self, index: int, name: str, parameters: Parameters, is_depthwise: bool) -> int:
        scale, zero_point = parameters.scales[index], parameters.zero_points[index]
        zero = 128 if self.kind == "u8" else 0
        values = np.ones((1, 1, 1, CHANNELS)) if is_depthwise else np.eye(CHANNELS).reshape(CHANNELS, 1, 1, CHANNELS)
        weight = self.constant(f"{name}.w", self.kind, values + zero, scale, zero)
        bias = self.constant(f"{name}.b", "s32", np.full(CHANNELS, self.low - zero_point), scale)
        made = self.tensor(name, self.kind, (1, EXTENT, EXTENT, CHANNELS), scale, zero_point)
        word, options = ("DEPTHWISE_CONV_2D", "DepthwiseConv2D") if is_depthwise else ("CONV_2D", "Conv2D")
        fields = {"depthMultiplier": 1} if is_depthwise else {}
        self.operator(word, [self.data[index], weight, bias], [made], options, strideH=1, strideW=1, **fields)
        return made

    def combined(
        self, word: str, inputs: Sequence[int], name: str, parameters: Parameters, channels: int, **fields: Any
    ) -> None:
        shape, points = (1, EXTENT, EXTENT, channels), parameters.zero_points
        self.made.append(self.tensor(name, self.kind, shape, parameters.scales[2], points[2]))
        self.operator(word, inputs, self.made[-1:], word.title(), **fields)

    def add(self, parameters: Parameters, seed: int) -> None:
        for word, order in ORDERS.items():
            name = f"{seed}.{word}"
            layers = [self.handed_on(index, f"{name}.{index}", parameters, (index + seed) % 2 == 0) for index in (1, 0)]
            self.combined("ADD", layers[::-order], f"{name}.fused", parameters, CHANNELS)
        layers = [self.handed_on(index, f"{seed}.{index}", parameters, False) for index in (0, 1)]
        for word, order in ORDERS.items():
            name = f"{seed}.{word}"
            self.combined("ADD", layers[::order], f"{name}.add", parameters, CHANNELS)
            self.combined("SUB", layers[::order], f"{name}.sub", parameters, CHANNELS)
            self.combined("MUL", layers[::order], f"{name}.mul", parameters, CHANNELS)
            if self.kind == "u8":  # others must have one scale
                self.combined("CONCATENATION", layers[::order], f"{name}.concat", parameters, 2 * CHANNELS, axis=3)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", one_in(2, ["u8", "s8"]))
@pytest.mark.parametrize("seeds", CHUNKS, ids=str)
def test_every_pair_is_litert_s(seeds: range, kind: str, native: Target, tmp_path: Path) -> None:
    model = TfliteModel(kind)
    for seed in seeds:
        model.add(drawn(kind, seed), seed)
    path = tmp_path / "pairs.tflite"
    path.write_bytes(model.model(*model.made))
    feeds = {f"x{i}": image.astype(DTYPES[kind]) for i, image in enumerate(every_pair(kind, 3))}
    theirs = tflite_models.values_of(path.read_bytes(), feeds)
    graph = read_model(path)
    assert sum(in_layers(graph)) == 2 * len(seeds)
    ours = assert_exact(graph, native, feeds, tmp_path)
    for name in graph.outputs:
        np.testing.assert_array_equal(ours[name], theirs[name], name, strict=True)
