"""Quantized tables of which a model takes rows: the library has them as they are stored, and rows are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.islands.island import ISLAND
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import GivenWriter, compiled
from tests.support.models.onnx_models import values_of
from tests.support.run.thinned import one_in

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which rows are compared with")

SHAPE, TABLE = (2, 3, 16), (50, 16)


def rows_of_table(dtype: Any, axis: int = 0, behind: str = "") -> tuple[bytes, dict[str, Any]]:
    """Rows or columns of a table; `behind` is what is made of them."""
    w, rng, info = GivenWriter(SHAPE), np.random.default_rng(7), np.iinfo(dtype)
    shape = TABLE if axis == 0 else TABLE[::-1]
    stored = w.constant("table", rng.integers(info.min, info.max, shape, endpoint=True), dtype)
    number = w.apply("DequantizeLinear", stored, np.float32(0.013), np.array(info.max // 2, dtype))
    places = w.integer_input("places", SHAPE[:2])
    w.feeds["places"] = rng.integers(0, 50, SHAPE[:2])
    w.feeds["places"].flat[:2] = -1, -50
    made = w.apply("Gather", number, places, axis=axis)
    if behind == "sum":
        made = w.apply("Add", made, w.data)
    if behind == "stored":
        made = w.quantized(made)
    return w.file(made, w.quantized(w.data), opset=21), w.feeds


@pytest.mark.parametrize(
    ("dtype", "axis", "behind"),
    one_in(
        2,
        [(np.uint8, 0, "sum"), (np.int8, 0, "stored"), (np.uint8, 1, ""), (np.uint16, 0, ""), (np.int16, 0, "stored")],
    ),
)
def test_rows_are_onnx_runtimes(dtype: Any, axis: int, behind: str, tmp_path: Path) -> None:
    file, feeds = rows_of_table(dtype, axis, behind)
    model = compiled(file, tmp_path)
    names = [form["name"] for form in model.about.outputs]
    theirs = values_of(file, names, feeds)
    for name, made in zip(names, model.run([feeds[form["name"]] for form in model.about.inputs]), strict=True):
        np.testing.assert_array_equal(made, theirs[name], strict=True)


def test_the_table_stays_stored() -> None:
    graph = read_onnx(rows_of_table(np.uint8)[0], "one")
    held = [
        array
        for each in graph.operators
        if ISLAND in each.attributes
        for array in each.attributes[ISLAND].constants.values()
    ]
    held += [value.constant for value in graph.values.values() if value.constant is not None]
    assert [array.dtype for array in held if array.shape == TABLE] == [np.uint8]
