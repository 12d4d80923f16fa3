"""Models as ONNX Runtime's optimizer writes them, whose images are [N, H, W, C], and its fused nodes, beside itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Kind
from int8tune.compiler.obstacles import int8_share
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import IslandWriter, assert_close, compiled, feed_of, outputs_of
from tests.support.models.onnx_models import FILE_VERSION, MODELS, input_data, quantized, values_of
from tests.support.run.thinned import one_in

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime, which writes and runs these models")

SHAPE = (2, 6, 5, 8)
RNG = np.random.default_rng(1)


class OptimizedWriter(IslandWriter):
    """Writes nodes of ONNX Runtime's own domain, on `q`, the quantized input, or `d`, its numbers."""

    def own(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        name = self.apply(operator, *inputs, **attributes)
        self.nodes[-1].domain = "com.microsoft"
        return name

    def written(self, output: str, opset: int = 17) -> bytes:
        infos = [onnx.ValueInfoProto(name=output)]
        graph = onnx.helper.make_graph(self.nodes, "g", self.inputs, infos, self.constants)
        imports = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("com.microsoft", 1)]
        data: bytes = onnx.helper.make_model(graph, opset_imports=imports, ir_version=FILE_VERSION).SerializeToString()
        return data


def scale(value: Any) -> Any:
    return np.asarray(value, np.float32)


def point(value: Any, dtype: Any = np.uint8) -> Any:
    return np.asarray(value, dtype)


def layer(w: OptimizedWriter) -> str:
    weights = RNG.integers(-128, 128, (4, 8, 3, 2)).astype(np.int8)
    parameters = scale([0.01, 0.02, 0.03, 0.01]), point([0] * 4, np.int8), scale(0.4), point(100)
    return w.own("QLinearConv", "q", *w.parameters, weights, *parameters, channels_last=1, pads=[1, 0, 1, 1])


def average(w: OptimizedWriter) -> str:
    attributes = {"channels_last": 1, "kernel_shape": [2, 2], "strides": [1, 2], "pads": [1, 0, 0, 0]}
    return w.own("QLinearAveragePool", "q", *w.parameters, scale(0.02), point(90), **attributes)


def global_average(w: OptimizedWriter) -> str:
    return w.own("QLinearGlobalAveragePool", "q", *w.parameters, scale(0.02), point(90), channels_last=1)


def largest(w: OptimizedWriter) -> str:
    return w.own("NhwcMaxPool", "q", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 0, 0])


@pytest.mark.parametrize("build", [layer, average, global_average, largest])
@pytest.mark.matrix(at_most=2)
def test_images_with_channels_last_are_onnxruntime_s(build: Any, tmp_path: Path) -> None:
    w = OptimizedWriter(SHAPE)
    file = w.written(build(w))
    ours, theirs = outputs_of(file, tmp_path, {"x": feed_of(SHAPE)})
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected)
    assert not any(each.kind is Kind.FLOAT for each in read_onnx(file, "one").operators)


@pytest.mark.parametrize("factor", [0.125, 0.3])
def test_a_factor_of_a_gemm_multiplies_its_bias_too(factor: float, tmp_path: Path) -> None:
    w = OptimizedWriter((9, 8))
    weights = RNG.integers(-128, 128, (8, 3)).astype(np.int8)
    bias = np.array([-90000, 70000, 10], np.int32)
    parameters = scale([0.01, 0.02, 0.03]), point([0] * 3, np.int8), bias, scale(0.9), point(128)
    file = w.written(w.own("QGemm", "q", *w.parameters, weights, *parameters, alpha=factor))
    ours, theirs = outputs_of(file, tmp_path, {"x": feed_of((9, 8))})
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected)
    assert int8_share(read_onnx(file, "one")) == 1.0


def test_a_gemm_without_an_output_scale_makes_numbers(tmp_path: Path) -> None:
    w = OptimizedWriter((9, 8))
    weights = RNG.integers(-128, 128, (8, 3)).astype(np.int8)
    bias = np.array([-90000, 70000, 10], np.int32)
    file = w.written(w.own("QGemm", "q", *w.parameters, weights, scale(0.01), point(0, np.int8), bias))
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of((9, 8))}))
    assert int8_share(read_onnx(file, "one")) == 1.0


def test_a_softmax_of_another_version_than_the_file_s_is_refused() -> None:
    w = OptimizedWriter(SHAPE)
    inputs = "q", *w.parameters, scale(1 / 256), point(0)
    name = w.own("QLinearSoftmax", *inputs, axis=1)
    w.nodes[-1].attribute.append(onnx.helper.make_attribute("opset", 11))
    file = w.written(name)
    with pytest.raises(ModelError, match="its opset 11 must mean the same axes as the file's 17"):
        read_onnx(file, "one")


@pytest.mark.parametrize(
    ("function", "numbers"),
    one_in(2, [("Relu", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 1.5]), ("Tanh", []), ("HardSigmoid", [0.3, 0.4])]),
)
@pytest.mark.matrix(at_most=1)
def test_fused_convolutions_and_products(function: str, numbers: list[float], tmp_path: Path) -> None:
    w = OptimizedWriter(SHAPE)
    weights, more = RNG.normal(0, 0.3, (4, 6, 3, 3)), RNG.normal(0, 1, (2, 4, 5, 8))
    fields = {"activation_params": numbers} if numbers else {}
    inputs = w.data, weights, np.arange(4.0), more
    file = w.written(w.own("FusedConv", *inputs, activation=function, pads=[1] * 4, **fields))
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of(SHAPE)}))


def test_a_fused_gemm(tmp_path: Path) -> None:
    w = OptimizedWriter((9, 8))
    inputs = w.data, RNG.normal(0, 0.3, (8, 3)), np.arange(3.0)
    file = w.written(w.own("FusedGemm", *inputs, activation="LeakyRelu", activation_alpha=0.3))
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of((9, 8))}))


@pytest.mark.parametrize("name", ["head", pytest.param("residual", marks=pytest.mark.thorough)])
def test_optimized_models_are_what_they_were_before(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    before = quantized(model, tmp_path, "u8", "s8", True)
    options, path = onnxruntime.SessionOptions(), tmp_path / "optimized.onnx"
    options.optimized_model_filepath, options.log_severity_level = str(path), 3
    onnxruntime.InferenceSession(before, options, providers=["CPUExecutionProvider"])
    after = path.read_bytes()
    last = [node for node in onnx.load_from_string(after).graph.node if node.op_type == "QLinearConv"]
    assert any(each.name == "channels_last" for node in last for each in node.attribute)
    feed = input_data(model, 0)
    made = compiled(after, tmp_path)
    (form,) = made.about.outputs
    np.testing.assert_array_equal(made.run([feed])[0], values_of(before, [form["name"]], feed)[form["name"]])
    assert int8_share(read_onnx(after, "after")) == int8_share(read_onnx(before, "before")) == 1.0
