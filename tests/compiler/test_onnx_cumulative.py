"""CumProd, compiled, beside ONNX Runtime: bit for bit, also where products are too large and become small again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.obstacles import refuse_obstacles
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import GivenWriter, outputs_of
from tests.support.run.thinned import representatives

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

OPSET = 26
VALUES = np.array([[1e30, 1e20, 1e-30, 0.5, 1e-20, 0.0, 3.0], [-2, 1e-30, 1e-20, 1e25, 1e30, -1, 1e30]])
FORMS = [
    (dtype, axis, exclusive, reverse)
    for dtype in (np.float32, np.int32, np.float64, np.int64)
    for axis in (1, 0, -1)
    for exclusive in (0, 1)
    for reverse in (1, 0)
]


@pytest.mark.parametrize(("dtype", "axis", "exclusive", "reverse"), representatives(FORMS))
@pytest.mark.matrix
def test_products_are_onnx_runtimes(dtype: Any, axis: int, exclusive: int, reverse: int, tmp_path: Path) -> None:
    w = GivenWriter((2, 3))
    values = VALUES if np.issubdtype(dtype, np.floating) else np.arange(-5, 9).reshape(2, 7)
    data = w.given("data", values.astype(dtype))
    made = w.apply("CumProd", data, np.array(axis), exclusive=exclusive, reverse=reverse)
    ours, theirs = outputs_of(w.file(made, "d", opset=OPSET), tmp_path, w.feeds)
    np.testing.assert_array_equal(ours[made], theirs[made], strict=True)


@pytest.mark.parametrize(
    ("shape", "axis", "message"),
    [
        ((2, 3), np.array(2), "a constant, one of [2, 3]"),
        ((2, 3), np.array(-(2**63)), "a constant, one of [2, 3]"),
        ((2, 3), np.array([0, 1]), "CumProd"),
        ((2, 3), np.array(np.nan), "a constant, one of [2, 3]"),
        ((2, 3), None, "a constant, one of [2, 3]"),
        ((2, 129), np.array(1), "at most 128 values: [2, 129]"),
    ],
)
def test_other_axes_are_named(shape: tuple[int, ...], axis: Any, message: str) -> None:
    w = GivenWriter(shape)
    made = w.apply("CumProd", w.data, w.given("axis", np.array(0)) if axis is None else axis)
    with pytest.raises(ModelError, match=r"^[^\n]*(\n1 [^\n]*)?$") as fault:
        refuse_obstacles(read_onnx(w.file(made, "d", opset=OPSET), "one"))
    assert message in str(fault.value)
