"""A file of each operator, compiled and run, gives what its own runtime gives: ONNX Runtime or LiteRT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.compiled_model import CompiledModel
from int8tune.compiler.graph import Graph, Kind
from int8tune.compiler.model import read_model
from int8tune.compiler.operator_kernels.registry import KERNELS
from int8tune.schedules.target import Target
from tests.compiler.test_tflite_operators import LOWEST, values, written
from tests.support.models import onnx_models, tflite_models
from tests.support.models.compiled import compile_once
from tests.support.models.onnx_operators import Form, feeds_of, operator_model
from tests.support.run.thinned import one_in

Array = npt.NDArray[Any]
Model = tuple[bytes, dict[str, Array]]

IMAGE, OTHER = (2, 5, 7, 9), (0.031, 90)
WINDOW = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}
FLOOR = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
SIZES = None, None, ((2, 5, 11, 8), np.int64)


def onnx_file(operator: str, *shapes: Any, output: tuple[float, int] = OTHER, **fields: Any) -> Model:
    """One operator; its inputs have scales of their own, but for operators of one scale."""
    inputs: list[Form] = [(shape, 0.02 + 0.007 * index, 100 + index) for index, shape in enumerate(shapes or [IMAGE])]
    model = operator_model(operator, inputs, output, **fields)
    return model.SerializeToString(), feeds_of(inputs, np.uint8)


NUMBERS = np.linspace(0.3, 2.1, 5).reshape(5, 1, 1)
SAME_SCALE: dict[str, Any] = {"quantized": [(np.full((5, 1, 1), 77), 0.02, 100)], "output": (0.02, 100)}


def constant(*shape: int) -> dict[str, Any]:
    stored = np.random.default_rng(1).integers(0, 256, shape)
    return {"quantized": [(stored, 0.011, 77)]}


def places_file(operator: str) -> Model:
    """Places of values among the channels of an image, which are the model's output."""
    writer = onnx_models.Writer(IMAGE, "x0")
    parameters = [writer.constant("s", 0.02), writer.constant("z", 100, np.uint8)]
    data = writer.node("DequantizeLinear", [writer.node("QuantizeLinear", ["x0", *parameters], "q"), *parameters], "d")
    model = writer.model(writer.node(operator, [data], "y", axis=1, keepdims=0))
    return model.SerializeToString(), feeds_of([(IMAGE, 0.02, 100)], np.uint8)


ONNX: dict[str, tuple[Kind, Callable[[], Model]]] = {
    "Add": (Kind.ADD, lambda: onnx_file("Add", IMAGE, IMAGE)),
    "Add with a constant": (Kind.ADD, lambda: onnx_file("Add", **constant(5, 1, 1))),
    "Add of vectors": (Kind.ADD, lambda: onnx_file("Add", (3, 1), (3, 8))),
    "Add of a number": (Kind.LOOKUP, lambda: onnx_file("Add", (3, 16), **constant())),
    "Sub": (Kind.ELEMENTWISE, lambda: onnx_file("Sub", IMAGE, IMAGE)),
    "Div by numbers of channels": (Kind.ELEMENTWISE, lambda: onnx_file("Div", constants=[(NUMBERS,)])),
    "PRelu": (Kind.ELEMENTWISE, lambda: onnx_file("PRelu", **constant(5, 1, 1))),
    "Min": (Kind.MINIMUM, lambda: onnx_file("Min", IMAGE, **SAME_SCALE)),
    "Max": (Kind.MAXIMUM, lambda: onnx_file("Max", IMAGE, **SAME_SCALE)),
    "Max of two scales": (Kind.ELEMENTWISE, lambda: onnx_file("Max", IMAGE, IMAGE)),
    "AveragePool": (Kind.AVERAGE_POOL, lambda: onnx_file("AveragePool", **WINDOW)),
    "Concat": (Kind.CONCAT, lambda: onnx_file("Concat", IMAGE, (2, 3, 7, 9), axis=1)),
    "Concat with a constant": (Kind.CONCAT, lambda: onnx_file("Concat", IMAGE, axis=1, **constant(2, 4, 7, 9))),
    "Concat of vectors": (Kind.CONCAT, lambda: onnx_file("Concat", (2, 5), axis=1, **constant(2, 4))),
    "MaxPool": (Kind.MAX_POOL, lambda: onnx_file("MaxPool", **WINDOW)),
    "GlobalAveragePool": (Kind.MEAN, lambda: onnx_file("GlobalAveragePool")),
    "ReduceSum": (Kind.SUM, lambda: onnx_file("ReduceSum", constants=[([1], np.int64)], output=(0.07, 90), keepdims=0)),
    "ReduceMax": (Kind.REDUCE_MAX, lambda: onnx_file("ReduceMax", axes=[2, 3], output=(0.02, 100))),
    "ReduceMin": (Kind.REDUCE_MIN, lambda: onnx_file("ReduceMin", axes=[1], keepdims=0)),
    "ArgMax": (Kind.ARG_MAX, lambda: places_file("ArgMax")),
    "ArgMin": (Kind.ARG_MIN, lambda: places_file("ArgMin")),
    "Mul": (Kind.MULTIPLY, lambda: onnx_file("Mul", IMAGE, (2, 5, 1, 1))),
    "Mul by a constant": (Kind.MULTIPLY, lambda: onnx_file("Mul", **constant(5, 1, 1))),
    "Mul by a constant of vectors": (Kind.MULTIPLY, lambda: onnx_file("Mul", (3, 8), **constant(8))),
    "Pad": (Kind.PAD, lambda: onnx_file("Pad", constants=[([0, 1, 1, 2, 0, 0, 2, 0], np.int64)], output=(0.02, 100))),
    "Relu": (Kind.LOOKUP, lambda: onnx_file("HardSwish")),
    "linear Resize": (Kind.RESIZE, lambda: onnx_file("Resize", mode="linear", constants=SIZES)),
    "linear Resize of one scale": (
        Kind.RESIZE,
        lambda: onnx_file("Resize", mode="linear", constants=SIZES, output=(0.02, 100)),
    ),
    "nearest Resize": (
        Kind.RESIZE,
        lambda: onnx_file("Resize", mode="nearest", constants=SIZES, output=(0.02, 100), **FLOOR),
    ),
    "Slice": (
        Kind.SLICE,
        lambda: onnx_file("Slice", constants=[([1], np.int64), ([6], np.int64), ([2], np.int64)], output=(0.02, 100)),
    ),
    "Softmax": (Kind.SOFTMAX, lambda: onnx_file("Softmax", (4, 37), output=(1 / 256, 0))),
    "Gather": (Kind.GATHER, lambda: onnx_file("Gather", constants=[([3, 0, 4], np.int64)], axis=1, output=(0.02, 100))),
    "Pad by reflection": (
        Kind.GATHER,
        lambda: onnx_file("Pad", mode="reflect", constants=[([0, 1, 1, 2, 0, 0, 2, 0], np.int64)], output=(0.02, 100)),
    ),
    "DepthToSpace": (
        Kind.DEPTH_TO_SPACE,
        lambda: onnx_file("DepthToSpace", (2, 12, 3, 5), blocksize=2, mode="CRD", output=(0.02, 100)),
    ),
    "SpaceToDepth": (
        Kind.SPACE_TO_DEPTH,
        lambda: onnx_file("SpaceToDepth", (2, 3, 4, 6), blocksize=2, output=(0.02, 100)),
    ),
    "Transpose": (Kind.TRANSPOSE, lambda: onnx_file("Transpose", perm=[0, 2, 1, 3], output=(0.02, 100))),
}


def tflite_file(word: str, shapes: list[Any], made: Any, output: tuple[float, int], *args: Any, **fields: Any) -> Model:
    kind = fields.pop("kind", "u8")
    low = LOWEST[kind]
    inputs = [(kind, shape, 0.02 + 0.007 * index, low + 100 + index) for index, shape in enumerate(shapes)]
    data = written(word, inputs, (kind, made, output[0], low + output[1]), *args, **fields)
    return data, {f"x{index}": values(kind, shape, index) for index, shape in enumerate(shapes)}


def tflite_places(word: str, options: str) -> Model:
    data = written(word, [("u8", ROWS, 0.02, 100)], ("s32", ROWS[:3]), options, [("s32", [-1])], outputType=2)  # type: ignore[arg-type]
    return data, {"x0": values("u8", ROWS)}


ROWS, SAME, SIZE = (2, 7, 9, 5), (0.02, 100), [("s32", (11, 8))]
POOL = {"padding": 0, "filterHeight": 3, "filterWidth": 2, "strideH": 2, "strideW": 1}
CHANNELS, SAME_CHANNELS = [("u8", np.arange(5) * 50, 0.011, 77)], [("u8", np.arange(5) * 50, 0.02, 100)]
TFLITE: dict[str, tuple[Kind, Callable[[], Model]]] = {
    "ADD": (Kind.ADD, lambda: tflite_file("ADD", [ROWS, ROWS], ROWS, OTHER, "Add")),
    "ADD of a constant": (Kind.ADD, lambda: tflite_file("ADD", [ROWS], ROWS, OTHER, "Add", CHANNELS)),
    "ADD of images of other sizes": (
        Kind.ADD,
        lambda: tflite_file("ADD", [(2, 7, 1, 5), (9, 1)], ROWS, OTHER, "Add", kind="s8", fusedActivationFunction=1),
    ),
    "SUB": (Kind.SUBTRACT, lambda: tflite_file("SUB", [ROWS, ROWS], ROWS, OTHER, "Sub", version=2)),
    "SUB of a constant": (
        Kind.SUBTRACT,
        lambda: tflite_file("SUB", [ROWS], ROWS, OTHER, "Sub", CHANNELS, version=2, fusedActivationFunction=3),
    ),
    "SQUARED_DIFFERENCE": (
        Kind.SQUARED_DIFFERENCE,
        lambda: tflite_file("SQUARED_DIFFERENCE", [ROWS, (7, 1, 5)], ROWS, (0.4, 3), kind="s8", version=2),
    ),
    "PRELU": (Kind.PRELU, lambda: tflite_file("PRELU", [ROWS], ROWS, OTHER, "", CHANNELS)),
    "PRELU of s8": (
        Kind.PRELU,
        lambda: tflite_file("PRELU", [ROWS], ROWS, OTHER, "", [("s8", [[[-128, 5, 127, 0, 9]]], 0.011, 7)], kind="s8"),
    ),
    "DIV by a constant": (
        Kind.DIVIDE,
        lambda: tflite_file("DIV", [ROWS], ROWS, (0.003, 100), "Div", [("u8", np.arange(5) + 90, 0.11, 77)], version=2),
    ),
    "MINIMUM": (
        Kind.MINIMUM,
        lambda: tflite_file("MINIMUM", [ROWS], ROWS, SAME, "MaximumMinimum", SAME_CHANNELS, version=2),
    ),
    "MAXIMUM": (
        Kind.MAXIMUM,
        lambda: tflite_file("MAXIMUM", [ROWS], ROWS, SAME, "MaximumMinimum", SAME_CHANNELS, version=2),
    ),
    "AVERAGE_POOL_2D": (
        Kind.AVERAGE_POOL,
        lambda: tflite_file("AVERAGE_POOL_2D", [ROWS], (2, 4, 9, 5), SAME, "Pool2D", **POOL),
    ),
    "CONCATENATION": (
        Kind.CONCAT,
        lambda: tflite_file("CONCATENATION", [(2, 5), (2, 4)], (2, 9), OTHER, "Concatenation", axis=-1),
    ),
    "CONCATENATION with a constant": (
        Kind.CONCAT,
        lambda: tflite_file(
            "CONCATENATION", [(2, 5)], (2, 8), SAME, "Concatenation", [("u8", np.full((2, 3), 9), 0.02, 100)], axis=-1
        ),
    ),
    "LOGISTIC": (Kind.LOOKUP, lambda: tflite_file("LOGISTIC", [(1, 256)], (1, 256), (1 / 256, 0))),
    "MAX_POOL_2D": (
        Kind.MAX_POOL,
        lambda: tflite_file("MAX_POOL_2D", [ROWS], (2, 4, 9, 5), SAME, "Pool2D", **POOL),
    ),
    "MEAN": (
        Kind.MEAN,
        lambda: tflite_file("MEAN", [ROWS], (2, 5), OTHER, "Reducer", [("s32", [1, 2])], version=2, keepDims=False),
    ),
    "SUM": (
        Kind.SUM,
        lambda: tflite_file("SUM", [ROWS], (2, 5), OTHER, "Reducer", [("s32", [1, 2])], version=2, keepDims=False),
    ),
    "REDUCE_MAX": (
        Kind.REDUCE_MAX,
        lambda: tflite_file("REDUCE_MAX", [ROWS], (2, 5), SAME, "Reducer", [("s32", [1, 2])], version=2),
    ),
    "REDUCE_MIN": (
        Kind.REDUCE_MIN,
        lambda: tflite_file("REDUCE_MIN", [ROWS], (2, 7, 9), SAME, "Reducer", [("s32", [3])], version=2, kind="s8"),
    ),
    "ARG_MAX": (Kind.ARG_MAX, lambda: tflite_places("ARG_MAX", "ArgMax")),
    "ARG_MIN": (Kind.ARG_MIN, lambda: tflite_places("ARG_MIN", "ArgMin")),
    "MUL": (Kind.MULTIPLY, lambda: tflite_file("MUL", [ROWS, ROWS], ROWS, OTHER, "Mul", version=2)),
    "MUL by a constant": (
        Kind.MULTIPLY,
        lambda: tflite_file("MUL", [ROWS], ROWS, OTHER, "Mul", [("u8", np.arange(5) * 50, 0.011, 77)], version=2),
    ),
    "PAD": (
        Kind.PAD,
        lambda: tflite_file("PAD", [(3, 4)], (4, 6), SAME, "Pad", [("s32", [[0, 1], [2, 0]])], version=2),
    ),
    "RESIZE_BILINEAR": (
        Kind.RESIZE,
        lambda: tflite_file("RESIZE_BILINEAR", [ROWS], (2, 11, 8, 5), SAME, "ResizeBilinear", SIZE, version=3),
    ),
    "RESIZE_BILINEAR of s8": (
        Kind.RESIZE,
        lambda: tflite_file(
            "RESIZE_BILINEAR", [ROWS], (2, 11, 8, 5), SAME, "ResizeBilinear", SIZE, version=3, kind="s8"
        ),
    ),
    "SLICE": (
        Kind.SLICE,
        lambda: tflite_file(
            "SLICE", [ROWS], (1, 3, 9, 2), SAME, "Slice", [("s32", [1, 1, 0, 2]), ("s32", [1, 3, -1, 2])], version=2
        ),
    ),
    "SOFTMAX": (
        Kind.SOFTMAX,
        lambda: tflite_file("SOFTMAX", [(4, 37)], (4, 37), (1 / 256, 0), "Softmax", version=2, beta=1.0),
    ),
    "TILE": (Kind.GATHER, lambda: tflite_file("TILE", [(3, 4)], (6, 12), SAME, "Tile", [("s32", [2, 3])])),
    "DEPTH_TO_SPACE": (
        Kind.DEPTH_TO_SPACE,
        lambda: tflite_file("DEPTH_TO_SPACE", [(2, 3, 4, 8)], (2, 6, 8, 2), SAME, "DepthToSpace", blockSize=2),
    ),
    "SPACE_TO_DEPTH": (
        Kind.SPACE_TO_DEPTH,
        lambda: tflite_file("SPACE_TO_DEPTH", [(2, 4, 6, 3)], (2, 2, 3, 12), SAME, "SpaceToDepth", blockSize=2),
    ),
    "BATCH_TO_SPACE_ND": (
        Kind.TRANSPOSE,
        lambda: tflite_file(
            "BATCH_TO_SPACE_ND",
            [(12, 3, 3, 3)],
            (2, 5, 6, 3),
            SAME,
            "BatchToSpaceND",
            [("s32", [2, 3]), ("s32", [[0, 1], [2, 1]])],
        ),
    ),
    "TRANSPOSE": (
        Kind.TRANSPOSE,
        lambda: tflite_file("TRANSPOSE", [ROWS], (2, 5, 7, 9), SAME, "Transpose", [("s32", [0, 3, 1, 2])]),
    ),
}


# ONNX Runtime computes in numbers what LiteRT has an operator on stored values for.
ONLY_TFLITE = {Kind.SUBTRACT, Kind.DIVIDE, Kind.PRELU, Kind.SQUARED_DIFFERENCE}
ONLY_ONNX = {Kind.ELEMENTWISE}
# Of 16 bits, files of which are in tests of their own.
OF_WORDS = {Kind.WORD_BYTE, Kind.WORD_SUMS, Kind.WORD_ARITHMETIC, Kind.REQUANTIZE}


def test_every_kind_has_a_file() -> None:
    """Every ONNX file has QUANTIZE and DEQUANTIZE, too."""
    in_all = {Kind.QUANTIZE, Kind.DEQUANTIZE, *OF_WORDS}
    assert {kind for kind, _ in ONNX.values()} | in_all | ONLY_TFLITE == set(KERNELS)
    assert {kind for kind, _ in TFLITE.values()} | in_all | ONLY_ONNX == set(KERNELS)


@pytest.mark.parametrize("name", one_in(6, ONNX))
@pytest.mark.matrix(at_most=3)
def test_onnx(name: str, native: Target, tmp_path: Path) -> None:
    kind, make = ONNX[name]
    data, feeds = make()
    graph, ours = compiled(tmp_path / "model.onnx", data, feeds, native)
    assert kind in [operator.kind for operator in graph.operators]
    theirs = onnx_models.values_of(data, graph.outputs, feeds)
    assert_same(graph, ours, theirs)


@pytest.mark.parametrize("name", one_in(3, TFLITE))
@pytest.mark.matrix(at_most=5)
def test_tflite(name: str, native: Target, tmp_path: Path) -> None:
    kind, make = TFLITE[name]
    data, feeds = make()
    graph, ours = compiled(tmp_path / "model.tflite", data, feeds, native)
    assert kind in [operator.kind for operator in graph.operators]
    assert_same(graph, ours, tflite_models.values_of(data, feeds))


def compiled(path: Path, data: bytes, feeds: dict[str, Array], target: Target) -> tuple[Graph, list[Array]]:
    """The graph of a file, and the outputs of its library."""
    path.write_bytes(data)
    graph = read_model(path)
    library = path.with_suffix(".so")
    compile_once(graph, target, library)
    return graph, CompiledModel(library).run([feeds[name] for name in graph.inputs])


def assert_same(graph: Graph, ours: list[Array], theirs: dict[str, Array]) -> None:
    for name, array in zip(graph.outputs, ours, strict=True):
        np.testing.assert_array_equal(array, theirs[name], name, strict=True)
