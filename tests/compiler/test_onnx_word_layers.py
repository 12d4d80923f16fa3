"""Layers of 16-bit data and 8-bit weights: int8 layers, whose values are those of exact arithmetic, rounded once."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.islands.island import exact_operators, float_operators
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.quantized_layers import quantized_layers
from tests.support.models.compiled import assert_exact
from tests.support.models.onnx_models import values_of
from tests.support.models.onnx_words import DATA_SCALE, FORMS, MADE_SCALE, OPSET, POINTS, S8, S16, U8, U16, Layer, feeds
from tests.support.run.probes import host_target
from tests.support.run.thinned import one_in

pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

Array = npt.NDArray[Any]


def most_apart(ours: Array, theirs: Array) -> float:
    return float(np.abs(ours.astype(np.float64) - theirs).max())


CASES = [
    ("conv", U16, U16, np.int32, S8),
    ("groups", S16, S16, None, S8),
    ("depthwise", U16, S16, np.float32, U8),
    ("transposed", S16, U16, np.int32, S8),
    ("product", U16, U8, None, U8),
    ("gemm", S16, S8, np.float32, S8),
    ("row", S16, U16, np.float32, S8),
    ("blocks", U16, U8, None, S8),
]


@pytest.mark.parametrize(("name", "data", "made", "bias", "weight"), one_in(4, CASES))
def test_layers_are_exact_and_a_step_from_onnx_runtime_at_most(
    name: str, data: Any, made: Any, bias: Any, weight: Any, tmp_path: Path
) -> None:
    form = FORMS[name]
    file = Layer(form, data, made, bias, weight).file()
    graph = read_onnx(file, name)
    assert float_operators(graph) == {}
    assert {each.workload.numerics.output for each in quantized_layers(graph)} == {"s32"}
    for feed in feeds(form, data):
        ours = assert_exact(graph, host_target(), {"x": feed}, tmp_path)["y"]
        theirs = values_of(file, ["y"], feed, optimized=False)["y"]
        assert ours.dtype == theirs.dtype == made
        assert most_apart(ours, theirs) <= 1


@pytest.mark.parametrize("name", one_in(4, ["conv", "gemm", "product", "row"]))
def test_layers_whose_output_is_a_number(name: str, tmp_path: Path) -> None:
    """One rounding to binary32; ONNX Runtime has one for each product and sum."""
    form = FORMS[name]
    file = Layer(form, U16, bias=np.int32).file()
    graph = read_onnx(file, name)
    assert float_operators(graph) == {}
    for feed in feeds(form, U16):
        ours = assert_exact(graph, host_target(), {"x": feed}, tmp_path)["y"]
        theirs = values_of(file, ["y"], feed, optimized=False)["y"]
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6 * np.abs(theirs).max())


@pytest.mark.thorough
@pytest.mark.parametrize("bias", [np.int32, np.float32])
def test_values_are_those_of_exact_arithmetic(bias: Any, tmp_path: Path) -> None:
    """Fractions, rounded half to even. ONNX Runtime's values differ from these, ours don't."""
    form = replace(FORMS["gemm"], data=(200, 40))
    layer = Layer(form, U16, U16, bias)
    file, graph = layer.file(), read_onnx(layer.file(), "gemm")
    differ = 0
    for feed in feeds(form, U16):
        expected = exact_steps(layer, feed)
        ours = assert_exact(graph, host_target(), {"x": feed}, tmp_path)["y"]
        np.testing.assert_array_equal(ours, expected)
        differ += int((values_of(file, ["y"], feed, optimized=False)["y"] != expected).sum())
    assert differ > 0


def exact_steps(layer: Layer, feed: Array) -> Array:
    """What a Gemm makes of rows, by fractions."""
    sums = (feed.astype(np.int64) - POINTS[U16]) @ layer.weights.T
    step, data = Fraction(float(MADE_SCALE)), Fraction(float(DATA_SCALE))
    made = [
        [
            round((int(total) * data * Fraction(float(scale)) + Fraction(float(bias))) / step)
            for total, scale, bias in zip(row, layer.scales, layer.bias, strict=True)
        ]
        for row in sums
    ]
    return np.clip(np.array(made) + POINTS[U16], 0, 65535).astype(np.uint16)


@pytest.mark.parametrize("data", one_in(2, [U16, S16]))
def test_activations_bound_values_of_16_bits(data: Any, tmp_path: Path) -> None:
    class Bounded(Layer):
        def activated(self, name: str) -> str:
            limits = [self.constant("low", -3.7), self.constant("high", 6.0)]
            return self.node("Clip", [self.node("Relu", [name], "relu"), *limits], "clip")

    form = FORMS["conv"]
    file = Bounded(form, data, data).file()
    graph = read_onnx(file, "bounded")
    assert exact_operators(graph) == 1
    feed = feeds(form, data)[0]
    ours = assert_exact(graph, host_target(), {"x": feed}, tmp_path)["y"]
    assert ours.min() == POINTS[data]
    assert most_apart(ours, values_of(file, ["y"], feed, optimized=False)["y"]) <= 1


def test_layers_that_read_one_value_share_its_bytes() -> None:
    layer = Layer(FORMS["product"], U16, U16)
    layer.node("MatMul", ["x.d", "w.d"], "second")
    layer.node("QuantizeLinear", ["second", "y.s", "y.z"], "z")
    graph = read_onnx(layer.model("y", "z", opset=OPSET).SerializeToString(), "two")
    kinds = [str(each.kind) for each in graph.operators]
    assert [kinds.count(each) for each in ("word_byte", "dense", "word_sums")] == [2, 4, 2]


def test_a_bias_of_rows_is_none_of_channels() -> None:
    """The bias has as many values as there are channels, but one for each row."""
    layer = Layer(replace(FORMS["gemm"], data=(17, 40)), U16, U16)
    layer.nodes[-2].input.append(layer.constant("b", np.ones((17, 1))))
    graph = read_onnx(layer.file(), "rows")
    assert list(float_operators(graph)) == ["Gemm"]
