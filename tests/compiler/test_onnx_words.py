"""Values of 16 bits: quantized and dequantized exactly, with what is between them in float, beside ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.graph import Kind
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.quantized_layers import quantized_layers
from tests.support.models.compiled import assert_close_but_exact_integers
from tests.support.models.onnx_islands import OF_LARGEST, RELATIVE, IslandWriter, feed_of, outputs_of
from tests.support.models.onnx_models import MODELS, input_data, quantized
from tests.support.models.shared_models import more_model
from tests.support.run.probes import host_target
from tests.support.run.thinned import one_in

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

OPSET = 21
WORDS = [np.uint16, np.int16]
ONNX_TYPES = {np.uint16: 4, np.int16: 5}


def spread(dtype: Any, scale: float, point: int) -> Any:
    """Numbers next to the middle between two steps, and beyond both ends."""
    limits = np.iinfo(dtype)
    steps = np.random.default_rng(0).integers(limits.min - 500, limits.max + 500, (4, 6, 5, 8)) - point
    numbers = ((steps + 0.5) * np.float64(scale)).astype(np.float32)
    numbers.reshape(-1)[:6] = np.inf, -np.inf, 1e30, -1e30, 0, -0.0
    return numbers


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", WORDS)
@pytest.mark.parametrize(("scale", "point"), [(2.0**-9, 1000), (0.000313, 0), (1.7e-5, 32767)])
def test_quantizing_to_16_bits_and_back_is_exact(dtype: Any, scale: float, point: int, tmp_path: Path) -> None:
    w = IslandWriter((4, 6, 5, 8))
    parameters = [w.constant("ws", scale), w.constant("wz", point, dtype)]
    w.node("QuantizeLinear", ["x", *parameters], "stored")
    w.node("DequantizeLinear", ["stored", *parameters], "y")
    file, feed = w.file("stored", "y", opset=OPSET), spread(dtype, scale, point)
    ours, theirs = outputs_of(file, tmp_path, {"x": feed})
    assert ours["stored"].dtype == dtype
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected, err_msg=name)


@pytest.mark.parametrize("dtype", WORDS)
def test_inputs_and_other_scales_of_16_bits(dtype: Any, tmp_path: Path) -> None:
    """Stored values come in, get another scale of 16 bits, and one of 8 bits."""
    w, shape = IslandWriter((2, 6, 5, 8)), (2, 6, 5, 8)
    w.inputs = [onnx.helper.make_tensor_value_info("x", ONNX_TYPES[dtype], shape)]
    w.nodes.clear()
    first = [w.constant("a", 0.0003), w.constant("az", 11, dtype)]
    second = [w.constant("b", 0.00017), w.constant("bz", 5, dtype)]
    w.node("DequantizeLinear", ["x", *first], "numbers")
    w.node("QuantizeLinear", ["numbers", *second], "words")
    w.node("DequantizeLinear", ["words", *second], "y")
    w.node("QuantizeLinear", ["y", *w.parameters], "bytes")
    w.node("DequantizeLinear", ["bytes", *w.parameters], "v")
    file = w.file("words", "v", opset=OPSET)
    limits = np.iinfo(dtype)
    feed = np.random.default_rng(1).integers(limits.min, limits.max + 1, shape).astype(dtype)
    ours, theirs = outputs_of(file, tmp_path, {"x": feed})
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected, err_msg=name)


def test_a_layer_of_bytes_may_end_in_16_bits() -> None:
    w = IslandWriter()
    w.constant("w", np.random.default_rng(2).integers(-127, 128, (5, 6, 3, 3)), np.int8)
    w.node("DequantizeLinear", ["w", w.constant("w.s", 0.01)], "w.d")
    made = w.apply("Relu", w.node("Conv", [w.data, "w.d"], "c"))
    parameters = [w.constant("ws", 0.0003), w.constant("wz", 0, np.uint16)]
    w.node("QuantizeLinear", [made, *parameters], "stored")
    w.node("DequantizeLinear", ["stored", *parameters], "y")
    graph = read_onnx(w.file("y", opset=OPSET), "words")
    assert len(quantized_layers(graph)) == 1
    assert [each.kind for each in graph.operators][-2:] == [Kind.QUANTIZE, Kind.DEQUANTIZE]


@pytest.mark.parametrize("data", ["u16", pytest.param("s16", marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "name", ["residual", *(pytest.param(each, marks=pytest.mark.thorough) for each in ("windows", "head", "concat"))]
)
def test_models_with_16_bits(name: str, data: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    file = quantized(model, tmp_path, data, "s8", per_channel=False, UseQDQContribOps=True)
    feed = input_data(model, 7)
    graph = read_onnx(file, name)
    assert quantized_layers(graph)
    assert_close_but_exact_integers(graph, host_target(), {"x": feed}, tmp_path, RELATIVE, OF_LARGEST)
    assert_few_steps(*outputs_of(file, tmp_path, {"x": feed}, optimized=False))


def assert_few_steps(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Few of 65,536 steps apart: a number next to the middle between two is rounded to one or the other."""
    for name, expected in theirs.items():
        np.testing.assert_allclose(ours[name], expected, atol=8e-5 * float(np.abs(expected).max()))


@pytest.mark.parametrize("name", one_in(2, ["mlp.a16w8", "two_in_two_out.a16w8"]))
@pytest.mark.thorough
def test_whole_models_with_16_bits(name: str, tmp_path: Path) -> None:
    file = more_model(f"{name}.onnx").read_bytes()
    inputs = read_onnx(file, "words")
    feeds = {each: feed_of(inputs.values[each].shape, seed) for seed, each in enumerate(inputs.inputs)}
    feeds = {each: feed if feed.ndim < 4 else moved(feed, inputs.moved, each) for each, feed in feeds.items()}
    assert_few_steps(*outputs_of(file, tmp_path, feeds, optimized=False))


def moved(feed: Any, images: frozenset[str], name: str) -> Any:
    """An input in the file's order of axes."""
    return np.ascontiguousarray(feed.transpose(0, 3, 1, 2)) if name in images else feed
