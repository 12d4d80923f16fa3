"""Single TFLite operators: read as they were written, and computed bit for bit as LiteRT's reference kernels do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.fused_graph import with_fused_rules
from int8tune.compiler.graph import Kind, Operator
from int8tune.compiler.interpreter import run_reference
from int8tune.compiler.obstacles import float_parts, obstacles
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.tflite_models import DTYPES, Writer, values_of

pytest.importorskip("tflite", reason="needs the extra `models`")

Array = npt.NDArray[Any]
Form = tuple[str, Sequence[int], float, int]

BYTES = pytest.mark.parametrize("kind", ["u8", "s8"])
LOWEST = {"u8": 0, "s8": -128}


def values(kind: str, shape: Sequence[int], seed: int = 0) -> Array:
    """Random stored values; the 256 of the type where the shape has as many."""
    if tuple(shape) == (1, 256):
        return np.arange(LOWEST[kind], LOWEST[kind] + 256).astype(DTYPES[kind])[None]
    return np.random.default_rng(seed).integers(LOWEST[kind], LOWEST[kind] + 256, shape).astype(DTYPES[kind])


def written(
    word: str,
    inputs: Sequence[Form],
    output: Form,
    options: str = "",
    constants: Sequence[tuple[Any, ...]] = (),
    version: int = 1,
    **fields: Any,
) -> bytes:
    """A model of one operator, whose inputs come before its constants and are called x0, x1 and so on."""
    writer = Writer()
    taken = [writer.input(f"x{index}", *form) for index, form in enumerate(inputs)]
    taken += [writer.constant(f"c{index}", *form) for index, form in enumerate(constants)]
    made = writer.tensor("y", *output)
    writer.operator(word, taken, [made], options, version, **fields)
    return writer.model(made)


def exact(data: bytes, feeds: dict[str, Array], is_reference: bool = True) -> Operator:
    """Compare every value with LiteRT's; returns the last operator."""
    graph = read_tflite(data, "one")
    ours, theirs = run_reference(graph, feeds), values_of(data, feeds, is_reference)
    for operator in graph.operators:
        (name,) = operator.outputs
        if operator.layers == (name,) and name not in theirs:
            continue  # a link of a chain, which only the graph has
        np.testing.assert_array_equal(ours[name], theirs[name], name, strict=True)
    return graph.operators[-1]


def exact_one(word: str, data: Form, output: Form, *args: Any, **fields: Any) -> Operator:
    """The same for one operator of one input with random values."""
    return exact(written(word, [data], output, *args, **fields), {"x0": values(data[0], data[1])})


def reason(data: bytes) -> str:
    """Why no integer kernel computes the one operator of a model, whatever else does."""
    graph = read_tflite(data, "one")
    (found,) = (*obstacles(graph), *float_parts(graph))
    return found.reason


@BYTES
@pytest.mark.parametrize(
    "scales", [(1, 1, 2), (0.5, 0.25, 1), (0.004, 0.003, 0.2), (0.009, 0.0071, 0.31), (0.3, 0.011, 0.7)]
)
def test_dense_layers_round_as_a_product_in_binary64(kind: str, scales: tuple[float, float, float]) -> None:
    """Where thresholds are: sums are biases, as all weights stand for zero."""
    data_scale, weight_scale, output_scale = (np.float32(scale) for scale in scales)
    thresholds = np.arange(-99.5, 100) * output_scale.astype(float) / (data_scale.astype(float) * weight_scale)
    sums = np.unique(np.rint(thresholds)[:, None] + np.arange(-2, 3)).astype(int)
    zero = LOWEST[kind] + 128
    weights = (kind, np.full((len(sums), 4), zero), float(weight_scale), zero)
    biases = ("s32", sums, float(data_scale * weight_scale))
    form = (kind, (1, 4), float(data_scale), zero + 3), (kind, (1, len(sums)), float(output_scale), zero - 7)
    data = written("FULLY_CONNECTED", form[:1], form[1], "FullyConnected", [weights, biases])
    feeds = {"x0": values(kind, (1, 4))}
    graph = with_fused_rules(read_tflite(data, "one"))
    assert graph.operators[-1].rule == "fused"
    np.testing.assert_array_equal(run_reference(graph, feeds)["y"], values_of(data, feeds)["y"])


@BYTES
@pytest.mark.parametrize("word", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize(("kernel", "stride"), [((3, 3), (2, 2)), ((2, 3), (1, 2)), ((5, 4), (3, 1))])
@pytest.mark.parametrize("is_same", [True, False])
def test_pools(kind: str, word: str, kernel: tuple[int, int], stride: tuple[int, int], is_same: bool) -> None:
    height, width = (
        -(-extent // step) if is_same else (extent - reach) // step + 1
        for extent, reach, step in zip((11, 9), kernel, stride, strict=True)
    )
    fields = {"filterHeight": kernel[0], "filterWidth": kernel[1], "strideH": stride[0], "strideW": stride[1]}
    for activation in (0, 1, 3):
        operator = exact_one(
            word,
            (kind, (2, 11, 9, 8), 0.03, LOWEST[kind] + 60),
            (kind, (2, height, width, 8), 0.03, LOWEST[kind] + 60),
            "Pool2D",
            padding=0 if is_same else 1,
            fusedActivationFunction=activation,
            **fields,
        )
        assert (operator.attributes["kernel"], operator.attributes["stride"]) == (kernel, stride)
        assert any(operator.attributes["padding"]) == is_same
        assert operator.attributes.get("include_pad", False) is False


@BYTES
@pytest.mark.parametrize(
    ("axes", "kept", "shape"),
    [
        ([1, 2], True, (2, 1, 1, 8)),
        ([2, 1], False, (2, 8)),
        ([-1], False, (2, 7, 9)),
        ([0, 3], True, (1, 7, 9, 1)),
        ([2], False, (2, 7, 8)),
    ],
)
@pytest.mark.parametrize(("scale", "offset"), [(0.02, 100), (0.013, 87), (0.05, 120), (0.001, 3), (0.9, 30)])
def test_means(kind: str, axes: list[int], kept: bool, shape: tuple[int, ...], scale: float, offset: int) -> None:
    operator = exact_one(
        "MEAN",
        (kind, (2, 7, 9, 8), 0.02, LOWEST[kind] + 100),
        (kind, shape, scale, LOWEST[kind] + offset),
        "Reducer",
        [("s32", axes)],
        version=2,
        keepDims=kept,
    )
    assert operator.attributes["axes"] == tuple(sorted(axis % 4 for axis in axes))


@BYTES
@pytest.mark.parametrize("word", ["SUM", "REDUCE_MAX", "REDUCE_MIN"])
@pytest.mark.parametrize(("axes", "shape"), [([1, 2], (2, 8)), ([-1], (2, 7, 9)), ([0, 1, 2, 3], ()), ([2], (2, 7, 8))])
def test_reductions(kind: str, word: str, axes: list[int], shape: tuple[int, ...]) -> None:
    if (kind, word) == ("s8", "SUM"):
        pytest.skip("LiteRT adds s8 values without their scales")
    for scale, offset in ((0.13, 87), (0.5, 120), (2.0, 3)) if word == "SUM" else ((0.02, 100),):
        data, output = (kind, (2, 7, 9, 8), 0.02, LOWEST[kind] + 100), (kind, shape, scale, LOWEST[kind] + offset)
        exact_one(word, data, output, "Reducer", [("s32", axes)], version=2, keepDims=False)


@BYTES
@pytest.mark.parametrize("word", ["ARG_MAX", "ARG_MIN"])
@pytest.mark.parametrize(("axis", "shape"), [(3, (2, 7, 9)), (0, (7, 9, 8)), (-2, (2, 7, 8))])
def test_places_of_extremes(kind: str, word: str, axis: int, shape: tuple[int, ...]) -> None:
    for made, number in (("s32", 2), ("s64", 4)):
        fields = {"version": 2, "outputType": number}
        data: Form = (kind, (2, 7, 9, 8), 0.02, LOWEST[kind] + 100)
        exact_one(word, data, (made, shape), word.title().replace("_", ""), [("s32", [axis])], **fields)  # type: ignore[arg-type]


@BYTES
@pytest.mark.parametrize("scale", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("beta", [1.0, 0.7])
def test_softmax(kind: str, scale: float, beta: float) -> None:
    for shape in ((20_000, 37), (1, 2, 3, 1001), (4, 1)):
        data, output = (kind, shape, scale, LOWEST[kind] + 100), (kind, shape, 1 / 256, LOWEST[kind])
        operator = exact_one("SOFTMAX", data, output, "Softmax", version=2, beta=beta)
        assert operator.attributes["beta"] == pytest.approx(beta)


TABLES = {
    "RELU": {},
    "RELU6": {},
    "RELU_N1_TO_1": {},
    "RELU_0_TO_1": {},
    "HARD_SWISH": {},
    "LEAKY_RELU": {"alpha": 0.1},
    "TANH": {},
    "LOGISTIC": {},
    "GELU": {},
    "EXP": {},
    "ELU": {},
    "ABS": {},
    "LOG": {},
    "QUANTIZE": {},
}
OPTIONS = {"LEAKY_RELU": "LeakyRelu", "HARD_SWISH": "HardSwish", "GELU": "Gelu", "EXP": "Exp", "QUANTIZE": "Quantize"}


@BYTES
@pytest.mark.parametrize("word", TABLES)
@pytest.mark.matrix(at_most=12)
def test_tables_have_every_value_right(kind: str, word: str) -> None:
    if word in ("ELU", "EXP", "ABS", "LOG") and kind == "u8":
        pytest.skip("LiteRT computes it for s8 only")
    low = LOWEST[kind]
    for scale in (0.02, 0.0173, 0.1, 0.0235):
        for point in (low, low + 3, low + 100, low + 128):
            for ratio, zero_point in ((1.0, point), (0.7, low + 50), (2.3, low + 120), (0.37, low)):
                output = {"LOGISTIC": (1 / 256, low), "TANH": (1 / 128, low + 128)}
                made = output.get(word, (scale * ratio, zero_point))
                data = written(
                    word,
                    [(kind, (1, 256), scale, point)],
                    (kind, (1, 256), *made),
                    OPTIONS.get(word, ""),
                    **TABLES[word],
                )
                # ELU has no reference kernel.
                operator = exact(data, {"x0": values(kind, (1, 256))}, is_reference=word != "ELU")
                assert operator.kind is Kind.LOOKUP


def test_other_functions() -> None:
    others: list[tuple[str, dict[str, Any]]] = [
        ("LEAKY_RELU", {"alpha": 1.3}),
        ("LEAKY_RELU", {"alpha": -0.5}),
        ("GELU", {"approximate": True}),
    ]
    for word, fields in others:
        form = ("s8", (1, 256), 0.03, -9)
        assert exact_one(word, form, form, OPTIONS[word], **fields).kind is Kind.LOOKUP


def test_requantization_to_the_other_type() -> None:
    for kind, other in (("u8", "s8"), ("s8", "u8")):
        for scale, offset in ((0.03, 128), (0.021, 100), (0.5, 7)):
            data, output = (kind, (1, 256), 0.03, LOWEST[kind] + 128), (other, (1, 256), scale, LOWEST[other] + offset)
            assert exact_one("QUANTIZE", data, output, "Quantize").kind is Kind.LOOKUP


@BYTES
def test_between_numbers_and_stored_values(kind: str) -> None:
    writer = Writer()
    data = writer.input("x", "f32", (4, 100))
    middle, made = writer.tensor("y", kind, (4, 100), 0.0173, LOWEST[kind] + 90), writer.tensor("z", "f32", (4, 100))
    writer.operator("QUANTIZE", [data], [middle], "Quantize", 1)
    writer.operator("DEQUANTIZE", [middle], [made], "Dequantize", 2)
    rng = np.random.default_rng(0)
    feed = (2 * rng.standard_normal((4, 100))).astype(np.float32)
    feed[0] = (rng.integers(-300, 300, 100) + 0.5) * np.float32(0.0173)
    feed[1, :3] = 1e6, -1e6, -0.0
    assert exact(writer.model(made), {"x": feed}).kind is Kind.DEQUANTIZE


@BYTES
@pytest.mark.parametrize("word", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
@pytest.mark.parametrize(("corners", "centers"), [(False, False), (True, False), (False, True), (True, True)])
def test_resizes(kind: str, word: str, corners: bool, centers: bool) -> None:
    if word == "RESIZE_BILINEAR" and corners and centers:
        pytest.skip("no runtime has both")
    sizes = [((5, 7), (11, 9)), ((8, 8), (16, 16)), ((9, 12), (4, 5)), ((3, 1), (7, 1)), ((6, 6), (1, 9))]
    sizes += [((13, 11), (29, 31)), ((7, 7), (14, 21)), ((16, 16), (33, 47))]
    options = "ResizeBilinear" if word == "RESIZE_BILINEAR" else "ResizeNearestNeighbor"
    fields = {"version": 3, "alignCorners": corners, "halfPixelCenters": centers}
    for size, made in sizes:
        data, output = ((kind, (2, *each, 3), 0.02, LOWEST[kind] + 7) for each in (size, made))
        assert exact_one(word, data, output, options, [("s32", made)], **fields).kind is Kind.RESIZE


SCALES = [
    ((0.02, 5), (0.02, 5), (0.02, 5)),
    ((0.02, 5), (0.03, 9), (0.025, 7)),
    ((0.013, 5), (0.031, 90), (0.025, 20)),
    ((0.1, 0), (0.5, 100), (0.3, 77)),
    ((0.011, 3), (0.0077, 20), (0.00333, 40)),
]


@pytest.mark.parametrize("scales", SCALES)
def test_concatenation_of_several_scales(scales: Any) -> None:
    """u8 only: LiteRT joins s8 values of one scale."""
    shapes = [(2, 5, 6, 16), (2, 5, 6, 24), (2, 5, 6, 40)]
    first, second, made = (("u8", shape, *scale) for shape, scale in zip(shapes, scales, strict=True))
    feeds = {f"x{index}": values("u8", shapes[index], index) for index in (0, 1)}
    data = written("CONCATENATION", [first, second], made, "Concatenation", axis=-1)
    assert exact(data, feeds).attributes["axis"] == 3
    signed = written("CONCATENATION", [("s8", *first[1:]), ("s8", *second[1:])], ("s8", *made[1:]), "Concatenation")
    assert "one scale" in reason(signed) or scales[0] == scales[1]


@BYTES
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 5, 6, 16), (2, 5, 6, 16)),
        ((2, 5, 6, 16), (2, 1, 1, 16)),
        ((2, 1, 1, 16), (2, 5, 6, 16)),
        ((16,), (2, 5, 6, 16)),
        ((2, 5, 1, 1), (2, 1, 6, 1)),
    ],
)
def test_products(kind: str, scales: Any, shapes: Any) -> None:
    output = np.broadcast_shapes(*shapes)
    first, second, made = ((kind, shape, *scale) for shape, scale in zip((*shapes, output), scales, strict=True))
    feeds = {f"x{index}": values(kind, shapes[index], index) for index in (0, 1)}
    for activation in (0, 3):
        data = written("MUL", [first, second], made, "Mul", fusedActivationFunction=activation, version=2)
        assert exact(data, feeds).kind is Kind.MULTIPLY


@BYTES
@pytest.mark.parametrize("divisors", [range(1, 4), range(4, 8), range(40, 100), range(128, 156), range(-7, -3)])
def test_quotients(kind: str, divisors: range) -> None:
    """By constants next to each other; LiteRT's quotients by 0, or of few bits, are undefined."""
    low, every = LOWEST[kind], values(kind, (1, 256))
    stored = np.array(divisors)[:, None] + low + 100
    for scale in (0.0173, 0.05, 0.3):
        for ratio in (1.01, 1.7):
            made = scale / 0.03 / max(map(abs, divisors)) / ratio
            data, output = (kind, (len(divisors), 256), scale, low + 3), (kind, (len(divisors), 256), made, low + 100)
            file = written("DIV", [data], output, "Div", [(kind, stored, 0.03, low + 100)], version=2)
            assert exact(file, {"x0": np.repeat(every, len(divisors), 0)}).kind is Kind.DIVIDE


def test_quotients_of_scales_whose_product_float32_has_not() -> None:
    form: Form = ("s8", (1, 256), 7.1e29, 3)
    file = written("DIV", [form], form, "Div", [("s8", [1], 7.1e29, 0)], version=2)
    assert exact(file, {"x0": values("s8", (1, 256))}).kind is Kind.DIVIDE


@BYTES
@pytest.mark.parametrize("scales", SCALES)
def test_slopes(kind: str, scales: Any) -> None:
    first, second, made = ((scale, LOWEST[kind] + point) for scale, point in scales)
    every = values(kind, (1, 256))
    for slope in ((1, 1, 256), (256, 1), (1,)):
        alphas = np.resize(every, slope)
        data = written(
            "PRELU", [(kind, (1, 256, 256), *first)], (kind, (1, 256, 256), *made), "", [(kind, alphas, *second)]
        )
        assert exact(data, {"x0": np.broadcast_to(every[0], (1, 256, 256))}).kind is Kind.PRELU


def test_what_has_no_kind_says_why() -> None:
    form: Form = ("s8", (2, 4, 4, 6), 0.02, 3)
    real = ("f32", (2, 4, 4, 6))
    small = ("s8", (2, 2, 2, 6), 0.02, 3)
    pool = {"filterHeight": 2, "filterWidth": 2, "strideH": 2, "strideW": 2}
    cases = [
        (("MIRROR_PAD", [form], form, "MirrorPad"), {}, "1 inputs"),
        (("DIV", [form, ("s8", (4, 6), 0.1, 0)], form, "Div"), {}, "shifted by 0 to 31 bits: 4 for divisors of 0 to 7"),
        (("DIV", [form], form, "Div", [("s8", [3], 0.1, 3)]), {}, "must stand for 0 nowhere"),
        (("DIV", [form], form, "Div", [("s8", [100], 0.1, 0)]), {}, "shifted by 0 to 31 bits"),
        (("SUM", [form], small, "Reducer", [("s32", [1])]), {}, "of u8 values"),
        (("TILE", [form], small, "Tile", [("s32", [1, 1, 1, 2])]), {}, "its output must have shape"),
        (("GATHER", [form], form, "Gather", [("s32", [0, 9, 0, 1])]), {"axis": 1}, "its places on axis 1"),
        (("SOFTMAX", [real], real, "Softmax"), {"beta": 1.0}, "8-bit integers: f32"),
        (("RELU", [real], real), {}, "8-bit integers: f32"),
        (("MEAN", [form], form, "Reducer", [("s32", [7])]), {}, "its axes must ascend"),
        (("MEAN", [form], form, "Reducer", [("s32", [1])]), {}, "must have shape (2, 4, 6)"),
        (("RESHAPE", [form], small), {}, "can't become"),
        (("TRANSPOSE", [form], form, "", [("s32", [0, 0, 1, 2])]), {}, "is no order of 4 axes"),
        (("PAD", [form], form, "", [("s32", [[0, 1]] * 4)]), {}, "must have shape (3, 5, 5, 7)"),
        (("AVERAGE_POOL_2D", [form], ("s8", (2, 2, 2, 6), 0.03, 3), "Pool2D"), pool, "one scale"),
        (("AVERAGE_POOL_2D", [form], form, "Pool2D"), pool, "must have shape (2, 2, 2, 6)"),
        (("AVERAGE_POOL_2D", [form], small, "Pool2D"), {**pool, "strideH": 0}, "out of range"),
        (("MAX_POOL_2D", [form], small, "Pool2D"), {**pool, "fusedActivationFunction": 4}, "activation 4"),
        (("LEAKY_RELU", [form], form, "LeakyRelu"), {"alpha": np.inf}, "must be finite"),
        (("ADD", [form, ("s8", (5,), 0.1, 0)], form, "Add"), {}, "fit each other"),
        (("SLICE", [form], form, "", [("s32", [0, 0]), ("s32", [1, 1])]), {}, "one for each axis"),
    ]
    for arguments, fields, message in cases:
        assert message in reason(written(*arguments, **fields)), arguments[0]


def test_a_bias_has_a_value_for_each_channel() -> None:
    file = written(
        "CONV_2D",
        [("s8", (1, 4, 4, 2), 0.02, 3)],
        ("s8", (1, 4, 4, 5), 0.02, 3),
        "Conv2D",
        [("s8", np.ones((5, 1, 1, 2)), 0.1, 0), ("s32", np.ones(0), 0.002)],
        strideH=1,
        strideW=1,
    )
    with pytest.raises(ModelError, match="its bias must have 5 values: 0"):
        reason(file)


def test_names_are_unique_whatever_they_are() -> None:
    """A second `x` gets a number, but for the one that another tensor has already."""
    writer = Writer()
    names = ["x", "x#1", "x", "x#2", "", "#4"]
    tensors = [writer.tensor(name, "s8", (4,), 0.1, 0) for name in names]
    writer.inputs = tensors[:1]
    for before, after in pairwise(tensors):
        writer.operator("RESHAPE", [before], [after], "Reshape", 1)
    graph = read_tflite(writer.model(tensors[-1]), "names")
    assert len(graph.values) == len(names)
    assert list(graph.values)[:4] == ["x", "x#1", "x#8", "x#2"]
    feed = values("s8", (4,))
    np.testing.assert_array_equal(run_reference(graph, {"x": feed})[graph.outputs[0]], feed)


def test_tensors_of_other_types_do_no_harm() -> None:
    writer = Writer()
    data, made = writer.input("x", "s8", (2, 6), 0.1, 0), writer.tensor("y", "s8", (3, 4), 0.1, 0)
    for kind in ("f16", "f64", "bool", "s16", "s64"):
        read = writer.constant(kind, kind, [1, 0, 1])
        writer.operator("CAST", [read], [writer.tensor(f"{kind} as f32", "f32", (3,))], "Cast", 1)
    writer.operator("RESHAPE", [data], [made], "Reshape", 1)
    graph = read_tflite(writer.model(made), "types")
    assert {graph.values[kind].type for kind in ("f16", "f64", "bool")} == {"f16", "f64", "bool"}
    assert graph.operators[0].kind is Kind.RESHAPE


def test_what_computes_a_known_shape_is_dropped() -> None:
    writer = Writer()
    data, made = writer.input("x", "s8", (2, 6), 0.1, 0), writer.tensor("y", "s8", (3, 4), 0.1, 0)
    shape = writer.tensor("shape", "s32", (2,))
    writer.operator("SHAPE", [data], [shape], "Shape", 1)
    writer.operator("RESHAPE", [data, shape], [made], "Reshape", 1)
    graph = read_tflite(writer.model(made), "shape")
    assert [each.kind for each in graph.operators] == [Kind.RESHAPE]
    assert "shape" not in graph.values


def test_operators_run_in_their_order() -> None:
    for order, message in (((1, 0), "reads `b`, which nothing makes before"), ((0, 0), "makes `b`, which something")):
        writer = Writer()
        names = [writer.input("a", "s8", (4,), 0.1, 0), *(writer.tensor(name, "s8", (4,), 0.1, 0) for name in "bc")]
        for step in order:
            writer.operator("RESHAPE", [names[step]], [names[step + 1]], "Reshape", 1)
        with pytest.raises(ModelError, match=message):
            read_tflite(writer.model(names[2]), "order")
    writer = Writer()
    data, made = writer.input("x", "s8", (4,), 0.1, 0), writer.tensor("y", "s8", (4,), 0.1, 0)
    with pytest.raises(ModelError, match="output `y` is made by no operator"):
        read_tflite(writer.model(made), "order")
    assert data == 0
