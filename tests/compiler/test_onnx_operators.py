"""Single ONNX operators and a network of them, bit for bit as ONNX Runtime computes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.graph import Kind, Operator
from int8tune.compiler.interpreter import run_reference
from int8tune.compiler.islands.island import islands_of
from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_models import Writer, input_data, quantized, values_of
from tests.support.models.onnx_operators import Form, as_graph, compared, every_operator, feeds_of, operator_model
from tests.support.run.thinned import one_in

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")

TYPES = pytest.mark.parametrize("dtype", [np.uint8, np.int8])
OTHERWISE = [(0.02, 100), (0.007, 90), (0.05, 3)]


def low(dtype: Any) -> int:
    return int(np.iinfo(dtype).min)


def exact(operator: str, shape: Any, output: Any = None, dtype: Any = np.uint8, **fields: Any) -> Operator:
    """Compare one operator with random values of scale 0.02; the last of its kind in the graph."""
    data: Form = shape, 0.02, low(dtype) + 100
    scale, zero_point = output or (0.02, 100)
    model = operator_model(operator, [data], (scale, zero_point + low(dtype)), dtype, **fields)
    graph, differ = compared(model, feeds_of([data], dtype))
    assert differ == 0
    return graph.operators[-2]


def reason(operator: str, shape: Any, **fields: Any) -> str:
    """Why no integer kernel computes an operator."""
    model = operator_model(operator, [(shape, 0.02, 100)], (0.02, 100), **fields)
    graph = read_onnx(model.SerializeToString(), "one")
    in_float = [part.reason for island in islands_of(graph) for part in island.parts]
    (found,) = [*in_float, *(obstacle.reason for obstacle in obstacles(graph))]
    return found


FORMS = {
    "u8s8.t": ("u8", "s8", False, "QDQ", False),
    "u8s8.c": ("u8", "s8", True, "QDQ", False),
    "s8s8.c": ("s8", "s8", True, "QDQ", False),
    "s8s8.c symmetric": ("s8", "s8", True, "QDQ", True),
    "u8u8.t": ("u8", "u8", False, "QDQ", False),
    "u8u8.t nodes": ("u8", "u8", False, "QOperator", False),
    "u8s8.c nodes": ("u8", "s8", True, "QOperator", False),
}


KINDS = {
    Kind.QUANTIZE,
    Kind.CONV2D,
    Kind.MAX_POOL,
    Kind.AVERAGE_POOL,
    Kind.CONCAT,
    Kind.LOOKUP,
    Kind.MULTIPLY,
    Kind.MEAN,
    Kind.SLICE,
    Kind.RESHAPE,
    Kind.TRANSPOSE,
    Kind.PAD,
    Kind.RESIZE,
    Kind.DENSE,
    Kind.SOFTMAX,
    Kind.DEQUANTIZE,
}


@pytest.mark.parametrize("form", FORMS)
def test_a_whole_network_bit_for_bit(form: str, tmp_path: Path) -> None:
    data, weight, per_channel, written, symmetric = FORMS[form]
    model = every_operator()
    file = quantized(model, tmp_path, data, weight, per_channel, written, symmetric)
    feed = input_data(model, 9)
    graph, differ = compared(file, {"x": feed})
    assert differ == 0
    assert graph.moved == {"x"}
    assert {each.kind for each in graph.operators} == KINDS
    ours = run_reference(graph, {"x": as_graph(feed, graph.values["x"].shape)})
    np.testing.assert_array_equal(ours["y"], values_of(file, ["y"], feed)["y"])


@TYPES
@pytest.mark.parametrize(
    ("window", "padding"),
    [
        ({"kernel_shape": [3, 3], "strides": [2, 2]}, (0, 0, 0, 0)),
        ({"kernel_shape": [3, 2], "pads": [1, 0, 2, 1], "strides": [1, 2]}, (1, 0, 2, 1)),
        ({"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}, (0, 1, 1, 1)),
        ({"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, (0, 0, 1, 0)),
    ],
)
def test_pools(dtype: Any, window: Any, padding: Any) -> None:
    for output in ((0.02, 100), (0.013, 37)):
        maximum = exact("MaxPool", (2, 5, 10, 13), output, dtype, **window)
        assert maximum.attributes["padding"] == padding
        for count_include_pad in (0, 1):
            if count_include_pad and "ceil_mode" in window:
                continue
            average = exact("AveragePool", (2, 5, 10, 13), output, dtype, count_include_pad=count_include_pad, **window)
            assert average.attributes["include_pad"] == bool(count_include_pad)
    # Before this version, ONNX Runtime has no MaxPool of stored values.
    exact("MaxPool", (2, 5, 10, 13), dtype=dtype, opset=11, **window)


@TYPES
@pytest.mark.parametrize("output", OTHERWISE)
def test_pools_of_one_dimension(dtype: Any, output: Any) -> None:
    window = {"kernel_shape": [3], "strides": [2]}
    for fields in ({"pads": [1, 1]}, {"ceil_mode": 1}, {"auto_pad": "SAME_LOWER"}):
        assert exact("MaxPool", (2, 5, 16), output, dtype, **window, **fields).kind is Kind.RESHAPE
    exact("AveragePool", (2, 5, 16), output, dtype, **window, pads=[1, 1], count_include_pad=1)
    assert exact("GlobalMaxPool", (2, 5, 17), output, dtype).kind is Kind.REDUCE_MAX


@TYPES
@pytest.mark.parametrize("output", OTHERWISE)
def test_means(dtype: Any, output: Any) -> None:
    for shape in ((2, 5, 7, 9), (1, 16, 7, 7), (1, 3, 1, 1)):
        assert exact("GlobalAveragePool", shape, output, dtype).attributes["axes"] == (1, 2)
    assert exact("GlobalMaxPool", (2, 5, 7, 9), output, dtype).attributes["kernel"] == (7, 9)
    for axes, moved in (([2, 3], (1, 2)), ([1], (3,)), ([-1, 1], (2, 3)), ([0, 1, 2, 3], (0, 1, 2, 3))):
        for keepdims in (0, 1):
            mean = exact("ReduceMean", (2, 5, 7, 9), output, dtype, axes=axes, keepdims=keepdims)
            assert mean.attributes["axes"] == moved
    assert exact("ReduceMean", (2, 5, 7), output, dtype, axes=[-1]).attributes["axes"] == (2,)
    axes = [([2, 3], np.int64)]
    assert exact("ReduceMean", (2, 5, 7, 9), output, dtype, constants=axes, opset=18).attributes["axes"] == (1, 2)


@TYPES
@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceMax", "ReduceMin"])
def test_reductions(dtype: Any, operator: str) -> None:
    cases = [((2, 5, 6, 7), axes) for axes in ([1], [2, 3], [-1], [0, 1, 2, 3])]
    others = [((9, 8), [0]), ((7,), [0]), ((2, 5, 6), [1]), ((2, 3, 4, 5, 6), [1, 3])]
    for shape, axes in [*cases, *others]:
        for scale, zero_point in ((0.02, 100), (0.13, 7)):
            for keepdims in (0, 1):
                fields: dict[str, Any] = {"axes": axes}
                if operator == "ReduceSum":
                    fields = {"constants": [(axes, np.int64)]}
                exact(operator, shape, (scale, zero_point), dtype, keepdims=keepdims, **fields)


@TYPES
@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_places_of_extremes(dtype: Any, operator: str) -> None:
    """Few values, so that many are equal."""
    for shape, axis in (((2, 5, 6, 7), 1), ((2, 5, 6, 7), -1), ((2, 5, 6, 7), 2), ((9, 8), 0), ((7,), 0)):
        for keepdims, last in ((0, 0), (0, 1), (1, 0)):
            writer = Writer(shape, "x0")
            parameters = [writer.constant("s", 0.02), writer.constant("z", low(dtype) + 100, dtype)]
            data = writer.node("QuantizeLinear", ["x0", *parameters], "q")
            data = writer.node("DequantizeLinear", [data, *parameters], "d")
            fields = {"axis": axis, "keepdims": keepdims, "select_last_index": last}
            file = writer.model(writer.node(operator, [data], "y", **fields)).SerializeToString()
            feed = feeds_of([(shape, 0.02, 100)], np.uint8)["x0"].clip(-0.06, 0.06)
            graph = read_onnx(file, "one")
            ours = run_reference(graph, {"x0": as_graph(feed, graph.values["x0"].shape)})["y"]
            theirs = as_graph(values_of(file, ["y"], feed)["y"], ours.shape)
            np.testing.assert_array_equal(ours, theirs, strict=True)


@TYPES
@pytest.mark.parametrize(("opset", "axis"), [(17, -1), (17, 1), (17, 2), (12, 3)])
def test_softmax(dtype: Any, opset: int, axis: int) -> None:
    for scale in (0.02, 0.1, 0.3):
        data: Form = (2, 5, 3, 4), scale, low(dtype) + 100
        for output in ((1 / 256, low(dtype)), (1 / 255, low(dtype)), (0.003, low(dtype) + 4)):
            model = operator_model("Softmax", [data], output, dtype, opset=opset, axis=axis)
            graph, differ = compared(model, feeds_of([data], dtype))
            assert differ == 0
            assert graph.operators[1].attributes["axis"] == (0, 3, 1, 2)[axis]
    rows: Form = (20, 1000), 0.1, low(dtype) + 100
    _, differ = compared(operator_model("Softmax", [rows], (1 / 256, low(dtype)), dtype), feeds_of([rows], dtype))
    assert differ == 0


FUNCTIONS: list[tuple[str, dict[str, Any]]] = [
    ("Relu", {}),
    ("LeakyRelu", {"alpha": 0.1}),
    ("LeakyRelu", {"alpha": -0.3}),
    ("HardSigmoid", {}),
    ("HardSigmoid", {"alpha": 1 / 6}),
    ("HardSwish", {}),
    ("Elu", {}),
    ("Elu", {"alpha": 0.7}),
    ("Abs", {}),
    ("Neg", {}),
    ("Tanh", {}),
    ("Exp", {}),
    ("Sigmoid", {}),
    ("Clip", {"constants": [(0.0,), (1.0,)]}),
    ("Clip", {"constants": [None, (0.6,)]}),
]


@pytest.mark.matrix(at_most=4)
@TYPES
@pytest.mark.parametrize(("operator", "fields"), one_in(2, FUNCTIONS))
def test_tables_have_every_value_right(dtype: Any, operator: str, fields: dict[str, Any]) -> None:
    least = low(dtype)
    for scale in (0.02, 0.0173, 0.1, 0.0235):
        for point in (least, least + 3, least + 100, least + 128):
            for ratio, zero_point in ((1.0, point), (0.7, least + 50), (2.3, least + 120), (0.37, least)):
                data: Form = (1, 256), scale, point
                model = operator_model(operator, [data], (scale * ratio, zero_point), dtype, **fields)
                graph, differ = compared(model, feeds_of([data], dtype))
                assert graph.operators[1].kind is Kind.LOOKUP
                assert differ == 0


@TYPES
@pytest.mark.parametrize(("shape", "axis"), [((2, 70, 5), 1), ((3, 5, 70, 6), 2), ((1, 5, 6, 70), 3), ((66, 7), 0)])
def test_softmax_of_values_that_lie_apart(dtype: Any, shape: tuple[int, ...], axis: int) -> None:
    """They are transposed, so that its kernel takes rows; axes of few values are not worth it."""
    data: Form = (shape, 0.05, low(dtype) + 7)
    model = operator_model("Softmax", [data], (1 / 256, low(dtype)), dtype, axis=axis)
    graph, differ = compared(model, feeds_of([data], dtype))
    (softmax,) = (each for each in graph.operators if each.kind is Kind.SOFTMAX)
    assert softmax.attributes["axis"] == len(shape) - 1
    assert graph.values[softmax.inputs[0]].shape[-1] == shape[axis]
    assert differ == 0
    short: Form = ((2, 9, 5), *data[1:])
    few, _ = compared(
        operator_model("Softmax", [short], (1 / 256, low(dtype)), dtype, axis=1), feeds_of([short], dtype)
    )
    assert Kind.TRANSPOSE not in [each.kind for each in few.operators]


def test_requantization_is_a_table() -> None:
    for dtype, scale, zero_point in ((np.int8, 0.03, -9), (np.uint8, 0.011, 3)):
        writer = Writer([1, 256])
        for name, parameters in (("a", (0.02, 100, np.uint8)), ("b", (scale, zero_point, dtype))):
            writer.constant(f"s{name}", parameters[0])
            writer.constant(f"z{name}", *parameters[1:])
        writer.node("QuantizeLinear", ["x", "sa", "za"], "qa")
        writer.node("DequantizeLinear", ["qa", "sa", "za"], "da")
        writer.node("QuantizeLinear", ["da", "sb", "zb"], "qb")
        writer.node("DequantizeLinear", ["qb", "sb", "zb"], "db")
        feeds = feeds_of([((1, 256), 0.02, 100)], np.uint8)
        graph, differ = compared(writer.model("db"), {"x": feeds["x0"]})
        assert [each.kind for each in graph.operators] == [Kind.QUANTIZE, Kind.LOOKUP, Kind.DEQUANTIZE]
        assert differ == 0


SCALES = [
    ((0.02, 5), (0.02, 5), (0.02, 5)),
    ((0.02, 5), (0.03, 9), (0.025, 7)),
    ((0.013, 5), (0.031, 90), (0.025, 20)),
    ((0.1, 0), (0.5, 100), (0.3, 77)),
    ((0.011, 3), (0.0077, 20), (0.00333, 40)),
]


@TYPES
@pytest.mark.parametrize("scales", SCALES)
def test_concatenation(dtype: Any, scales: Any) -> None:
    first, second, made = scales
    for axis in (0, 1, 2, -1):
        shape = [2, 5, 6, 7]
        shape[axis] = 4
        inputs: list[Form] = [((2, 5, 6, 7), *first), (shape, *second)]
        graph, differ = compared(operator_model("Concat", inputs, made, dtype, axis=axis), feeds_of(inputs, dtype))
        assert differ == 0
        assert graph.operators[-2].attributes["axis"] == (0, 3, 1, 2)[axis]
    alone: list[Form] = [((1, 5, 6, 7), *first)]
    constant = np.random.default_rng(1).integers(low(dtype), low(dtype) + 256, (1, 3, 6, 7))
    model = operator_model("Concat", alone, made, dtype, quantized=[(constant, *second)], axis=1)
    assert compared(model, feeds_of(alone, dtype))[1] == 0


@TYPES
@pytest.mark.parametrize("scales", SCALES)
def test_products(dtype: Any, scales: Any) -> None:
    """Exact alone, and with a Relu behind it, where ONNX Runtime multiplies numbers if values below 0 are stored."""
    first, second, made = scales
    for shapes in (
        ((2, 5, 6, 7), (2, 5, 6, 7)),
        ((2, 5, 6, 7), (2, 5, 1, 1)),
        ((2, 5, 1, 1), (2, 5, 6, 7)),
        ((3, 8), (8,)),
        ((2, 5, 6, 7), (1,)),
    ):
        inputs: list[Form] = [(shapes[0], *first), (shapes[1], *second)]
        _, differ = compared(operator_model("Mul", inputs, made, dtype), feeds_of(inputs, dtype))
        assert differ == 0
        for zero_point in (low(dtype), low(dtype) + 7):
            model = operator_model("Mul", inputs, (made[0], zero_point), dtype, behind="Relu")
            graph, differ = compared(model, feeds_of(inputs, dtype))
            kind = Kind.MULTIPLY if zero_point == low(dtype) else Kind.ELEMENTWISE
            assert (graph.operators[-2].kind, graph.operators[-2].layers) == (kind, ("node", "behind"))
            assert differ == 0
    data: list[Form] = [((2, 5, 6, 7), *first)]
    for shape in ((5, 1, 1), (1, 5, 1, 1), (2, 5, 6, 7), (), (1,), (7,)):
        constant = np.random.default_rng(1).integers(low(dtype), low(dtype) + 256, shape)
        model = operator_model("Mul", data, made, dtype, quantized=[(constant, *second)])
        assert compared(model, feeds_of(data, dtype))[1] == 0


def test_what_has_no_kind_says_why() -> None:
    image = (2, 3, 6, 8)
    cases: list[tuple[str, Any, dict[str, Any], str]] = [
        ("Softplus", image, {}, "no kernel computes it"),
        ("MaxPool", image, {"kernel_shape": [2, 2], "dilations": [2, 2]}, "dilated windows"),
        ("MaxPool", (2, 3, 6, 7, 8), {"kernel_shape": [2] * 3}, "four axes"),
        ("AveragePool", image, {"kernel_shape": [3, 3], "ceil_mode": 1, "count_include_pad": 1}, "ceil_mode"),
        ("Softmax", image, {"opset": 12, "axis": 1}, "the sums must be of one axis"),
        ("Pad", image, {"constants": [([0] * 7 + [1], np.int64)], "mode": "median"}, "border must be constant"),
        ("Pad", image, {"constants": [([0] * 7 + [9], np.int64)], "mode": "reflect"}, "narrower"),
        ("Gather", image, {"constants": [([7], np.int64)], "axis": 1}, "its indices must be within 3"),
        ("Resize", image, {"constants": [None, ([1, 1, 2, 2],)], "mode": "cubic"}, "cubic"),
        ("Clip", image, {"constants": [(float("nan"),)]}, "bounds must be numbers"),
        ("LeakyRelu", image, {"alpha": float("inf")}, "must be finite"),
    ]
    for operator, shape, fields, message in cases:
        assert message in reason(operator, shape, **fields), operator
