"""Products of ONNX Runtime's whose sums or biases are integers of other forms, compiled, beside itself: bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.obstacles import refuse_obstacles
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import GivenWriter, outputs_of
from tests.support.run.thinned import one_in

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

RNG = np.random.default_rng(5)
INT16 = np.iinfo(np.int16)


def _assert_equal(w: GivenWriter, folder: Path, *outputs: str) -> None:
    ours, theirs = outputs_of(w.file(*outputs), folder, w.feeds)
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected, strict=True)


def words(*shape: int) -> Any:
    """Integers of 16 bits, of which the first are the least, so that sums of three products exceed 32 bits."""
    values = RNG.integers(INT16.min, INT16.max + 1, shape, np.int16)
    values.reshape(-1)[: shape[-1]] = INT16.min
    return values


@pytest.mark.parametrize(("one", "other"), one_in(3, [((2, 3, 5), (2, 5, 4)), ((3, 7), (7, 4)), ((2, 3, 5), (5, 1))]))
def test_products_of_words_are_exact(one: tuple[int, ...], other: tuple[int, ...], tmp_path: Path) -> None:
    w = GivenWriter((4, 3))
    first, second = w.given("a", words(*one)), words(*other)
    second[..., 0] = INT16.min
    made = w.own("MatMulInteger16", first, second)
    _assert_equal(w, tmp_path, made, "d")


def test_words_are_signed() -> None:
    w = GivenWriter((4, 3))
    first = w.given("a", np.zeros((2, 3), np.uint16))
    made = w.own("MatMulInteger16", first, words(3, 2))
    with pytest.raises(ModelError, match=r"MatMulInteger16.*it must multiply two matrices of s16: u16, s16"):
        refuse_obstacles(read_onnx(w.file(made, "d"), "words"))


BIASES = {
    "rows and columns": {"bias": (9, 3), "zero_points": [0, 0, 0]},
    "computed": {"bias": (3,), "computed": True, "alpha": 0.3},
    "rows": {"bias": (9, 1), "transB": 1},
    "as many rows as columns": {"bias": (9, 1), "count": 9},
    "transposed": {"bias": (9, 3), "transA": 1, "transB": 1, "zero_points": [4, -7, 0]},
    "numbers": {"bias": (9, 3), "numbers": True},
    "computed, of both": {"bias": (9, 3), "computed": True},
}


@pytest.mark.parametrize("name", one_in(4, BIASES))
def test_biases_of_rows_are_added_to_sums(name: str, tmp_path: Path) -> None:
    form = dict(BIASES[name])
    count, shape = form.pop("count", 3), form.pop("bias")
    w = GivenWriter((8, 9) if form.get("transA") else (9, 8))
    weights = RNG.integers(-128, 128, (count, 8) if form.get("transB") else (8, count)).astype(np.int8)
    bias: Any = RNG.integers(-90000, 90000, shape).astype(np.int32)
    if form.pop("computed", False):
        bias = w.given("bias", bias)
    points = np.array(form.pop("zero_points", 3), np.int8)
    scales = RNG.uniform(0.01, 0.03, points.shape).astype(np.float32)
    made = () if form.pop("numbers", False) else (np.float32(0.9), np.uint8(128))
    output = w.own("QGemm", "q", *w.parameters, weights, scales, points, bias, *made, **form)
    outputs = [output]
    if made:
        w.node("DequantizeLinear", [output, *w.nodes[-1].input[7:9]], "number")
        outputs.append(w.apply("Relu", "number"))
    _assert_equal(w, tmp_path, *outputs)
