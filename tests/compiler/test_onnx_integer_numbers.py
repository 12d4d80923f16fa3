"""DequantizeLinear of integers of 32 bits that a model computes, as ONNX Runtime has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.obstacles import int8_share
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import IslandWriter, compiled, feed_of
from tests.support.models.onnx_models import values_of
from tests.support.run.thinned import chosen

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which numbers are compared with")

SHAPE = (3, 7, 16)


def sums(scale: Any, behind: str = "", point: Any = None, **attributes: Any) -> bytes:
    """Stored values times 7, dequantized; `behind` is what is made of these."""
    w = IslandWriter(SHAPE)
    wide = w.apply("Mul", w.apply("Cast", "q", to=6), np.array(7, np.int32))
    inputs = [wide, np.float32(scale), *([] if point is None else [np.array(point, np.int32)])]
    made = w.apply("DequantizeLinear", *inputs, **attributes)
    if behind == "quantized":
        w.node("QuantizeLinear", [made, w.constant("coarse", 0.1), "z"], "stored")
        return w.file("stored")
    return w.file(w.apply(behind, made) if behind else made)


def product(with_bias: bool) -> bytes:
    """A MatMulInteger whose sums have a scale for each column."""
    w, rng = IslandWriter(SHAPE), np.random.default_rng(2)
    weight = rng.integers(-127, 128, (16, 5)).astype(np.int8)
    made = w.apply("MatMulInteger", "q", weight, "z", np.int8(0))
    if with_bias:
        made = w.apply("Add", made, rng.integers(-9999, 9999, 5).astype(np.int32))
    return w.file(w.apply("DequantizeLinear", made, rng.uniform(1e-4, 1e-2, 5).astype(np.float32), axis=2))


FILES = {
    "plain": sums(0.01),
    "one scale in an array": sums([0.01]),
    "a scale for each column": sums(np.linspace(0.01, 0.3, 16), axis=-1),
    "a scale for each row": sums(np.linspace(0.01, 0.3, 7), axis=1),
    "a point of 0": sums(0.013, point=0),
    "rectified": sums(0.01, "Relu"),
    "quantized": sums(0.013, "quantized"),
    "a product": product(False),
    "a product with a bias": product(True),
}


@pytest.mark.parametrize(
    "name", chosen(FILES, lambda name: name not in ("plain", "one scale in an array", "a product"))
)
@pytest.mark.matrix(at_most=2)
def test_sums_become_numbers_as_by_onnx_runtime(name: str, tmp_path: Path) -> None:
    file, feed = FILES[name], {"x": feed_of(SHAPE)}
    model = compiled(file, tmp_path)
    (made,) = model.run([feed["x"]])
    output = model.about.outputs[0]["name"]
    np.testing.assert_array_equal(made, values_of(file, [output], feed)[output], strict=True)


def test_the_product_before_is_an_int8_layer() -> None:
    assert int8_share(read_onnx(FILES["a product"], "one")) == 1


def test_a_zero_point_is_refused() -> None:
    with pytest.raises(ModelError, match="the zero point of 32-bit values must be 0: 3"):
        read_onnx(sums(0.01, point=3), "one")
