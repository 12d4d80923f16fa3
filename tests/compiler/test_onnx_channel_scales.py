"""Depthwise layers whose data has a scale for each channel, as NNCF writes them: int8 layers beside ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.graph import Kind
from int8tune.compiler.obstacles import int8_share
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import IslandWriter, feed_of, outputs_of
from tests.support.models.onnx_tool_forms import TOOL_FORMS
from tests.support.run.thinned import one_in

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which layers are compared with")

CHANNELS = 6
SHAPE = (2, CHANNELS, 9, 8)
SCALES = np.linspace(0.01, 0.03, CHANNELS)


def depthwise(how: dict[str, Any]) -> bytes:
    """A depthwise layer on data that is quantized by channels; a number behind it, or another quantization."""
    w = IslandWriter(SHAPE)
    axis, element, many = how.get("axis", 1), how.get("element", np.uint8), how.get("multiple", 1) * CHANNELS
    points = np.broadcast_to(how.get("points", 0), SHAPE[axis])
    parameters = [w.constant("scales", how.get("scales", SCALES)), w.constant("points", points, element)]
    stored = w.node("QuantizeLinear", [w.apply("Tanh", w.data), *parameters], "stored", axis=axis)
    data = w.node("DequantizeLinear", [stored, *parameters], "data", axis=axis)
    weight = w.constant("w", w.rng.integers(-127, 128, (many, 1, 3, 3)), np.int8)
    scales = np.linspace(0.01, 0.02, many) if how.get("by channels", True) else 0.013
    weights = [weight, w.constant("ws", scales), w.constant("wz", np.zeros(np.shape(scales)), np.int8)]
    w.node("DequantizeLinear", weights, "wd", axis=0)
    inputs = [data, "wd", w.constant("b", w.rng.normal(size=many))]
    made = w.node("Conv", inputs, "conv", group=CHANNELS, pads=[1] * 4)
    return w.file(w.quantized(w.apply("Relu", made)) if how.get("quantized") else made)


@pytest.mark.parametrize(
    "how",
    one_in(
        2,
        [
            {"multiple": 2, "by channels": False, "quantized": True},
            {},
            {"element": np.int8, "points": -7, "axis": -3},
            {"quantized": True},
        ],
    ),
    ids=str,
)
@pytest.mark.matrix(at_most=1)
def test_scales_are_moved_to_the_weights(how: dict[str, Any], tmp_path: Path) -> None:
    file = depthwise(how)
    graph = read_onnx(file, "depthwise")
    kinds = {operator.kind for operator in graph.operators}
    assert int8_share(graph) == 1.0
    assert kinds & {Kind.DEPTHWISE, Kind.CONV2D}
    ours, theirs = outputs_of(file, tmp_path, {"x": feed_of(SHAPE)})
    for name, expected in theirs.items():
        # A bias in float has the steps of the sums in a layer of bytes.
        step = 0.03 if how.get("quantized") else 3e-4
        np.testing.assert_allclose(ours[name], expected, rtol=1e-5, atol=1.01 * step)
        assert np.mean(ours[name] != expected) < 0.01 or not how.get("quantized")


@pytest.mark.parametrize(
    "how", [{"points": range(CHANNELS)}, {"axis": 2, "scales": np.linspace(0.01, 0.03, 9)}], ids=str
)
def test_others_stay_what_they_were(how: dict[str, Any]) -> None:
    """Zero points that differ, of which sums have other shares, and scales of rows."""
    graph = read_onnx(depthwise(how), "depthwise")
    assert not {operator.kind for operator in graph.operators} & {Kind.DEPTHWISE, Kind.CONV2D}


def test_all_layers_of_a_file_of_nncf_are_integers() -> None:
    assert int8_share(read_onnx(TOOL_FORMS["nncf"](), "nncf")) == 1.0
