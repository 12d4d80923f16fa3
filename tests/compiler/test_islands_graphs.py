"""Islands among integer operators: what becomes one, what stays exact, whole models, and indices that point outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.graph import Graph, Kind
from int8tune.compiler.islands.island import float_operators, island_of
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.quantized_layers import quantized_layers
from tests.support.models.compiled import assert_close_but_exact_integers
from tests.support.models.onnx_islands import (
    OF_LARGEST,
    RELATIVE,
    SHAPE,
    IslandWriter,
    assert_close,
    compiled,
    feed_of,
    outputs_of,
)
from tests.support.models.onnx_models import MODELS, input_data, quantized, values_of
from tests.support.models.shared_models import more_model
from tests.support.run.probes import host_target
from tests.support.run.thinned import one_in

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which islands are compared with")

RNG = np.random.default_rng(2)


def convolution(
    w: IslandWriter, data: str, channels: int, bias: str = "", behind: bool = True, kernel: tuple[int, ...] = (3, 3)
) -> str:
    """A convolution of quantized values with a scale per channel, with a quantized output or without."""
    name = f"conv {len(w.nodes)}"
    scale = RNG.uniform(0.005, 0.02, channels).astype(np.float32)
    w.constant(f"{name}.w", RNG.integers(-127, 128, (channels, SHAPE[1], *kernel)), np.int8)
    parameters = [w.constant(f"{name}.ws", scale), w.constant(f"{name}.wz", np.zeros(channels), np.int8)]
    taken = [data, w.node("DequantizeLinear", [f"{name}.w", *parameters], f"{name}.wd", axis=0)]
    if bias == "stored":
        w.constant(f"{name}.b", RNG.integers(-3000, 3000, channels), np.int32)
        w.constant(f"{name}.bs", np.float32(0.03) * scale)
        taken.append(w.node("DequantizeLinear", [f"{name}.b", f"{name}.bs"], f"{name}.bd", axis=0))
    elif bias:
        taken.append(w.constant(f"{name}.b", RNG.normal(size=channels)))
    made = w.node("Conv", taken, f"{name}.y", name, pads=[1] * (2 * len(kernel)))
    return w.quantized(made) if behind else made


def kinds(graph: Graph) -> list[Kind]:
    return [operator.kind for operator in graph.operators]


def test_what_is_around_islands_is_exact(tmp_path: Path) -> None:
    w = IslandWriter()
    first = convolution(w, w.data, 6, "stored")
    curve = w.quantized(w.apply("Softplus", w.apply("Mul", first, w.apply("Exp", w.apply("Neg", first)))))
    second = convolution(w, curve, 6, "stored")
    file = w.file(w.apply("Add", second, w.apply("Elu", curve)), second)
    graph = read_onnx(file, "islands")
    assert kinds(graph).count(Kind.FLOAT) == 2
    assert_close_but_exact_integers(graph, host_target(), {"x": feed_of()}, tmp_path, RELATIVE, OF_LARGEST)


def test_integers_are_compared_on_what_islands_made(tmp_path: Path) -> None:
    """Some of half a million numbers are so near the middle between two steps that they are rounded otherwise."""
    shape = (8, 64, 32, 32)
    w = IslandWriter(shape)
    parameters = [w.constant("step", 0.008), w.constant("middle", 128, np.uint8)]
    w.node("QuantizeLinear", [w.apply("Tanh", "x"), *parameters], "tanh.q")
    data = w.node("DequantizeLinear", ["tanh.q", *parameters], "tanh.d")
    file = w.file(w.quantized(w.apply("MaxPool", data, kernel_shape=[1, 2])))
    graph, feed = read_onnx(file, "steps"), feed_of(shape)
    assert_close_but_exact_integers(graph, host_target(), {"x": feed}, tmp_path, RELATIVE, OF_LARGEST)


@pytest.mark.parametrize("profile", one_in(2, ["x86-avx2", "generic"]))
def test_other_targets(profile: str, tmp_path: Path) -> None:
    w = IslandWriter()
    attention = w.apply("MatMul", w.data, w.apply("Transpose", w.apply("Erf", w.data), perm=[0, 1, 3, 2]))
    made = w.apply("Softmax", attention, axis=-1)
    file, feed = w.file(made, w.apply("Gelu", w.data)), feed_of()
    model = compiled(file, tmp_path, host_target(profile))
    names = [form["name"] for form in model.about.outputs]
    assert_close(dict(zip(names, model.run([feed]), strict=True)), values_of(file, names, feed))


@pytest.mark.thorough
def test_several_threads(tmp_path: Path) -> None:
    from dataclasses import replace

    w = IslandWriter((1, 64, 48, 48))
    file = w.file(w.apply("MatMul", w.data, RNG.normal(size=(48, 40))), w.apply("Softmax", w.data, axis=1))
    feed = feed_of((1, 64, 48, 48))
    model = compiled(file, tmp_path, replace(host_target(), threads=2))
    names = [form["name"] for form in model.about.outputs]
    assert_close(dict(zip(names, model.run([feed]), strict=True)), values_of(file, names, feed))


@pytest.mark.parametrize("profile", ["", "x86-avx2", "generic"])
@pytest.mark.parametrize("factor", ["number", "channel"])
@pytest.mark.matrix
def test_a_product_is_rounded_before_it_is_added_to(factor: str, profile: str, tmp_path: Path) -> None:
    """As the model says: one instruction for both rounds once, and many a DynamicQuantizeLinear behind it turns."""
    w = IslandWriter()
    by, plus = (1.1, 0.7) if factor == "number" else (RNG.normal(size=(6, 1, 1)), RNG.normal(size=(6, 1, 1)))
    file = w.file(w.apply("Sub", w.apply("Add", w.apply("Mul", "x", by), plus), w.apply("Mul", "x", "x")))
    feed = feed_of()
    (made,) = compiled(file, tmp_path, host_target(profile) if profile else None).run([feed])
    factors, terms = np.asarray(by, np.float32), np.asarray(plus, np.float32)
    np.testing.assert_array_equal(made, feed * factors + terms - feed * feed)


@pytest.mark.parametrize("bias", one_in(3, ["stored", "", "number"]))
def test_a_layer_without_a_quantized_output_has_exact_sums(bias: str, tmp_path: Path) -> None:
    w = IslandWriter()
    made = w.apply("Softplus", convolution(w, w.data, 12, bias, behind=False))
    file = w.file(made)
    graph = read_onnx(file, "sums")
    (layer,) = quantized_layers(graph)
    assert layer.workload.numerics.output == "s32"
    assert kinds(graph).count(Kind.FLOAT) == 1
    assert_close_but_exact_integers(graph, host_target(), {"x": feed_of()}, tmp_path, RELATIVE, OF_LARGEST)
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of()}))


@pytest.mark.thorough
def test_a_layer_of_one_dimension_has_exact_sums(tmp_path: Path) -> None:
    shape = (*SHAPE[:2], 20)
    w = IslandWriter(shape)
    file = w.file(w.apply("Softplus", convolution(w, w.data, 12, "stored", behind=False, kernel=(3,))))
    (layer,) = quantized_layers(graph := read_onnx(file, "row"))
    assert layer.workload.numerics.output == "s32"
    assert_close_but_exact_integers(graph, host_target(), {"x": feed_of(shape)}, tmp_path, RELATIVE, OF_LARGEST)
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of(shape)}))


@pytest.mark.parametrize(("scale", "islands"), [(0.03, 0), (0.04, 1)])
def test_what_joins_values_of_one_scale_stays_quantized(scale: float, islands: int, tmp_path: Path) -> None:
    """As NNCF writes it: nothing quantizes what a Concat makes."""
    w = IslandWriter()
    pooled = w.apply("MaxPool", w.data, kernel_shape=[3, 3], pads=[1] * 4)
    parameters = [w.constant("other scale", scale), w.constant("other zero point", 120, np.uint8)]
    w.node("QuantizeLinear", [pooled, *parameters], "other.q")
    other = w.node("DequantizeLinear", ["other.q", *parameters], "other")
    file = w.file(convolution(w, w.apply("Concat", w.data, other, axis=2), 12, "stored"))
    assert kinds(read_onnx(file, "joined")).count(Kind.FLOAT) == islands
    ours, theirs = outputs_of(file, tmp_path, {"x": feed_of()})
    if not islands:
        assert all((ours[name] == theirs[name]).all() for name in theirs)


@pytest.mark.parametrize(("kernel", "stride"), one_in(2, [(1, 1), (2, 2), (3, 2)]))
@pytest.mark.matrix(at_most=1)
def test_a_transposed_convolution_without_a_quantized_output_is_no_other_layer(
    kernel: int, stride: int, tmp_path: Path
) -> None:
    w = IslandWriter()
    weight = w.constant("w", RNG.integers(-127, 128, (SHAPE[1], SHAPE[1], kernel, kernel)), np.int8)
    real = w.node("DequantizeLinear", [weight, w.constant("ws", 0.01), w.constant("wz", 0, np.int8)], "wd")
    file = w.file(w.apply("Elu", w.apply("ConvTranspose", w.data, real, strides=[stride] * 2)))
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of()}))


def test_dense_layers_without_a_quantized_output(tmp_path: Path) -> None:
    w = IslandWriter()
    weight = w.constant("w", RNG.integers(-127, 128, (8, 5)), np.int8)
    scales = [w.constant("ws", RNG.uniform(0.01, 0.02, 5)), w.constant("wz", np.zeros(5), np.int8)]
    real = w.node("DequantizeLinear", [weight, *scales], "wd", axis=1)
    flat = w.apply("Flatten", w.data, axis=3)
    file = w.file(w.apply("MatMul", w.data, real), w.apply("Gemm", flat, real, RNG.normal(size=5)))
    assert [layer.workload.op for layer in quantized_layers(read_onnx(file, "dense"))] == ["dense", "dense"]
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of()}))


def test_an_island_needs_nothing_that_is_made_of_itself() -> None:
    """The sum reads a float directly, and by way of an integer operator: it is an island of its own."""
    w = IslandWriter()
    curve = w.apply("Exp", w.data)
    pooled = w.quantized(w.apply("MaxPool", w.quantized(curve), kernel_shape=[3, 3], pads=[1] * 4))
    file = w.file(w.apply("Log", w.apply("Add", curve, pooled)))
    graph = read_onnx(file, "two")
    islands = [island_of(each) for each in graph.operators if each.kind is Kind.FLOAT]
    assert [[part.operator for part in island.parts] for island in islands] == [["Exp"], ["Add", "Log"]]
    made: set[str] = {*graph.inputs}
    for operator in graph.operators:
        read = {name for name in operator.inputs if graph.values[name].constant is None}
        assert read <= made
        made.update(operator.outputs)


def test_shapes_that_are_computed_are_known(tmp_path: Path) -> None:
    """As PyTorch writes the heads of an attention: x.view(n, -1, 3, width / 3)."""
    w = IslandWriter((2, 8, 12))
    shape = w.apply("Shape", w.data)
    batch, width = (w.apply("Gather", shape, np.array(axis)) for axis in (0, 2))
    parts = [w.apply("Unsqueeze", each, np.array([0])) for each in (batch, w.apply("Div", width, np.array(3)))]
    heads = w.apply("Concat", parts[0], np.array([-1]), np.array([3]), parts[1], axis=0)
    split = w.apply("Transpose", w.apply("Reshape", w.apply("Softplus", w.data), heads), perm=[0, 2, 1, 3])
    root = w.apply("Sqrt", w.apply("Cast", w.apply("Div", width, np.array(3)), to=1))
    scaled = w.apply("Div", split, root)
    scores = w.apply("MatMul", scaled, w.apply("Transpose", scaled, perm=[0, 1, 3, 2]))
    file = w.file(w.apply("Softmax", scores, axis=-1))
    assert {"Shape", "Concat", "Sqrt"}.isdisjoint(float_operators(read_onnx(file, "heads")))
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of((2, 8, 12))}))


@pytest.mark.thorough
def test_bytes_are_moved_and_not_numbers(tmp_path: Path) -> None:
    w = IslandWriter()
    first = convolution(w, w.data, 6)
    file = w.file(convolution(w, w.quantized(w.apply("LRN", first, size=3)), 4))
    graph = read_onnx(file, "moved")
    moved = [each for each in graph.operators if each.kind is Kind.TRANSPOSE]
    assert {graph.values[each.inputs[0]].type for each in moved} == {"u8"}
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of()}))


def test_inputs_and_outputs_may_be_numbers_and_indices(tmp_path: Path) -> None:
    w = IslandWriter()
    places = w.integer_input("places", (3,))
    file = w.file(w.apply("Gather", w.apply("Exp", w.data), places, axis=1), w.apply("Sin", "x"), w.data)
    feeds: dict[str, Any] = {"x": feed_of(), "places": np.array([5, -6, 0])}
    assert_close(*outputs_of(file, tmp_path, feeds))


@pytest.mark.thorough
def test_the_greatest_of_nothing_finite_is_infinite(tmp_path: Path) -> None:
    w = IslandWriter()
    rows = w.apply("Where", w.apply("Less", w.data, 0.5), w.apply("Log", w.apply("Mul", w.data, 0.0)), w.data)
    axes = (np.array([3]), np.array([1, 2]), np.array([0, 1, 2, 3]))
    names = [
        w.apply(operator, sign, each, keepdims=kept)
        for operator, sign in (("ReduceMax", rows), ("ReduceMin", w.apply("Neg", rows)))
        for each, kept in zip(axes, (1, 0, 0), strict=True)
    ]
    ours, theirs = outputs_of(w.file(*names), tmp_path, {"x": feed_of() - 2.0})
    assert any(np.isinf(each).any() for each in theirs.values())
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected)


@pytest.mark.parametrize("places", one_in(2, [[6, 1 << 62, -(1 << 62)], [-7, 100, -100]]))
def test_indices_that_point_outside_are_clipped(places: list[int], tmp_path: Path) -> None:
    """ONNX Runtime stops there; TVM's own kernels read whatever is in memory."""
    w = IslandWriter()
    place = w.integer_input("places", (3,))
    curve = w.apply("Exp", w.data)
    wide = w.apply("Expand", w.apply("Reshape", place, np.array([1, 3, 1, 1])), np.array([2, 3, 5, 8]))
    pairs = w.apply("Concat", *[w.apply("Unsqueeze", place, np.array([1]))] * 2, axis=1)
    made = [
        w.apply("Gather", curve, place, axis=1),
        w.apply("GatherElements", curve, wide, axis=1),
        w.apply("GatherND", curve, pairs),
    ]
    model = compiled(w.file(*made, curve), tmp_path)
    gathered, elements, parts, data = model.run([feed_of(), np.array(places)])
    extents = [np.clip(np.where(np.array(places) < 0, np.array(places) + n, places), 0, n - 1) for n in (6, 2)]
    np.testing.assert_array_equal(gathered, data[:, extents[0]])
    np.testing.assert_array_equal(elements, data[:, extents[0]])
    np.testing.assert_array_equal(parts, data[extents[1], extents[0]])


@pytest.mark.thorough
def test_numbers_that_are_none_harm_nothing(tmp_path: Path) -> None:
    w = IslandWriter()
    curves = [w.apply(each, "x") for each in ("Exp", "Erf", "Tanh", "Sigmoid", "Gelu")]
    theirs = values_of(w.file(*curves), curves, feed := spoiled())
    part = w.apply("Slice", "x", np.array([0]), np.array([1]), np.array([3]))
    index = w.apply("Cast", w.apply("Reshape", part, np.array([-1])), to=7)
    others = [w.apply(each, "x") for each in ("Softmax", "Round", "Log")]
    file = w.file(*curves, *others, w.apply("Gather", w.data, index, axis=1), w.quantized(w.apply("Elu", "x")))
    model = compiled(file, tmp_path)
    made = dict(zip([form["name"] for form in model.about.outputs], model.run([feed]), strict=True))
    assert_close({name: made[name] for name in curves}, theirs)


def spoiled() -> Any:
    """Numbers with some that are none, or infinite."""
    feed = feed_of()
    flat = feed.reshape(-1)
    flat[::7], flat[1::11], flat[2::13] = np.nan, np.inf, -np.inf
    return feed


@pytest.mark.matrix
@pytest.mark.parametrize("name", one_in(5, ["residual", "separable", "windows", "head", "concat"]))
@pytest.mark.parametrize("operators", [("Conv",), ("Conv", "Gemm", "MatMul")], ids="+".join)
def test_models_of_which_only_layers_are_quantized(name: str, operators: tuple[str, ...], tmp_path: Path) -> None:
    """As `quantize_static(..., op_types_to_quantize=...)` writes them: everything else is float."""
    model = MODELS[name]()
    file = quantized(model, tmp_path, "u8", "s8", per_channel=True, operators=operators)
    graph = read_onnx(file, name)
    layers = sum(node.op_type in operators for node in model.graph.node)
    assert len(quantized_layers(graph)) == layers
    feed = input_data(model, 5)
    assert_close_but_exact_integers(graph, host_target(), {"x": feed}, tmp_path, RELATIVE, OF_LARGEST)
    ours, theirs = outputs_of(file, tmp_path, {"x": feed})
    for output, expected in theirs.items():
        # A number that is next to the middle of two steps may be rounded to the other one.
        np.testing.assert_allclose(ours[output], expected, atol=0.02 * float(np.abs(expected).max()))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name",
    [
        "conv1d.u8s8",
        pytest.param("convnext_atto.u8s8", marks=pytest.mark.thorough),
        "espcn.u8s8",
        "mlp.dynamic",
        "mlp.u8s8",
        pytest.param("mobilenet_v3_small.convonly", marks=pytest.mark.thorough),
        "two_in_two_out.convonly",
        "unet.convonly",
        "unet.u8s8",
        pytest.param("vit_tiny_d3.u8s8", marks=pytest.mark.thorough),
        pytest.param("yolo.u8s8", marks=pytest.mark.thorough),
    ],
)
def test_whole_models(name: str, tmp_path: Path) -> None:
    file = more_model(f"{name}.onnx").read_bytes()
    model = compiled(file, tmp_path)
    feeds = {form["name"]: feed_of(form["shape"], seed) for seed, form in enumerate(model.about.inputs)}
    theirs = values_of(file, [form["name"] for form in model.about.outputs], feeds)
    for ours, expected in zip(model.run(list(feeds.values())), theirs.values(), strict=True):
        # Rounding moves single values by a step: of these models, none on the day when this was written.
        largest = float(np.abs(expected).max())
        assert np.mean(np.abs(ours - expected) > OF_LARGEST * largest) <= 0.01
        np.testing.assert_allclose(ours, expected, atol=0.02 * largest)


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_bias_of_rows_is_none_of_channels(is_stored: bool, tmp_path: Path) -> None:
    """The bias has as many values as there are channels, but one for each row."""
    w = IslandWriter((6, 12))
    w.constant("w", w.rng.integers(-127, 128, (12, 6)), np.int8)
    w.node("DequantizeLinear", ["w", w.constant("w.s", 0.01)], "w.d")
    made = w.apply("Gemm", w.data, "w.d", np.arange(6).reshape(6, 1) * 0.5)
    file = w.file(w.quantized(made) if is_stored else made)
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of((6, 12))}))
