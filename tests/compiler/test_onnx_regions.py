"""Col2Im and RoiAlign, compiled, beside ONNX Runtime: bit for bit, as both add up in one order."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.obstacles import refuse_obstacles
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import GivenWriter, compiled, outputs_of
from tests.support.run.thinned import chosen

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

RNG = np.random.default_rng(8)
IMAGES = (2, 3, 9, 11)
# Usual ones, one of negative size, all of the image, and one outside of it.
REGIONS = [*RNG.uniform(-3, 14, (5, 4)), (2, 2, 1, 1), (0, 0, 15, 12), (-30, -30, -20, -20)]
BATCHES = np.array([0, 1, 0, 1, 1, 0, 1, 0])
SAMPLED = {"output_height": 3, "output_width": 4, "sampling_ratio": 2, "spatial_scale": 0.7}


def regions(w: GivenWriter, values: Any = REGIONS, batches: Any = BATCHES, **attributes: Any) -> str:
    inputs = w.given("regions", np.array(values, np.float32)), w.given("batches", batches)
    return w.apply("RoiAlign", w.data, *inputs, **(SAMPLED | attributes))


MODES = [
    (opset, mode, coordinates)
    for opset, coordinates in ((18, "half_pixel"), (18, "output_half_pixel"), (10, ""), (16, ""))
    for mode in ("avg", "max")
]


@pytest.mark.parametrize(("opset", "mode", "coordinates"), chosen(MODES, lambda each: each == (10, "max", "")))
def test_regions_are_onnx_runtimes(opset: int, mode: str, coordinates: str, tmp_path: Path) -> None:
    w = GivenWriter(IMAGES)
    said = {"coordinate_transformation_mode": coordinates} if coordinates else {}
    made = regions(w, mode=mode, **said)
    ours, theirs = outputs_of(w.file(made, opset=opset), tmp_path, w.feeds)
    np.testing.assert_array_equal(ours[made], theirs[made], strict=True)


def test_coordinates_that_are_said_are_those_by_default_or_others() -> None:
    def operators(**said: str) -> str:
        w = GivenWriter(IMAGES)
        return repr(read_onnx(w.file(regions(w, **said)), "regions").operators)

    assert operators(coordinate_transformation_mode="half_pixel") == operators()
    assert operators(coordinate_transformation_mode="output_half_pixel") != operators()


@pytest.mark.thorough
def test_regions_of_no_image_read_the_next_one(tmp_path: Path) -> None:
    """ONNX Runtime reads whatever is in memory. What is no number, or far, is somewhere in the image, or nothing."""
    w = GivenWriter(IMAGES)
    made = regions(w)
    model = compiled(w.file(made), tmp_path)

    def computed() -> Any:
        return model.run([w.feeds[form["name"]] for form in model.about.inputs])[0]

    w.feeds["batches"][:] = [0, 1] * 4
    wanted = computed()
    w.feeds["batches"][:] = [-(2**63), 2**63 - 1, -9, 2] * 2
    np.testing.assert_array_equal(computed(), wanted)
    w.feeds["regions"][:4] = [[np.nan] * 4, [np.inf] * 4, [-np.inf, 0, np.inf, 3e38], [3e38, -3e38, 1, 2]]
    found = computed()
    np.testing.assert_array_equal(found[4:], wanted[4:])
    assert np.isfinite(found).all()


FORMS: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, dict[str, Any]]] = {
    "pads": ((7, 8), (3, 3), 9, {"dilations": [1, 2], "strides": [2, 2], "pads": [1, 1, 0, 1]}),
    "three axes": ((4, 5, 6), (2, 2, 2), 16, {"strides": [2, 1, 3]}),
    "plain": ((5, 6), (2, 3), 16, {}),
    "gaps": ((6, 6), (1, 2), 6, {"strides": [3, 2]}),
    "one axis": ((9,), (3,), 7, {}),
    "one pixel": ((1, 1), (1, 1), 1, {}),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", FORMS)
def test_blocks_are_onnx_runtimes(name: str, tmp_path: Path) -> None:
    image, block, count, attributes = FORMS[name]
    w = GivenWriter((2, 2 * math.prod(block), count))
    made = w.apply("Col2Im", w.data, np.array(image), np.array(block), **attributes)
    ours, theirs = outputs_of(w.file(made), tmp_path, w.feeds)
    np.testing.assert_array_equal(ours[made], theirs[made], strict=True)


REGIONS_REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "adaptive": ({"sampling_ratio": 0}, "its sampling_ratio is 0"),
    "negative": ({"sampling_ratio": -1}, "its sampling_ratio must be 1 to 1024: -1"),
    "many": ({"sampling_ratio": 2**40}, "its sampling_ratio must be 1 to 1024: "),
    "large": ({"sampling_ratio": 1024, "output_height": 8}, "at most 134,217,728 samples"),
    "mode": ({"mode": "min"}, "its mode must be avg or max: min"),
    "coordinates": ({"coordinate_transformation_mode": "corners"}, "half_pixel or output_half_pixel: corners"),
    "three ends": ({"values": [[1, 2, 3]] * 8}, "four f32 each"),
    "other batches": ({"batches": np.array([0, 1])}, "RoiAlign"),
    "batches of bytes": ({"batches": BATCHES.astype(np.int32)}, "RoiAlign"),
    "no outputs": ({"output_height": 0}, "RoiAlign"),
    "very many": ({"output_height": 2**40}, "RoiAlign"),
}


@pytest.mark.parametrize("name", REGIONS_REFUSED)
def test_regions_that_are_not_computed_are_named(name: str) -> None:
    attributes, message = REGIONS_REFUSED[name]
    w = GivenWriter(IMAGES)
    _assert_refused(w, regions(w, **attributes), message)


BLOCKS_REFUSED: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "other count": ([5, 6], [2, 2], {}),
    "no block": ([5, 6], [0, 3], {}),
    "negative": ([5, -6], [2, 3], {}),
    "huge": ([2**40, 2**40], [2, 3], {}),
    "larger than the image": ([1, 1], [2, 3], {}),
    "ranks": ([5, 6, 7], [2, 3], {}),
    "a number": (5, 2, {}),
    "strides": ([5, 6], [2, 3], {"strides": [0, 1]}),
    "one stride": ([5, 6], [2, 3], {"strides": [1]}),
    "text": ([5, 6], [2, 3], {"dilations": "1"}),
    "negative pads": ([5, 6], [2, 3], {"pads": [-1, 0, 1, 0]}),
    "huge pads": ([5, 6], [2, 3], {"pads": [2**60] * 4}),
}


@pytest.mark.parametrize("name", BLOCKS_REFUSED)
def test_blocks_that_are_not_computed_are_named(name: str) -> None:
    image, block, attributes = BLOCKS_REFUSED[name]
    w = GivenWriter((2, 12, 16))
    _assert_refused(w, w.apply("Col2Im", w.data, np.array(image), np.array(block), **attributes), "Col2Im")


def test_computed_extents_of_blocks_are_named() -> None:
    w = GivenWriter((2, 12, 16))
    _assert_refused(w, w.apply("Col2Im", w.data, w.given("image", np.array([5, 6])), np.array([2, 3])), "Col2Im")


def _assert_refused(w: GivenWriter, made: str, message: str) -> None:
    with pytest.raises(ModelError, match=r"^[^\n]*(\n1 [^\n]*)?$") as fault:
        refuse_obstacles(read_onnx(w.file(made, "d"), "one"))
    assert message in str(fault.value)
