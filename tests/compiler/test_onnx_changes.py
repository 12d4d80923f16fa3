"""Files of all forms, changed at random: each is read, or refused in one line."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.obstacles import obstacle_lines
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_forms import FORMS as SMALL
from tests.support.models.onnx_islands import feed_of, outputs_of
from tests.support.models.onnx_tool_forms import TOOL_FORMS
from tests.support.mutation.onnx_changes import changed
from tests.support.run.thinned import one_in

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")

FEW, MANY = 60, 1000
FORMS = {**SMALL, **{f"zoo-{name}": make for name, make in TOOL_FORMS.items()}}


def read_all(name: str, count: int, seed: int) -> int:
    """How many changed files are compiled; others say why in lines that can be printed."""
    whole, draw, read = FORMS[name](), random.Random(seed), 0
    assert not obstacle_lines(read_onnx(whole, name))
    for _ in range(count):
        try:
            lines = obstacle_lines(read_onnx(changed(whole, draw), name))
        except ModelError as fault:
            lines = [str(fault)]
        assert all(line.isprintable() and len(line) < 500 for line in lines)
        read += not lines
    return read


@pytest.mark.parametrize("name", one_in(3, FORMS))
@pytest.mark.matrix(at_most=2)
def test_a_few_changed_files(name: str) -> None:
    assert 0 < read_all(name, FEW, 1) < FEW


@pytest.mark.thorough
@pytest.mark.parametrize("name", FORMS)
def test_many_changed_files(name: str) -> None:
    assert read_all(name, MANY, 2) > MANY // 10


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", one_in(20, FORMS))
def test_whole_files_are_what_onnx_runtime_computes(name: str, tmp_path: Path) -> None:
    """Chains of quantizations are compiled in seconds: what is read several times is not written several times."""
    pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")
    dims = onnx.ModelProto.FromString(FORMS[name]()).graph.input[0].type.tensor_type.shape.dim
    feed = feed_of([dim.dim_value for dim in dims])
    ours, theirs = outputs_of(FORMS[name](), tmp_path, {"x": feed}, optimized=False)
    for output, expected in theirs.items():
        largest = float(np.abs(expected.astype(np.float64)).max())
        np.testing.assert_allclose(ours[output], expected, rtol=1e-4, atol=0.06 * largest)
