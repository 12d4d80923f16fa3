"""What dense layers read, with channels made alike: nothing changes in float, and 8 bits cost less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `quantize`")

import int8tune as it
from int8tune.quantize.errors import QuantizeSpecError
from int8tune.quantize.float_model import read_float_model
from int8tune.quantize.prepared import prepared
from int8tune.quantize.smoothing import smoothed
from tests.support.models.float_models import run, saved, sqnr_db
from tests.support.models.onnx_models import Writer

WIDTH = 16
PLAIN = {"equalize": False, "round_weights": False, "bias_correction": False}
# Two channels that are large, as in transformers that were trained; what reads them has small weights.
OUTLIERS = np.where(np.arange(WIDTH) % 7 == 3, 40.0, 1.0)


def dense(writer: Writer, data: str, name: str, outputs: int = WIDTH) -> str:
    weights = writer.rng.normal(size=(WIDTH, outputs)) / OUTLIERS[:, None]
    return writer.node("MatMul", [data, writer.constant(f"{name}.w", weights / np.sqrt(WIDTH))], name)


def vision_block() -> Any:
    """LayerNormalization in front of attention and of two dense layers, whose outputs are added (ViT)."""
    writer = Writer(["n", 10, WIDTH])
    gain, none = writer.constant("gain", OUTLIERS), writer.constant("none", np.zeros(WIDTH))
    data = writer.node("LayerNormalization", ["x", gain, none], "normal1", axis=-1)
    names = ("query", "key", "value")
    query, key, value = (
        writer.node("MatMul", [data, writer.weight(f"{name}.w", WIDTH, WIDTH)], name) for name in names
    )
    scores = writer.node("MatMul", [query, writer.node("Transpose", [key], "turned", perm=[0, 2, 1])], "scores")
    mixed = writer.node("MatMul", [writer.node("Softmax", [scores], "shares", axis=-1), value], "mixed")
    data = writer.node("Add", [mixed, "x"], "residual")
    # The same constants twice, as exporters write them.
    data = writer.node("LayerNormalization", [data, gain, none], "normal2", axis=-1)
    hidden = writer.node("Relu", [dense(writer, data, "wide", 32)], "hidden")
    return writer.model(writer.node("MatMul", [hidden, writer.weight("down", 32, WIDTH)], "y"))


def text_block() -> Any:
    """LayerNormalization whose output is added, too, behind dense layers: nobody can take its factors (BERT)."""
    writer = Writer(["n", 10, WIDTH])
    factors = writer.constant("gain", np.ones(WIDTH)), writer.constant("none", np.zeros(WIDTH))
    data = writer.node("LayerNormalization", ["x", *factors], "normal", axis=-1)
    scaled = writer.node("Mul", [data, writer.constant("factor", OUTLIERS)], "scaled")
    shifted = writer.node("Add", [scaled, writer.constant("shift", np.ones(WIDTH))], "shifted")
    hidden = dense(writer, shifted, "wide")
    data = writer.node("Add", [hidden, data], "residual")
    return writer.model(writer.node("MatMul", [data, writer.weight("down", WIDTH, WIDTH)], "y"))


def classifier() -> Any:
    """Dense layers with a bias, weights transposed and not."""
    writer = Writer(["n", WIDTH])
    first = writer.constant("one.w", OUTLIERS[:, None] * writer.rng.normal(size=(WIDTH, WIDTH)))
    second = writer.constant("two.w", writer.rng.normal(size=(WIDTH, 5)) / OUTLIERS[:, None])
    hidden = writer.node(
        "Relu", [writer.node("Gemm", ["x", first, writer.weight("one.b", WIDTH)], "one", transB=1)], "hidden"
    )
    return writer.model(writer.node("Gemm", [hidden, second, writer.weight("two.b", 5)], "y"))


def samples_for(model: Any, count: int = 30) -> Any:
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim[1:]]
    return np.random.default_rng(0).standard_normal((count, *shape)).astype(np.float32)


@pytest.mark.parametrize(
    ("make", "tensors"),
    [
        (vision_block, {"normal1", "normal2", "hidden"}),
        (text_block, {"shifted"}),
        (classifier, {"hidden"}),
    ],
)
def test_nothing_changes_in_float_and_8_bits_cost_less(
    make: Callable[[], Any], tensors: set[str], tmp_path: Path
) -> None:
    model = make()
    file, samples = saved(model, tmp_path), samples_for(model)
    read = read_float_model(file)
    ready = replace(read, proto=prepared(read).proto)
    proto, factors = smoothed(ready, lambda: iter([{"x": samples}]), 0.5)
    assert set(factors) == tensors
    right = run(file, samples)
    assert sqnr_db(right, run(proto, samples)) > 110
    without, smooth = (it.quantize(file, samples, **PLAIN, smooth=strength).proto for strength in (None, 0.5))
    assert sqnr_db(right, run(smooth, samples)) > sqnr_db(right, run(without, samples)) + 5


def test_it_needs_samples_and_a_strength(tmp_path: Path) -> None:
    model = classifier()
    file = saved(model, tmp_path)
    with pytest.raises(QuantizeSpecError, match=r"smoothing must be 0 to 1: 1\.5"):
        it.quantize(file, samples_for(model), smooth=1.5)
    it.profile(file, samples_for(model), tmp_path / "r.json")
    with pytest.raises(QuantizeSpecError, match="--smooth runs the model on samples"):
        it.quantize(file, ranges=tmp_path / "r.json", smooth=0.5)
