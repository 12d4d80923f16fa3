"""ONNX models: the layers of what ONNX Runtime quantizes, as it computes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.graph import Graph, Kind
from int8tune.compiler.layer_operands import layer_operands
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.quantized_layers import quantized_layers
from int8tune.schedules.oracle.reference import reference
from tests.support.models.onnx_models import MODELS, input_data, quantized, quantized_layer, values_of

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")

Array = npt.NDArray[Any]

# Data, weights, per channel, symmetric data.
FORMS = {
    "u8s8.t": ("u8", "s8", False, False),
    "u8s8.c": ("u8", "s8", True, False),
    "s8s8.c": ("s8", "s8", True, False),
    "s8s8.c symmetric": ("s8", "s8", True, True),
    "u8u8.t": ("u8", "u8", False, False),
}

# As in `u8s8.c`: what other forms change is the types, the letter of the rule and the weights' zero point.
KEYS = {
    "residual": [
        (("stem",), "conv2d-TT-1x9x8x6-k3x3x8-s1-p1-float.R-D"),
        (("body", "add"), "conv2d-TT-1x9x8x8-k3x3x8-s1-p1-float.R-addD-D"),
    ],
    "separable": [
        (("stem",), "conv2d-TT-1x10x11x3-k3x3x8-s2-p0.0.1.1-float.R-D"),
        (("depthwise",), "dwconv2d-TT-1x5x5x8-k3x3x1-s1-p1-float.R-D"),
        (("pointwise",), "conv2d-TT-1x5x5x8-k1x1x16-s1-p0-float.R-D"),
    ],
    "windows": [
        (("grouped",), "conv2d-TT-2x12x9x4-k3x2x6-s1-p2.0.1.1-d2x1-g2-float.R-D"),
        (("double",), "dwconv2d-TT-2x11x9x6-k4x3x2-s2x1-p1.1.2.1-float.R-D"),
        (("lower",), "conv2d-TT-2x6x9x12-k2x2x5-s1-p1.1.0.0-float.R-D"),
    ],
    "head": [
        (("stem",), "conv2d-TT-3x6x6x4-k3x3x10-s1-p0-float.R-D"),
        (("fc1",), "dense-TT-3x10-o7-float.R-D"),
        (("fc2",), "dense-TT-3x7-o9-float.R-D"),
        (("fc3",), "dense-TT-3x9-o5-float.R-D"),
    ],
    "concat": [
        (("left",), "conv2d-TT-1x8x8x3-k1x1x4-s1-p0-float.R-D"),
        (("right",), "conv2d-TT-1x8x8x3-k3x3x6-s1-p1-float.R-D"),
        (("mixed",), "conv2d-TT-1x4x4x10-k1x1x8-s1-p0-float.R-D"),
    ],
}


# Relu and Clip are nodes of their own only where zero is within the range of the stored values.
FUSED = {
    "residual": [("stem", "relu1"), ("body", "add", "relu2")],
    "separable": [("stem", "clip1"), ("depthwise", "clip2"), ("pointwise",)],
    "windows": [("grouped",), ("double",), ("lower",)],
    "head": [("stem", "relu"), ("fc1",), ("fc2",), ("fc3",)],
    "concat": [("left", "relu1"), ("right", "relu2"), ("mixed",)],
}


def expected(name: str, form: str) -> list[tuple[tuple[str, ...], str]]:
    data, weight, per_channel, symmetric = FORMS[form]
    layers = []
    for (names, key), fused in zip(KEYS[name], FUSED[name], strict=True):
        rule = f"{'wz-' if weight == 'u8' else ''}float.{'c' if per_channel else 't'}"
        clamps = symmetric and names != fused
        key = key.replace("TT", f"{data}{weight}").replace("float.R", rule)
        head, last = key.rsplit("-", 1)
        key = f"{head}{'-clamp' if clamps else ''}-{last}".replace("addD", f"add{data}").replace("-D", f"-{data}")
        layers.append((fused if symmetric else names, key))
    return layers


def channels_last(array: Array) -> Array:
    return array.transpose(0, 2, 3, 1) if array.ndim == 4 else array


def require_exact(graph: Graph, file: bytes, feed: Array, steps: int = 0) -> int:
    """Compare each layer's outputs with ONNX Runtime's; returns how many differ, by `steps` at most."""
    layers = quantized_layers(graph)
    names = {name for layer in layers for each in (layer.operator, layer.addition) if each for name in each.outputs}
    names |= {layer.operator.inputs[0] for layer in layers} | {each.residual for each in layers if each.residual}
    theirs = {name: channels_last(array) for name, array in values_of(file, sorted(names), feed).items()}
    differ = 0
    for layer in layers:
        residual, last = layer.residual, (layer.addition or layer.operator).outputs[0]
        added = None if residual is None else theirs[residual]
        operands = layer_operands(graph, layer, theirs[layer.operator.inputs[0]], added)
        wide = reference(layer.workload, operands).astype(np.int64) - theirs[last]
        assert np.abs(wide).max() <= steps, layer.names
        assert len(np.unique(theirs[last])) > 4, f"{layer.names}: too few values to show anything"
        differ += np.count_nonzero(wide)
    return differ


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MODELS)
def test_layers_of_quantized_models_bit_for_bit(name: str, form: str, tmp_path: Path) -> None:
    data, weight, per_channel, symmetric = FORMS[form]
    model = MODELS[name]()
    file = quantized(model, tmp_path, data, weight, per_channel, symmetric=symmetric)
    graph = read_onnx(file, name)
    assert [(layer.names, layer.workload.key) for layer in quantized_layers(graph)] == expected(name, form)
    require_exact(graph, file, input_data(model, 9))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("per_channel", [False, True])
def test_qlinear_nodes_are_the_same_layers(name: str, per_channel: bool, tmp_path: Path) -> None:
    model = MODELS[name]()
    file = quantized(model, tmp_path, "u8", "u8" if not per_channel else "s8", per_channel, form="QOperator")
    graph = read_onnx(file, name)
    found = [layer.workload.key for layer in quantized_layers(graph)]
    assert found == [key for _, key in expected(name, "u8s8.c" if per_channel else "u8u8.t")]
    layers = (Kind.CONV2D, Kind.DEPTHWISE, Kind.DENSE, Kind.ADD, Kind.QUANTIZE)
    assert all(each.operator.startswith("Q") for each in graph.operators if each.kind in layers)
    require_exact(graph, file, input_data(model, 9))


def test_a_graph_is_whole_and_can_run_in_its_order(tmp_path: Path) -> None:
    for name, make in MODELS.items():
        graph = read_onnx(quantized(make(), tmp_path, "u8", "s8", True), name)
        known = {*graph.inputs, *(value.name for value in graph.values.values() if value.constant is not None)}
        for operator in graph.operators:
            assert known.issuperset(operator.inputs), operator.layers
            assert known.isdisjoint(operator.outputs), operator.layers
            known.update(operator.outputs)
        assert known == set(graph.values)
        assert known.issuperset(graph.outputs)
        assert len({layer for each in graph.operators for layer in each.layers}) >= len(graph.operators)


def test_values_are_the_file_s(tmp_path: Path) -> None:
    """Every scale and constant, in the axes of the graph."""
    file = quantized(MODELS["windows"](), tmp_path, "s8", "s8", True)
    graph = read_onnx(file, "windows")
    tensors = {
        each.name: onnx.numpy_helper.to_array(each) for each in onnx.ModelProto.FromString(file).graph.initializer
    }
    weight, data = graph.values["double.w_quantized"], graph.values["grouped.y_QuantizeLinear_Output"]
    assert weight.constant is not None
    assert weight.quantization is not None
    assert data.quantization is not None
    np.testing.assert_array_equal(weight.constant, tensors["double.w_quantized"].transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(weight.quantization.scale, tensors["double.w_scale"])
    assert (weight.shape, weight.type, weight.quantization.axis) == ((12, 4, 3, 1), "s8", 0)
    assert (data.shape, data.type, data.quantization.axis) == ((2, 11, 9, 6), "s8", None)
    assert data.quantization.scale == tensors["grouped.y_scale"]
    assert data.quantization.zero_point == tensors["grouped.y_zero_point"]
    bias = graph.values["double.b_quantized"]
    assert bias.constant is not None
    assert bias.quantization is not None
    np.testing.assert_array_equal(bias.constant, tensors["double.b_quantized"])
    np.testing.assert_allclose(bias.quantization.scale, tensors["double.b_quantized_scale"].ravel(), rtol=1e-6)
    assert graph.values["x"].type == "f32"
    assert graph.values["x"].shape == (2, 12, 9, 4)
    assert graph.operators[1].attributes == {
        "stride": (1, 1),
        "padding": (2, 0, 1, 1),
        "dilation": (2, 1),
        "groups": 2,
    }


def test_other_operators_keep_names_and_quantized_values(tmp_path: Path) -> None:
    graph = read_onnx(quantized(MODELS["head"](), tmp_path, "u8", "s8", False), "head")
    others = {each.layers[0]: each for each in graph.operators if each.kind is not Kind.DENSE}
    assert (others["flat node"].operator, others["flat node"].kind) == ("Flatten", Kind.RESHAPE)
    assert others["flat node"].inputs == ("pooled_QuantizeLinear_Output",)
    assert others["flat node"].outputs == ("flat_QuantizeLinear_Output",)
    assert graph.outputs == ("y",)
    assert others["y_DequantizeLinear"].outputs == ("y",)
    assert graph.values["pooled_QuantizeLinear_Output"].shape == (3, 1, 1, 10)


# Single layers, node by node.


@pytest.mark.parametrize("data_type", [np.uint8, np.int8])
@pytest.mark.parametrize(
    ("activation", "zero_point", "clamp"),
    [
        (None, 7, None),
        ("Relu", 7, (7, None)),
        ("Relu", None, (None, None)),
        ("Clip", 40, (23, 65)),
        ("Clip", 120, (103, 145)),
    ],
)
def test_clamps_are_bounds_of_stored_values(
    activation: str | None, zero_point: int | None, clamp: Any, data_type: Any
) -> None:
    """ONNX Runtime computes these layers in floats where a Relu or Clip is left: that rounds a few values otherwise."""
    lowest, highest = np.iinfo(data_type).min, np.iinfo(data_type).max
    point = int(lowest if zero_point is None else zero_point)
    model = quantized_layer(activation=activation, data_type=data_type, zero_point=point, shape=(1, 4, 40, 40))
    graph = read_onnx(model.SerializeToString(), "layer")
    (operator,) = (each for each in graph.operators if each.kind is Kind.CONV2D)
    if clamp is not None:
        low, high = clamp
        clamp = (lowest if low is None else low, highest if high is None else min(high, highest))
    assert operator.clamp == clamp
    assert operator.layers == (("conv", "activation") if activation else ("conv",))
    (layer,) = quantized_layers(graph)
    assert layer.workload.numerics.clamp == (clamp not in (None, (lowest, highest)))
    file = model.SerializeToString()
    differ = require_exact(graph, file, 2 * input_data(model, 3), steps=1 if activation else 0)
    assert differ <= 0.001 * 6 * 38 * 38


def test_an_activation_behind_the_quantization_is_fused_if_that_stays() -> None:
    for second, names in (("y.scale", ("conv", "late")), ("x.scale", ("conv",))):
        model = quantized_layer(zero_point=9)
        nodes = model.graph.node
        make = onnx.helper.make_node
        nodes.append(make("Relu", ["y"], ["late.r"], name="late"))
        nodes.append(make("QuantizeLinear", ["late.r", second, "y.zero"], ["late.q"]))
        nodes.append(make("DequantizeLinear", ["late.q", second, "y.zero"], ["late.y"]))
        model.graph.output[0].name = "late.y"
        file = model.SerializeToString()
        graph = read_onnx(file, "layer")
        (layer,) = quantized_layers(graph)
        assert layer.names == names
        assert layer.operator.clamp == ((9, 255) if len(names) == 2 else None)
        require_exact(graph, file, input_data(model, 3))


def test_float_weights_are_quantized_as_the_file_says() -> None:
    model = quantized_layer(float_weight=True)
    file = model.SerializeToString()
    graph = read_onnx(file, "layer")
    (layer,) = quantized_layers(graph)
    weight = graph.values[layer.operator.inputs[1]].constant
    assert weight is not None
    np.testing.assert_array_equal(weight, channels_last(values_of(file, ["w"], input_data(model, 0))["w"]))
    require_exact(graph, file, input_data(model, 3))


def test_a_float_bias_is_rounded_to_the_scale_of_the_sums() -> None:
    model = quantized_layer()
    nodes = {node.output[0]: node for node in model.graph.node}
    model.graph.node.remove(nodes["bd"])
    near = np.float32(0.45 * 0.0002)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.linspace(-1, 1, 6, dtype=np.float32) + near, "bd"))
    file = model.SerializeToString()
    graph = read_onnx(file, "layer")
    (layer,) = quantized_layers(graph)
    bias = graph.values[layer.operator.inputs[2]].constant
    assert bias is not None
    assert bias.tolist() == [-5000, -3000, -1000, 1000, 3000, 5000]
    assert require_exact(graph, file, input_data(model, 3), steps=1) <= 1


def test_a_pool_without_quantization_does_not_break_the_chain() -> None:
    model = quantized_layer()
    make = onnx.helper.make_node
    model.graph.node.extend(
        [
            make("MaxPool", ["y"], ["p"], name="pool", kernel_shape=[2, 2]),
            make("Conv", ["p", "w2d"], ["c2"], name="second"),
            make("QuantizeLinear", ["c2", "y.scale", "y.zero"], ["c2q"]),
            make("DequantizeLinear", ["c2q", "y.scale", "y.zero"], ["c2d"]),
            make("DequantizeLinear", ["w2", "w.scale", "w.zero"], ["w2d"]),
        ]
    )
    weight = np.arange(12, dtype=np.int8).reshape(2, 6, 1, 1)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w2"))
    model.graph.output[0].name = "c2d"
    graph = read_onnx(model.SerializeToString(), "chain")
    assert [layer.names for layer in quantized_layers(graph)] == [("conv",), ("second",)]
    pool = next(each for each in graph.operators if each.layers == ("pool",))
    assert (pool.kind, pool.inputs, pool.outputs) == (Kind.MAX_POOL, ("yq",), ("p",))
    assert graph.values["p"].quantization is graph.values["yq"].quantization
    assert graph.values["p"].type == "u8"


def test_a_layer_whose_output_stays_float_has_sums_of_32_bits() -> None:
    model = quantized_layer()
    model.graph.output[0].name = "c"
    for node in list(model.graph.node)[-2:]:
        model.graph.node.remove(node)
    graph = read_onnx(model.SerializeToString(), "layer")
    (layer,) = quantized_layers(graph)
    assert layer.workload.key == "conv2d-u8s8-1x5x6x4-k3x3x6-s1-p0-s32"
    assert (graph.operators[-1].kind, graph.operators[-1].outputs) == (Kind.FLOAT, ("c",))
    assert graph.values["c"].type == "f32"


def test_names_stand_in_for_nodes_without_names() -> None:
    model = quantized_layer(activation="Relu")
    for node in model.graph.node:
        node.name = ""
    graph = read_onnx(model.SerializeToString(), "layer")
    (layer,) = quantized_layers(graph)
    assert layer.names == ("c", "activated")
    assert graph.operators[0].layers == ("xq",)


def test_a_batch_of_unknown_size_is_one() -> None:
    graph = read_onnx(quantized_layer(shape=("batch", 4, 5, 6)).SerializeToString(), "layer")
    assert graph.values["x"].shape == (1, 5, 6, 4)


@pytest.mark.parametrize("opset", [10, 13, 19, 21, 28])
def test_every_version_of_the_operators(opset: int) -> None:
    graph = read_onnx(quantized_layer(opset=opset).SerializeToString(), "layer")
    assert [layer.workload.key for layer in quantized_layers(graph)] == ["conv2d-u8s8-1x5x6x4-k3x3x6-s1-p0-float.t-u8"]


def test_products_of_four_axes_are_no_images() -> None:
    model = quantized_layer("MatMul", shape=(2, 5, 7, 4), weight=np.arange(24).reshape(4, 6))
    (node,) = (each for each in model.graph.node if each.name == "conv")
    del node.input[2]
    graph = read_onnx(model.SerializeToString(), "layer")
    assert [layer.workload.key for layer in quantized_layers(graph)] == ["dense-u8s8-70x4-o6-float.t-u8"]
    assert [graph.values[name].shape for name in ("xq", "w", "yq")] == [(2, 5, 7, 4), (6, 4), (2, 5, 7, 6)]
    theirs = values_of(model.SerializeToString(), ["xq", "yq"], input_data(model, 3))
    (layer,) = quantized_layers(graph)
    ours = reference(layer.workload, layer_operands(graph, layer, theirs["xq"]))
    np.testing.assert_array_equal(ours.reshape(2, 5, 7, 6), theirs["yq"])


def test_each_reader_may_have_its_own_quantization_of_a_value() -> None:
    """As ONNX Runtime's `DedicatedQDQPair` writes them: several names for the same stored values."""
    model = quantized_layer()
    make = onnx.helper.make_node
    model.graph.node.extend(
        [
            make("QuantizeLinear", ["c", "y.scale", "y.zero"], ["yq2"]),
            make("DequantizeLinear", ["yq2", "y.scale", "y.zero"], ["y2"]),
            make("Add", ["y", "y2"], ["twice"], name="twice"),
        ]
    )
    model.graph.output[0].name = "twice"
    graph = read_onnx(model.SerializeToString(), "layer")
    assert [layer.names for layer in quantized_layers(graph)] == [("conv",)]
    assert graph.operators[-1].inputs == ("y/number", "y/number")
    assert [each.kind for each in graph.operators].count(Kind.DEQUANTIZE) == 1
    assert "yq2" not in graph.values


def test_one_constant_read_in_two_ways_is_two_values() -> None:
    model = quantized_layer("Gemm", shape=(3, 4), weight=np.arange(16).reshape(4, 4))
    make = onnx.helper.make_node
    model.graph.node.extend(
        [
            make("Gemm", ["y", "wd"], ["c2"], name="second", transB=1),
            make("QuantizeLinear", ["c2", "y.scale", "y.zero"], ["c2q"]),
            make("DequantizeLinear", ["c2q", "y.scale", "y.zero"], ["c2d"]),
        ]
    )
    model.graph.output[0].name = "c2d"
    graph = read_onnx(model.SerializeToString(), "layers")
    first, second = quantized_layers(graph)
    one, other = (graph.values[layer.operator.inputs[1]].constant for layer in (first, second))
    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(one, other.T)
    assert (first.operator.inputs[1], second.operator.inputs[1]) == ("w", "w#2")
