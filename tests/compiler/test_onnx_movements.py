"""ONNX operators that move values, and images that are resized; and files of operators that are damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Kind
from int8tune.compiler.interpreter import run_reference
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.compiler.test_onnx_operators import TYPES, exact
from tests.support.models.onnx_models import Writer, quantized, quantized_layer, values_of
from tests.support.models.onnx_operators import Form, as_graph, compared, feeds_of, operator_model

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")

MUTANTS = 400


@TYPES
def test_what_only_moves(dtype: Any) -> None:
    for output in ((0.02, 100), (0.03, 7)):
        for shape, made in (
            ((2, 3, 4, 5), (2, 60)),
            ((2, 3, 4, 5), (6, 20)),
            ((2, 3, 4, 5), (2, 5, 4, 3)),
            ((2, 12, 5), (2, 3, 4, 5)),
            ((2, 8, 1, 1), (2, 8)),
            ((1, 1, 6, 7), (6, 7)),
        ):
            exact("Reshape", shape, output, dtype, constants=[(made, np.int64)])
        for order in ((0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2), (1, 0, 2, 3), (3, 2, 1, 0)):
            exact("Transpose", (2, 3, 4, 5), output, dtype, perm=order)
        exact("Transpose", (3, 4, 5), output, dtype)
        exact("Flatten", (2, 3, 4, 5), output, dtype)
        exact("Squeeze", (2, 8, 1, 1), output, dtype, constants=[([2, 3], np.int64)])
        exact("Unsqueeze", (2, 8), output, dtype, constants=[([2, 3], np.int64)])
        for value in ((), (0.5,), (-0.7,)):
            filling = [tuple(value)] if value else []
            constants = [([0, 1, 1, 2, 0, 0, 2, 0], np.int64), *filling]
            assert exact("Pad", (1, 3, 4, 5), output, dtype, constants=constants).attributes["padding"] == (
                (0, 0),
                (1, 2),
                (2, 0),
                (1, 0),
            )
        places = [([1, -5], np.int64), ([5, 100], np.int64), ([1, 3], np.int64), ([2, 1], np.int64)]
        sliced = exact("Slice", (2, 6, 9, 7), output, dtype, constants=places)
        assert sliced.attributes == {"begin": (0, 0, 2, 1), "end": (2, 9, 7, 5), "strides": (1, 1, 1, 2)}


PLACES: list[tuple[str, tuple[int, ...], list[Any], dict[str, Any]]] = [
    *[("Gather", (2, 3, 4, 5), [each], {"axis": 1}) for each in ([2, 0, -1], 1, [[1, 0], [2, 2]])],
    *[("Gather", (2, 3, 4, 5), [1], {"axis": axis}) for axis in (0, 2, -1)],
    ("Gather", (7,), [[3, 3]], {}),
    *[("Expand", (3, 1), [each], {}) for each in ((3, 4), (2, 3, 4), (2, 1, 3, 1, 1))],
    ("Expand", (2, 1, 4, 1), [(2, 3, 4, 5)], {}),
    ("Tile", (2, 3, 4, 5), [(1, 2, 1, 3)], {}),
    ("Tile", (3,), [(4,)], {}),
    *[("DepthToSpace", (2, 12, 3, 5), [], {"blocksize": 2, "mode": mode}) for mode in ("DCR", "CRD")],
    ("SpaceToDepth", (2, 3, 4, 6), [], {"blocksize": 2}),
    *[("Pad", (2, 3, 4, 5), [[0, 1, 1, 2, 0, 1, 2, 0]], {"mode": mode}) for mode in ("reflect", "edge", "wrap")],
    *[("Pad", (3, 4, 5), [[0, 1, -1, 2, 0, 2]], {"mode": mode}) for mode in ("reflect", "edge")],
    ("Slice", (2, 3, 4, 5), [[3, -1], [0, -100], [2, 1], [-1, -2]], {}),
    ("Slice", (9,), [[-2], [1], [0], [-3]], {}),
]


@TYPES
@pytest.mark.parametrize(("operator", "shape", "constants", "fields"), PLACES)
def test_what_moves_by_constant_places(
    dtype: Any, operator: str, shape: Any, constants: list[Any], fields: dict[str, Any]
) -> None:
    for output in ((0.02, 100), (0.03, 7)):
        given = [(each, np.int64) for each in constants]
        exact(operator, shape, output, dtype, constants=given, opset=19, **fields)


def test_images_keep_the_order_of_their_file_through_reshapes() -> None:
    """A flattened image is transposed before; one pixel or one channel needs no transposition."""
    for shape, kinds in (
        ((2, 3, 4, 5), [Kind.QUANTIZE, Kind.TRANSPOSE, Kind.RESHAPE, Kind.DEQUANTIZE]),
        ((2, 3, 1, 1), [Kind.QUANTIZE, Kind.RESHAPE, Kind.DEQUANTIZE]),
        ((2, 1, 4, 5), [Kind.QUANTIZE, Kind.RESHAPE, Kind.DEQUANTIZE]),
    ):
        model = operator_model("Flatten", [(shape, 0.02, 100)], (0.02, 100))
        graph, _ = compared(model, feeds_of([(shape, 0.02, 100)], np.uint8))
        assert [each.kind for each in graph.operators] == kinds
        assert graph.moved == {"x0"}


def test_operators_that_mix_images_with_others_compute_in_the_order_of_the_file() -> None:
    """A mean that keeps height before channels; channels of a value with fewer axes; a product over the width."""
    image: Form = (2, 5, 6, 7), 0.02, 100
    mean = operator_model("ReduceMean", [image], (0.02, 100), axes=[2], keepdims=0)
    product = operator_model("Mul", [image, ((5, 1, 1), 0.03, 9)], (0.02, 100))
    matrix = every_row_times_a_matrix()
    for model, kind in ((mean, Kind.MEAN), (product, Kind.MULTIPLY), (matrix, Kind.DENSE)):
        inputs: list[Form] = [image, ((5, 1, 1), 0.03, 9)]
        feeds = feeds_of(inputs[: len(model.graph.input)], np.uint8)
        if kind is Kind.DENSE:
            feeds = {"x": feeds["x0"]}
        graph, differ = compared(model, feeds)
        kinds = [each.kind for each in graph.operators]
        assert kinds[kinds.index(kind) - 1] is Kind.TRANSPOSE
        assert differ == 0


def every_row_times_a_matrix() -> Any:
    """A convolution, then a product of its output's rows."""
    model = quantized_layer(shape=(2, 5, 6, 7), weight=np.arange(10).reshape(2, 5, 1, 1))
    make = onnx.helper.make_node
    model.graph.node.extend(
        [
            make("DequantizeLinear", ["m", "w.scale", "w.zero"], ["md"]),
            make("MatMul", ["y", "md"], ["p"], name="product"),
            make("QuantizeLinear", ["p", "y.scale", "y.zero"], ["pq"]),
            make("DequantizeLinear", ["pq", "y.scale", "y.zero"], ["pd"]),
        ]
    )
    matrix = np.arange(-21, 21, dtype=np.int8).reshape(7, 6)
    model.graph.initializer.append(onnx.numpy_helper.from_array(matrix, "m"))
    model.graph.output[0].name = "pd"
    model.graph.output[0].type.Clear()
    return model


def test_a_file_whose_images_end_in_channels_keeps_them() -> None:
    """As converters from TensorFlow write them: the first transposition changes nothing in the graph."""
    model = operator_model("Transpose", [((2, 4, 5, 3), 0.02, 100)], (0.02, 100), perm=(0, 3, 1, 2))
    graph, _ = compared(model, feeds_of([((2, 4, 5, 3), 0.02, 100)], np.uint8))
    assert graph.values["x0"].shape == (2, 4, 5, 3)
    assert [each.kind for each in graph.operators] == [Kind.QUANTIZE, Kind.RESHAPE, Kind.DEQUANTIZE]
    assert graph.moved == {"y"}


def test_rows_of_products_keep_their_order_through_reshapes(tmp_path: Path) -> None:
    """As tools write products of more than two axes: what stands between two of them has channels on its last axis."""
    writer = Writer([1, 4, 5, 8])
    data = writer.node("Reshape", ["x", writer.constant("rows", [20, 8], np.int64)], "flat")
    data = writer.node("Gemm", [data, writer.weight("first", 8, 6)], "product")
    data = writer.node("Reshape", [data, writer.constant("image", [1, 4, 5, 6], np.int64)], "wide")
    data = writer.node("Mul", [data, writer.node("Sigmoid", [data], "share")], "scaled")
    data = writer.node("Reshape", [data, writer.constant("rows again", [20, 6], np.int64)], "flat again")
    file = quantized(
        writer.model(writer.node("Gemm", [data, writer.weight("second", 6, 3)], "y")), tmp_path, "u8", "s8", True
    )
    graph, differ = compared(
        onnx.load_from_string(file), {"x": writer.rng.standard_normal((1, 4, 5, 8)).astype(np.float32)}
    )
    assert Kind.TRANSPOSE not in [each.kind for each in graph.operators]
    assert differ == 0


SIZES: list[list[Any]] = [
    [None, ([1, 1, 2, 2],)],
    [None, ([1, 1, 3, 2],)],
    [None, ([1, 1, 0.5, 0.5],)],
    [None, None, ([2, 3, 13, 17], np.int64)],
    [None, None, ([2, 3, 6, 16], np.int64)],
]


@TYPES
@pytest.mark.parametrize("mode", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
def test_linear_resizes(dtype: Any, mode: str) -> None:
    for output in ((0.02, 100), (0.03, 7)):
        for sizes in SIZES:
            fields = {"mode": "linear", "coordinate_transformation_mode": mode}
            assert exact("Resize", (2, 3, 6, 8), output, dtype, constants=sizes, **fields).kind is Kind.RESIZE


@TYPES
@pytest.mark.parametrize(
    ("mode", "way"),
    [
        ("asymmetric", "floor"),
        ("half_pixel", "round_prefer_ceil"),
        ("align_corners", "round_prefer_ceil"),
        ("half_pixel", "round_prefer_floor"),
        ("tf_half_pixel_for_nn", "floor"),
        ("asymmetric", "ceil"),
        ("pytorch_half_pixel", "round_prefer_ceil"),
    ],
)
def test_nearest_resizes(dtype: Any, mode: str, way: str) -> None:
    """Where two pixels are equally near, some take the one that a RESIZE does not take."""
    for output in ((0.02, 100), (0.03, 7)):
        for sizes in SIZES:
            fields = {"mode": "nearest", "coordinate_transformation_mode": mode, "nearest_mode": way}
            resize = exact("Resize", (2, 3, 6, 8), output, dtype, constants=sizes, **fields)
            assert resize.kind in (Kind.RESIZE, Kind.GATHER)


def test_what_computes_a_known_shape_is_dropped() -> None:
    """As PyTorch writes `x.view(x.shape[0], -1)`."""
    data: Form = (2, 3, 4, 5), 0.02, 100
    model = operator_model("Relu", [data], (0.02, 100))
    make = onnx.helper.make_node
    for name, values in (("first", 0), ("rest", [-1])):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(values, np.int64), name))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0], np.int64), "axes"))
    model.graph.node.extend(
        [
            make("Shape", ["y"], ["shape"]),
            make("Gather", ["shape", "first"], ["batch"]),
            make("Unsqueeze", ["batch", "axes"], ["batches"]),
            make("Concat", ["batches", "rest"], ["flat"], axis=0),
            make("Reshape", ["y", "flat"], ["z"]),
        ]
    )
    model.graph.output[0].name = "z"
    model.graph.output[0].type.Clear()
    graph, differ = compared(model, feeds_of([data], np.uint8))
    kinds = [Kind.QUANTIZE, Kind.LOOKUP, Kind.TRANSPOSE, Kind.RESHAPE, Kind.DEQUANTIZE]
    assert [each.kind for each in graph.operators] == kinds
    assert differ == 0
    assert "shape" not in graph.values


def test_numbers_that_a_model_gives_are_moved_as_stored_values() -> None:
    data: Form = (2, 3, 4, 5), 0.02, 100
    model = operator_model("Relu", [data], (0.02, 100))
    model.graph.node.append(onnx.helper.make_node("MaxPool", ["y"], ["z"], name="pool", kernel_shape=[2, 2]))
    model.graph.output[0].name = "z"
    model.graph.output[0].type.Clear()
    file, feeds = model.SerializeToString(), feeds_of([data], np.uint8)
    graph = read_onnx(file, "one")
    assert [each.kind for each in graph.operators[-2:]] == [Kind.MAX_POOL, Kind.DEQUANTIZE]
    ours = run_reference(graph, {"x0": as_graph(feeds["x0"], graph.values["x0"].shape)})
    theirs = values_of(file, ["z"], feeds)["z"]
    np.testing.assert_array_equal(ours["z"], as_graph(theirs, graph.values["z"].shape))
    assert graph.moved == {"x0", "z"}


def test_numbers_may_be_moved_before_they_are_quantized() -> None:
    """A model whose input is [N, H, W, C] transposes it first: the graph needs no transposition."""
    model = operator_model("Relu", [((2, 3, 4, 5), 0.02, 100)], (0.02, 100))
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = {"x0": "moved"}.get(name, name)
    model.graph.node.insert(0, onnx.helper.make_node("Transpose", ["x0"], ["moved"], perm=(0, 3, 1, 2)))
    for dim, extent in zip(model.graph.input[0].type.tensor_type.shape.dim, (2, 4, 5, 3), strict=True):
        dim.dim_value = extent
    feeds = feeds_of([((2, 4, 5, 3), 0.02, 100)], np.uint8)
    graph, differ = compared(model, feeds)
    assert [each.kind for each in graph.operators] == [Kind.RESHAPE, Kind.QUANTIZE, Kind.LOOKUP, Kind.DEQUANTIZE]
    assert differ == 0
    assert graph.values["x0"].shape == (2, 4, 5, 3)
    assert graph.moved == {"y"}


ATTRIBUTES = [-9, -1, 0, 1, 2, 4, 7, 100, 1 << 20, (1 << 63) - 1]
WORDS = ["MaxPool", "Relu", "Softmax", "Concat", "Mul", "Pad", "Split", "ReduceMean", "Transpose", "Resize", "Add"]
WORDS += [
    "Sub",
    "Div",
    "Max",
    "PRelu",
    "Erf",
    "Clip",
    "ReduceSum",
    "ArgMax",
    "Gather",
    "Expand",
    "Tile",
    "DepthToSpace",
]


def mutated(model: Any, rng: np.random.Generator) -> bytes:
    """A model with another attribute, input, constant, extent or operator."""
    node = model.graph.node[rng.integers(len(model.graph.node))]
    change = rng.integers(5)
    if change == 0 and node.attribute:
        attribute = node.attribute[rng.integers(len(node.attribute))]
        number = ATTRIBUTES[rng.integers(len(ATTRIBUTES))]
        if attribute.ints:
            attribute.ints[rng.integers(len(attribute.ints))] = number
        else:
            attribute.i, attribute.f = number, float("nan")
    elif change == 1 and len(node.input) > 1:
        node.input[rng.integers(len(node.input))] = rng.choice(["", *node.input])
    elif change == 2:
        tensor = model.graph.initializer[rng.integers(len(model.graph.initializer))]
        values = onnx.numpy_helper.to_array(tensor).reshape(-1).copy()
        values[: rng.integers(2)] = rng.integers(0, 9)
        tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    elif change == 3:
        dims = model.graph.input[0].type.tensor_type.shape.dim
        dims[rng.integers(len(dims))].dim_value = int(rng.integers(1, 9))
    else:
        node.op_type = WORDS[rng.integers(len(WORDS))]
    return bytes(model.SerializeToString())


def test_mutated_operators_run_or_say_why_not() -> None:
    image: Form = (2, 3, 6, 8), 0.02, 100
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    sources: list[tuple[str, dict[str, Any]]] = [
        ("MaxPool", window),
        ("AveragePool", {**window, "count_include_pad": 1}),
        ("ReduceMean", {"axes": [2, 3], "keepdims": 0}),
        ("Transpose", {"perm": [0, 2, 3, 1]}),
        ("Pad", {"constants": [([0, 1, 1, 2, 0, 0, 2, 0], np.int64)]}),
        ("Softmax", {"axis": 1}),
        ("Resize", {"constants": SIZES[0], "mode": "linear"}),
        ("Mul", {"quantized": [(np.ones((3, 1, 1)), 0.02, 3)]}),
        ("PRelu", {"constants": [(np.ones((3, 1, 1)),)]}),
        ("Gather", {"constants": [([1, 0], np.int64)], "axis": 1}),
        ("Tile", {"constants": [([1, 1, 2, 1], np.int64)]}),
        ("ArgMax", {"axis": 1}),
    ]
    rng, ran, messages = np.random.default_rng(0), 0, []
    for index in range(MUTANTS):
        operator, fields = sources[index % len(sources)]
        data = mutated(operator_model(operator, [image], (0.02, 100), **fields), rng)
        try:
            graph = read_onnx(data, "mutant")
            source = graph.values["x0"]
            run_reference(graph, {"x0": np.ones(source.shape, np.float32)})
            ran += 1
        except ModelError as error:
            messages.append(str(error))
    assert all(text.isprintable() and len(text) < 400 for text in messages)
    assert min(ran, len(messages)) > 0.1 * MUTANTS
