"""Means of 16 bits, bit for bit as both of LiteRT's kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from int8tune.compiler.islands.island import float_operators
from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.tflite_islands import compiled
from tests.support.models.tflite_models import Writer, values_of
from tests.support.run.thinned import representatives

pytest.importorskip("tflite", reason="needs the extra `models`")

SHAPE, SCALE = (2, 7, 9, 5), 0.01
# Of which LiteRT has kernels of their own, of which it has not, and of all axes.
AXES = [(1, 2), (2, 1), (3,), (0, 2), (0, 1, 2, 3)]
FORMS = [(axes, is_kept, ratio) for axes in AXES for is_kept in (True, False) for ratio in (0.013, 0.7, 1.0, 3.3)]


def mean(
    shape: tuple[int, ...], axes: tuple[int, ...], is_kept: bool, ratio: float, zero_point: int = 0
) -> tuple[Writer, int]:
    w = Writer()
    made = [1 if axis in axes else extent for axis, extent in enumerate(shape) if is_kept or axis not in axes]
    inputs = [w.input("x", "s16", shape, SCALE, zero_point), w.constant("axes", "s32", np.array(axes, np.int32))]
    output = w.tensor("y", "s16", made, ratio * SCALE)
    w.operator("MEAN", inputs, [output], "Reducer", 2, keepDims=is_kept)
    return w, output


@pytest.mark.parametrize(("axes", "is_kept", "ratio"), representatives(FORMS))
def test_they_are_exact(axes: tuple[int, ...], is_kept: bool, ratio: float, tmp_path: Path) -> None:
    w, output = mean(SHAPE, axes, is_kept, ratio)
    file, rng = w.model(output), np.random.default_rng(0)
    model = compiled(file, tmp_path)
    assert not float_operators(read_tflite(file, "mean"))
    feeds = [rng.integers(-most, most, SHAPE) for most in (30, 32767)]
    feeds += [np.full(SHAPE, end) for end in (-32768, 32767)]
    for feed in feeds:
        data = feed.astype(np.int16)
        (ours,) = model.run([data])
        for is_reference in (True, False):
            theirs = values_of(file, {"x": data}, is_reference=is_reference)["y"]
            np.testing.assert_array_equal(ours, theirs, strict=True)


@pytest.mark.parametrize(
    ("shape", "zero_point", "message"),
    [
        ((1, 256, 256, 1), 0, "a mean has 1 to 65535 values: 65536"),
        (SHAPE, 3, "its values of 16 bits must have one scale, and 0 as zero point"),
    ],
)
def test_what_litert_can_not_add_is_refused(shape: tuple[int, ...], zero_point: int, message: str) -> None:
    """Its sums have 32 bits."""
    w, output = mean(shape, (1, 2), True, 1.0, zero_point)
    (found,) = obstacles(read_tflite(w.model(output), "mean"))
    assert message in found.reason
