"""Operators on binary16 in islands: each result is rounded once, however much was added up for it.

ONNX Runtime computes chains of them in binary32, whose results differ by what it doesn't round between.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.models.onnx_islands import IslandWriter, compiled, feed_of

pytest.importorskip("onnx", reason="needs the extra `models`")

SHAPE = (4, 6, 512)
WEIGHTS = np.random.default_rng(2).normal(size=(512, 16)).astype(np.float16)
# Of two sums on either side of a middle, one goes up and one goes down.
ONE_UNIT = 2.0**-10


def softmax(x: Any) -> Any:
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        pytest.param(lambda w, x: w.apply("Softmax", x), softmax, id="softmax"),
        pytest.param(
            lambda w, x: w.apply("MatMul", x, w.constant("weights", WEIGHTS, np.float16)),
            lambda x: x @ WEIGHTS.astype(np.float64),
            id="matmul",
        ),
        pytest.param(
            lambda w, x: w.apply("ReduceMean", x, np.array([2])), lambda x: x.mean(2, keepdims=True), id="mean"
        ),
        pytest.param(lambda w, x: w.apply("ReduceSum", x, np.array([2])), lambda x: x.sum(2, keepdims=True), id="sum"),
        pytest.param(lambda w, x: w.apply("Tanh", x), np.tanh, id="tanh"),
    ],
)
@pytest.mark.matrix(at_most=2)
def test_a_result_is_rounded_once(
    build: Callable[[IslandWriter, str], str], expected: Callable[[Any], Any], tmp_path: Path
) -> None:
    writer = IslandWriter(SHAPE)
    half = writer.apply("Cast", writer.data, to=10)
    names = [writer.apply("Cast", name, to=1) for name in (half, build(writer, half))]
    read, made = compiled(writer.file(*names), tmp_path).run([feed_of(SHAPE)])
    largest_term = float(np.abs(read).max())
    np.testing.assert_allclose(made, expected(read.astype(np.float64)), ONE_UNIT, largest_term * 512 * 2.0**-24)
