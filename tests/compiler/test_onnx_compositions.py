"""Operators that are written by others, beside ONNX Runtime; places that point outside of their axes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import SHAPE, IslandWriter, assert_close, compiled, feed_of, outputs_of
from tests.support.models.onnx_models import values_of
from tests.support.run.thinned import one_in

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

RNG = np.random.default_rng(9)
Build = Callable[[IslandWriter], str]


def computed_places(w: IslandWriter, count: int, most: float) -> str:
    """Whole numbers of both signs that are computed of the data."""
    flat = w.apply("Reshape", w.data, np.array([-1]))
    part = w.apply("Slice", flat, np.array([0]), np.array([count]))
    return w.apply("Cast", w.apply("Floor", w.apply("Mul", w.apply("Tanh", part), most)), to=7)


def scattered(w: IslandWriter, reduction: str) -> str:
    """Along an axis, at places that the file has."""
    places = np.stack([RNG.permutation(8)[:3] for _ in range(60)]).reshape(2, 6, 5, 3)
    updates = RNG.normal(size=places.shape)
    return w.apply("ScatterElements", w.data, places - 8, updates, axis=3, reduction=reduction)


def sampled(w: IslandWriter, **attributes: Any) -> str:
    return w.apply("GridSample", w.data, RNG.uniform(-1.3, 1.3, (2, 4, 7, 2)), **attributes)


BUILDS: dict[str, Build] = {
    "Celu": lambda w: w.apply("Celu", w.data, alpha=0.7),
    "GroupNormalization": lambda w: w.apply(
        "GroupNormalization", w.data, RNG.normal(size=6), RNG.normal(size=6), num_groups=3, epsilon=0.01
    ),
    "MeanVarianceNormalization": lambda w: w.apply("MeanVarianceNormalization", w.data),
    "its axes": lambda w: w.apply("MeanVarianceNormalization", w.data, axes=[-1, 1]),
    "LpNormalization": lambda w: w.apply("LpNormalization", w.data, axis=1),
    "its p": lambda w: w.apply("LpNormalization", w.data, p=1),
    "OneHot": lambda w: w.apply("OneHot", computed_places(w, 9, 5.0), np.array(4), np.array([-0.5, 2.5]), axis=0),
    **{f"ScatterElements {each}": lambda w, each=each: scattered(w, each) for each in ("none", "add", "mul", "max")},
    "ScatterND": lambda w: w.apply(
        "ScatterND", w.data, np.array([[0, 1], [1, -2], [-1, 0]]), RNG.normal(size=(3, 5, 8)), reduction="add"
    ),
    "GridSample": lambda w: sampled(w),
    "its border": lambda w: sampled(w, padding_mode="border", align_corners=1),
    "its reflection": lambda w: sampled(w, padding_mode="reflection"),
    "its nearest": lambda w: sampled(w, mode="nearest", padding_mode="border"),
}


@pytest.mark.parametrize("name", one_in(4, BUILDS))
@pytest.mark.matrix(at_most=2)
def test_operators_are_what_onnx_runtime_computes(name: str, tmp_path: Path) -> None:
    w = IslandWriter()
    opset = 21 if "Group" in name else 18
    ours, theirs = outputs_of(w.file(BUILDS[name](w), opset=opset), tmp_path, {"x": feed_of()})
    if "Sample" in name or name.startswith("its "):
        # A place between pixels differs by its last bits, and numbers by what that is of their difference.
        for made, expected in theirs.items():
            np.testing.assert_allclose(ours[made], expected, rtol=1e-5, atol=2e-5)
    else:
        assert_close(ours, theirs)


@pytest.mark.parametrize("operator", ["ScatterElements", "ScatterND"])
def test_places_outside_write_nothing_elsewhere(operator: str, tmp_path: Path) -> None:
    """Indices that are computed and far outside are those of the axis's ends."""
    w = IslandWriter((4, 9))
    places = computed_places(w, 9, 1e9)
    shape = [1, 9] if operator == "ScatterElements" else [9, 1]
    updates = np.ones((1, 9)) if operator == "ScatterElements" else np.ones((9, 9))
    made = w.apply(operator, w.data, w.apply("Reshape", places, np.array(shape)), updates)
    model = compiled(w.file(made, w.data), tmp_path)
    feed = feed_of((4, 9))
    ours = dict(zip([form["name"] for form in model.about.outputs], model.run([feed]), strict=True))
    changed = np.nonzero((ours[made] != ours[w.data]).any(axis=1))[0]
    assert set(changed) <= {0, 3}
    assert len(changed)
    alone = IslandWriter((4, 9))
    np.testing.assert_array_equal(ours[w.data], values_of(alone.file(alone.data), [alone.data], feed)[alone.data])


@pytest.mark.thorough
def test_grids_that_are_no_numbers_harm_nothing(tmp_path: Path) -> None:
    w = IslandWriter()
    grid = w.apply(
        "Reshape", w.apply("Slice", "x", np.array([0]), np.array([4]), np.array([3])), np.array([2, 6, 10, 2])
    )
    modes = ({"padding_mode": "border"}, {"padding_mode": "reflection"}, {"mode": "nearest"}, {})
    made = [w.apply("GridSample", w.data, grid, **mode) for mode in modes]
    model = compiled(w.file(*made), tmp_path)
    feed = feed_of()
    feed.reshape(-1)[::3], feed.reshape(-1)[1::7], feed.reshape(-1)[2::11] = np.nan, np.inf, -np.inf
    for ours in model.run([feed]):
        assert np.isfinite(ours).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda w: w.apply("GroupNormalization", w.data, np.ones(4), np.ones(4), num_groups=4),
            "must divide the channels",
        ),
        (lambda w: w.apply("LpNormalization", w.data, axis=9), "its axis must be one of 4: 9"),
        (lambda w: w.apply("MeanVarianceNormalization", w.data, axes=[7]), "its axes must be those of"),
        (lambda w: w.apply("Celu", w.data, alpha=0.0), "its alpha must not be 0"),
        (lambda w: w.apply("GridSample", w.data, np.zeros((2, 3, 3, 2)), mode="cubic"), "only images are sampled"),
        (
            lambda w: w.apply(
                "ScatterElements", w.data, np.zeros((9, 1, 1, 1), np.int64), np.zeros((9, 1, 1, 1)), axis=1
            ),
            "must be within",
        ),
    ],
)
def test_what_is_not_computed_says_why(build: Build, message: str) -> None:
    w = IslandWriter(SHAPE)
    (found,) = obstacles(read_onnx(w.file(build(w), opset=21), "one"))
    assert message in found.reason
