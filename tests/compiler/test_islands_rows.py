"""The greatest and least of rows in float, also where vectors don't fill a row, and that vectors find them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.graph import Kind
from int8tune.compiler.islands.emission import float_calls
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import IslandWriter, feed_of, outputs_of
from tests.support.run.probes import host_target
from tests.support.run.thinned import chosen

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")


def extremes(shape: tuple[int, ...]) -> tuple[bytes, list[str]]:
    """The greatest and least of the last axis, of the last two, and of all values of the input."""
    w = IslandWriter(shape)
    axes = ([-1], [-2, -1], list(range(len(shape))))
    names = [
        w.apply(operator, "x", np.array(each), keepdims=kept)
        for operator in ("ReduceMax", "ReduceMin")
        for each, kept in zip(axes, (1, 0, 0), strict=True)
    ]
    return w.file(*names, w.data), names


@pytest.mark.parametrize("length", chosen([15, 16, 17, 47], lambda length: length in (15, 47)))
@pytest.mark.matrix(at_most=1)
def test_the_greatest_and_least_of_rows_of_every_length(length: int, tmp_path: Path) -> None:
    file, names = extremes((2, 3, length))
    feed = feed_of((2, 3, length))
    # At the ends of a row, in the last lane of a vector and behind the last whole one; and a row without another value.
    feed[0, 0, 0], feed[0, 1, -1], feed[0, 2, 14], feed[1, 0, -1] = 90, 91, -92, -np.inf
    feed[1, 1, :], feed[1, 2, :] = -np.inf, np.inf
    ours, theirs = outputs_of(file, tmp_path, {"x": feed})
    for name in names:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def test_the_greatest_of_all_values_is_found_by_vectors() -> None:
    """One value after the other takes two cycles each, as each waits for the one before."""
    graph = read_onnx(extremes((4, 160))[0], "extremes")
    calls: list[Any] = []
    for operator in graph.operators:
        calls += float_calls(graph, operator, host_target("generic")) if operator.kind is Kind.FLOAT else []
    kernels = [call.function.script() for call in calls if call.name.startswith(("max", "min"))]
    assert len(kernels) == 6
    assert all("T.vectorized(T.int64(16))" in text for text in kernels)
