"""What ONNX Runtime computes in numbers between stored values: chains of one value as tables, and of several values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.graph import Graph, Kind
from int8tune.compiler.model import read_model
from int8tune.compiler.onnx_reader.broadcasts import is_first_spread
from int8tune.compiler.onnx_reader.expressions import _is_number
from int8tune.compiler.onnx_reader.quantization import Constant, Quantization
from int8tune.compiler.operators import mlas
from int8tune.schedules.target import Target
from tests.support.models.compiled import assert_exact
from tests.support.models.onnx_models import Writer, values_of
from tests.support.models.onnx_operators import Form, compared, feeds_of, operator_model
from tests.support.run.thinned import one_in

pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")

Array = npt.NDArray[Any]
Steps = Sequence[tuple[Any, ...]]

CONSTANTS = {
    "half": 0.5,
    "one": 1.0,
    "two": 2.0,
    "three": 3.0,
    "six": 6.0,
    "zero": 0.0,
    "root": np.sqrt(2),
    "1/root": np.sqrt(0.5),
    "cube": 0.044715,
    "tanh": np.sqrt(2 / np.pi),
    "quick": 1.702,
}
ERF: Steps = [("Div", "x", "root"), ("Erf", "$0"), ("Add", "$1", "one")]
TANH: Steps = [("Mul", "$0", "cube"), ("Add", "x", "$1"), ("Mul", "$2", "tanh"), ("Tanh", "$3"), ("Add", "$4", "one")]
# `$n` is the output of step n, `x` the value.
CHAINS: dict[str, Steps] = {
    "GELU": [*ERF, ("Mul", "x", "$2"), ("Mul", "$3", "half")],
    "GELU with its half first": [*ERF, ("Mul", "x", "half"), ("Mul", "$3", "$2")],
    "GELU with its half in between": [*ERF, ("Mul", "$2", "half"), ("Mul", "x", "$3")],
    "GELU by a product": [("Mul", "x", "1/root"), *ERF[1:], ("Mul", "x", "$2"), ("Mul", "$3", "half")],
    "GELU by a tanh": [("Pow", "x", "three"), *TANH, ("Mul", "x", "$5"), ("Mul", "$6", "half")],
    "the share of a GELU": ERF,
    "SiLU": [("Sigmoid", "x"), ("Mul", "x", "$0")],
    "quick GELU": [("Mul", "x", "quick"), ("Sigmoid", "$0"), ("Mul", "x", "$1")],
    "HardSwish": [("Add", "x", "three"), ("Clip", "$0", "zero", "six"), ("Div", "$1", "six"), ("Mul", "x", "$2")],
    "HardSwish with its product first": [
        ("Add", "x", "three"),
        ("Clip", "$0", "zero", "six"),
        ("Mul", "x", "$1"),
        ("Div", "$2", "six"),
    ],
    "logistic by hand": [("Neg", "x"), ("Exp", "$0"), ("Add", "$1", "one"), ("Reciprocal", "$2")],
    "a reciprocal that is multiplied": [("Div", "one", "x"), ("Mul", "$0", "three")],
    "a quotient by its reciprocal": [("Abs", "x"), ("Add", "$0", "one"), ("Div", "one", "$1"), ("Mul", "x", "$2")],
    "several summands": [("Sum", "x", "cube", "three")],
    "a reciprocal root": [("Abs", "x"), ("Sqrt", "$0"), ("Div", "one", "$1")],
    "no numbers": [("Sqrt", "x")],
    "by itself": [("Div", "x", "x")],
    "what is behind the point": [("Floor", "x"), ("Sub", "x", "$0")],
    "square": [("Pow", "x", "two")],
    "between bounds": [("Max", "x", "zero"), ("Min", "$0", "six", "one")],
    **{
        word: [(word, "x")]
        for word in ("Erf", "Exp", "Sigmoid", "Tanh", "Reciprocal", "Round", "Ceil", "Sign", "Softsign", "Gelu")
    },
}


def chain(steps: Steps, scale: float, zero_point: int, output: tuple[float, int], dtype: Any = np.uint8) -> Any:
    """The steps between one DequantizeLinear and one QuantizeLinear, for all 256 values."""
    writer = Writer([1, 256], "x0")
    parameters = [writer.constant("s", scale), writer.constant("z", zero_point, dtype)]
    writer.node("QuantizeLinear", ["x0", *parameters], "q")
    writer.node("DequantizeLinear", ["q", *parameters], "x")
    for name, value in CONSTANTS.items():
        writer.constant(name, value)
    for index, (operator, *inputs) in enumerate(steps):
        writer.node(operator, inputs, f"${index}", f"step {index}")
    parameters = [writer.constant("sy", output[0]), writer.constant("zy", output[1], dtype)]
    writer.node("QuantizeLinear", [f"${len(steps) - 1}", *parameters], "yq")
    writer.node("DequantizeLinear", ["yq", *parameters], "y")
    return writer.model("y", opset=20)


@pytest.mark.matrix(at_most=2)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("name", one_in(5, CHAINS))
def test_a_chain_of_one_value_is_a_table_with_every_value_right(name: str, dtype: Any) -> None:
    low = int(np.iinfo(dtype).min)
    for scale in (0.02, 0.0173, 0.1, 1 / 32):
        for point in (low, low + 100, low + 128):
            for ratio, zero_point in ((1.0, point), (0.7, low + 50), (2.3, low + 120), (0.37, low)):
                model = chain(CHAINS[name], scale, point, (scale * ratio, zero_point), dtype)
                graph, differ = compared(model, feeds_of([((1, 256), scale, point)], dtype))
                assert [each.kind for each in graph.operators] == [Kind.QUANTIZE, Kind.LOOKUP, Kind.DEQUANTIZE]
                assert differ == 0


def test_functions_are_onnxruntime_s_in_every_bit() -> None:
    values = np.concatenate([np.linspace(-20, 20, 40_000), np.linspace(-110, 110, 10_000)]).astype(np.float32)
    for word, function in (
        ("Erf", mlas.erf),
        ("Sigmoid", mlas.sigmoid),
        ("Tanh", mlas.tanh),
        ("Exp", mlas.exponential),
    ):
        writer = Writer([len(values)], "x0")
        theirs = values_of(writer.model(writer.node(word, ["x0"], "y"), opset=20).SerializeToString(), ["y"], values)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(function(values), theirs["y"], word)


SCALES = [
    ((0.02, 5), (0.03, 9), (0.025, 7)),
    ((0.013, 5), (0.031, 90), (0.025, 20)),
    ((0.5, 128), (0.25, 100), (0.5, 128)),
]
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 5, 6, 7), (5, 1, 1)),
    ((2, 5, 6, 7), (1,)),
    ((2, 5, 6, 7), ()),
    ((3, 8), (8,)),
    ((2, 5, 6, 7), (2, 5, 6, 7)),
    ((2, 5, 6, 7), (7,)),
    ((4,), (3, 4)),
    ((2, 1, 6, 1), (1, 5, 1, 7)),
    ((1, 3, 2, 2, 5), (3, 1, 1, 1)),
]


@pytest.mark.parametrize("operator", ["Add", "Mul", "Sub", "Div", "Min", "Max", "PRelu"])
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.matrix(at_most=3)
def test_operators_of_two_values(operator: str, scales: Any) -> None:
    """The second one is quantized and constant, or numbers, or computed as well."""
    first, second, made = scales
    rng = np.random.default_rng(0)
    for one, other in SHAPES:
        if operator == "PRelu" and np.broadcast_shapes(one, other) != one:
            continue
        data: Form = (one, *first)
        stored = operator_model(operator, [data], made, quantized=[(rng.integers(0, 256, other), *second)])
        numbers = operator_model(operator, [data], made, constants=[(rng.normal(size=other),)])
        assert compared(stored, feeds_of([data], np.uint8))[1] == 0
        assert compared(numbers, feeds_of([data], np.uint8))[1] == 0
        for forms in ([data, (other, *second)], [(other, *second), data]) if other else ():
            if operator == "PRelu" and forms[0] is not data:
                continue
            assert compared(operator_model(operator, forms, made), feeds_of(forms, np.uint8))[1] == 0


def test_the_larger_of_two_values_of_one_scale_is_that_of_stored_values() -> None:
    for word, kind in (("Min", Kind.MINIMUM), ("Max", Kind.MAXIMUM)):
        forms: list[Form] = [((2, 5, 6, 7), 0.02, 100)] * 2
        graph, differ = compared(operator_model(word, forms, (0.02, 100)), feeds_of(forms, np.uint8))
        assert (graph.operators[-2].kind, differ) == (kind, 0)


def test_normalization_of_a_batch() -> None:
    rng = np.random.default_rng(0)
    parameters = [(rng.normal(size=5),), (rng.normal(size=5),), (rng.normal(size=5),), (rng.uniform(0.5, 2, 5),)]
    for shape in ((2, 5, 6, 7), (3, 5), (2, 5, 4)):
        data: Form = shape, 0.02, 100
        model = operator_model("BatchNormalization", [data], (0.03, 120), constants=parameters)
        graph, differ = compared(model, feeds_of([data], np.uint8))
        assert (graph.operators[-2].kind, differ) == (Kind.ELEMENTWISE, 0)


def several(shape: Sequence[int]) -> Any:
    """`x * sigmoid(y) + channel`, of which a second output stores the product."""
    writer = Writer(shape, "x0")
    writer.inputs.append(writer.inputs[0].__class__())
    writer.inputs[1].CopyFrom(writer.inputs[0])
    writer.inputs[1].name = "x1"
    for index in range(2):
        parameters = [writer.constant(f"s{index}", 0.02), writer.constant(f"z{index}", 100, np.uint8)]
        writer.node("QuantizeLinear", [f"x{index}", *parameters], f"q{index}")
        writer.node("DequantizeLinear", [f"q{index}", *parameters], f"d{index}")
    writer.node("Sigmoid", ["d1"], "share")
    writer.node("Mul", ["d0", "share"], "product")
    channel = writer.constant("channel", np.arange(shape[1]).reshape(-1, 1, 1) * 0.1)
    writer.node("Add", ["product", channel], "sum")
    for name in ("product", "sum"):
        parameters = [writer.constant(f"s.{name}", 0.013), writer.constant(f"z.{name}", 90, np.uint8)]
        writer.node("QuantizeLinear", [name, *parameters], f"{name}.q")
        writer.node("DequantizeLinear", [f"{name}.q", *parameters], f"{name}.y")
    return writer.model("product.y", "sum.y")


def test_an_expression_of_several_values(native: Target, tmp_path: Path) -> None:
    shape = (2, 5, 6, 7)
    feeds = feeds_of([(shape, 0.02, 100)] * 2, np.uint8)
    graph, differ = compared(several(shape), feeds)
    assert differ == 0
    kinds = [each.kind for each in graph.operators]
    assert kinds == [Kind.QUANTIZE, Kind.QUANTIZE, *[Kind.ELEMENTWISE, Kind.DEQUANTIZE] * 2]
    ours = assert_exact(graph, native, feeds, tmp_path)
    theirs = values_of(several(shape).SerializeToString(), graph.outputs, feeds)
    for name in graph.outputs:
        np.testing.assert_array_equal(ours[name], theirs[name], name, strict=True)


def quantized_gelu() -> Any:
    """A GELU whose every step is stored, as `quantize_static` writes it."""
    writer = Writer([1, 256], "x0")

    def number(name: str, scale: float) -> str:
        parameters = [writer.constant(f"{name}.s", scale), writer.constant(f"{name}.z", 0, np.uint8)]
        return writer.node("DequantizeLinear", [writer.constant(name, 255, np.uint8), *parameters], f"{name}.d")

    def stored(value: str, name: str, scale: float, zero_point: int) -> str:
        parameters = [writer.constant(f"{name}.s", scale), writer.constant(f"{name}.z", zero_point, np.uint8)]
        quantized = writer.node("QuantizeLinear", [value, *parameters], f"{name}.q")
        return writer.node("DequantizeLinear", [quantized, *parameters], f"{name}.d")

    data = stored("x0", "x", 0.03, 128)
    one, half, root = number("one", 1 / 255), number("half", 0.5 / 255), number("root", 1.41421 / 255)
    share = stored(writer.node("Erf", [writer.node("Div", [data, root], "a", "a")], "b", "b"), "share", 2 / 255, 128)
    share = stored(writer.node("Add", [share, one], "c", "sum"), "more", 2 / 255, 0)
    product = stored(writer.node("Mul", [data, share], "e", "product"), "product", 0.03, 11)
    return writer.model(stored(writer.node("Mul", [product, half], "f", "halved"), "y", 0.015, 11))


def read(model: Any, folder: Path) -> Graph:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return read_model(path)


def test_operators_of_one_value_are_one_table(native: Target, tmp_path: Path) -> None:
    model = quantized_gelu()
    graph, feeds = read(model, tmp_path), feeds_of([((1, 256), 0.03, 128)], np.uint8)
    assert [each.kind for each in graph.operators] == [Kind.QUANTIZE, Kind.LOOKUP, Kind.DEQUANTIZE]
    assert graph.operators[1].layers == ("a", "b", "sum", "product", "halved")
    ours = assert_exact(graph, native, feeds, tmp_path)
    theirs = values_of(model.SerializeToString(), ["y.d"], feeds)["y.d"]
    np.testing.assert_array_equal(ours["y.d"], theirs, strict=True)


def test_which_summand_is_spread() -> None:
    for one, other, expected in (
        ((2, 5, 1, 1), (2, 5, 6, 7), True),
        ((2, 5, 6, 7), (2, 5, 1, 1), False),
        ((5, 1, 1), (2, 5, 1, 1), False),
        ((1, 1), (2, 1, 1), True),
        ((1, 2), (1, 2), False),
        ((), (3,), True),
        ((3, 1), (), True),
    ):
        assert is_first_spread(one, other) is expected


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32])
@pytest.mark.parametrize("scale", [1e-3, 1e29, 1e34, 3e37, 3e38])
def test_constants_are_numbers_where_all_that_they_stand_for_is_finite(dtype: Any, scale: float) -> None:
    form = Quantization(np.array([1.0, scale], np.float32), np.zeros(2, np.int64), 0)
    array = np.array([[1, 2], [np.iinfo(dtype).max, 0]], dtype)
    constant = Constant("c", array, form)
    with np.errstate(all="ignore"):
        assert _is_number(constant) == np.isfinite(constant.real).all()
