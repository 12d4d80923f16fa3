"""Operators whose scales make ties: the reference rounds them as ONNX Runtime does.

Of scales that are anything, hardly a value is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.graph import Kind
from tests.support.models.onnx_operators import Form, compared, feeds_of, operator_model

pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")

SCALES = np.array(
    [*(2.0**-k for k in range(8)), *(3 * 2.0**-k for k in range(2, 9)), 0.1, 0.3, 1 / 3, 1 / 255], np.float32
)
DRAWS = 40
IMAGE = (1, 5, 7, 9)
EVERY = (1, 256)
# Shapes of inputs, and attributes.
OPERATORS: Mapping[str, tuple[list[tuple[int, ...]], Mapping[str, Any]]] = {
    **dict.fromkeys(("Add", "Mul", "Sub", "Div"), ([IMAGE, IMAGE], {})),
    "AveragePool": ([IMAGE], {"kernel_shape": [3, 3], "pads": [1] * 4, "count_include_pad": 1}),
    "GlobalAveragePool": ([(2, 6, 4, 8)], {}),
    "Concat": ([(1, 4, 6, 7), (1, 3, 6, 7)], {"axis": 1}),
    "Softmax": ([(40, 49)], {"axis": -1}),
    **dict.fromkeys(
        ("Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "HardSwish", "Sqrt", "Abs", "Neg", "Elu"), ([EVERY], {})
    ),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_ties_are_those_of_onnx_runtime(operator: str) -> None:
    rng = np.random.default_rng(sum(operator.encode()))
    shapes, attributes = OPERATORS[operator]
    for _ in range(DRAWS):
        dtype = rng.choice([np.uint8, np.int8])
        low = int(np.iinfo(dtype).min)

        def drawn(shape: tuple[int, ...]) -> Form:
            return shape, float(rng.choice(SCALES)), int(low + rng.integers(256))  # noqa: B023

        inputs = [drawn(shape) for shape in shapes]
        _, scale, zero_point = drawn(())
        feeds = feeds_of(inputs, dtype, int(rng.integers(1 << 20)))
        if operator == "Softmax":
            scale, zero_point = 1 / (int(rng.integers(15, 256)) + 0.5), low
            largest = np.arange(49) < np.arange(1, 41)[:, np.newaxis]
            stored = np.where(largest, low + 255, low) - inputs[0][2]
            feeds = {"x0": stored.astype(np.float32) * np.float32(inputs[0][1])}
        model = operator_model(operator, inputs, (scale, zero_point), dtype, **attributes)
        _, differ = compared(model, feeds)
        assert differ == 0


@pytest.mark.parametrize("behind", ["", "Relu"])
@pytest.mark.parametrize("operator", ["Add", "Mul"])
def test_ties_of_mixed_types_are_those_of_numbers(operator: str, behind: str) -> None:
    """ONNX Runtime has a QLinearAdd and a QLinearMul of one type alone, without an activation behind it."""
    rng = np.random.default_rng(len(operator + behind))
    kinds = set()
    for _ in range(DRAWS):
        dtypes = [rng.choice([np.uint8, np.int8]) for _ in range(3)]
        lows = [int(np.iinfo(dtype).min) for dtype in dtypes]
        *inputs, (_, scale, zero_point) = (
            (IMAGE, float(rng.choice(SCALES)), int(least + rng.choice([0, rng.integers(256)]))) for least in lows
        )
        feeds = feeds_of(inputs, None, int(rng.integers(1 << 20)), dtypes)
        model = operator_model(operator, inputs, (scale, zero_point), behind=behind, dtypes=dtypes)
        graph, differ = compared(model, feeds)
        is_one = len(set(dtypes)) == 1 and (not behind or zero_point == lows[-1])
        kinds.add((is_one, graph.operators[-2].kind))
        assert differ == 0
    assert kinds == {(True, Kind.ADD if operator == "Add" else Kind.MULTIPLY), (False, Kind.ELEMENTWISE)}
