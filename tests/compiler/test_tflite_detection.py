"""Detections of SSD models: every row that LiteRT finds, in its order, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.compiled_model import CompiledModel
from int8tune.compiler.graph import Kind
from int8tune.compiler.interpreter import run_reference
from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.tflite_detections import (
    NAME,
    OPTIONS,
    OUTPUTS,
    anchors_of,
    detections,
    file_with_detections,
    numbers_model,
)
from tests.support.models.tflite_islands import compiled
from tests.support.models.tflite_models import Writer, values_of
from tests.support.run.thinned import one_in

pytest.importorskip("tflite", reason="needs the extra `models`")

Array = npt.NDArray[Any]
# Boxes, channels of scores, options: with a class for the background, or not.
FORMS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "coco": (1917, 91, {"num_classes": 90, "nms_score_threshold": 1e-8}),
    "coco, each class": (1917, 91, {"num_classes": 90, "use_regular_nms": True, "max_detections": 100}),
    "few of each class": (60, 5, {"use_regular_nms": True, "detections_per_class": 2, "nms_score_threshold": 0.5}),
    "one class": (300, 1, {"num_classes": 1, "max_detections": 100, "nms_iou_threshold": 1.0}),
    "one class by itself": (300, 2, {"num_classes": 1, "use_regular_nms": True, "nms_iou_threshold": 0.3}),
    "one detection": (40, 6, {"max_detections": 1}),
    "one box": (1, 5, {}),
}


def feeds(boxes: int, channels: int, seed: int) -> list[tuple[Array, Array]]:
    """Boxes and scores: any, of few values with many ties, with boxes that are the same, all below the threshold."""
    rng, made = np.random.default_rng(seed), []
    for _ in range(2):
        encoded, scores = rng.normal(size=(1, boxes, 4)), rng.random((1, boxes, channels))
        made += [(encoded, scores), (encoded, np.round(scores * 8) / 8), (np.round(encoded), np.round(scores) * 0.5)]
        made.append((np.zeros_like(encoded), scores**4))
    made.append((encoded, scores * 1e-9))
    return [(one.astype(np.float32), other.astype(np.float32)) for one, other in made]


def assert_detections(ours: dict[str, Array], theirs: dict[str, Array], names: tuple[str, ...] = OUTPUTS) -> int:
    """All rows that are detections are equal, the others are zeros; how many there are."""
    *parts, number = names
    np.testing.assert_array_equal(ours[number], theirs[number], strict=True)
    count = int(ours[number][0])
    for name in parts:
        np.testing.assert_array_equal(ours[name][:, :count], theirs[name][:, :count], name, strict=True)
        assert not ours[name][:, count:].any(), name
    return count


def outputs_of(model: CompiledModel, inputs: list[Array]) -> dict[str, Array]:
    return dict(zip([form["name"] for form in model.about.outputs], model.run(inputs), strict=True))


@pytest.mark.parametrize("form", one_in(3, FORMS))
def test_detections_are_litert_s(form: str, tmp_path: Path) -> None:
    boxes, channels, options = FORMS[form]
    file = numbers_model(boxes, channels, **options)
    model, graph, counts = compiled(file, tmp_path), read_tflite(file, "ssd"), []
    for index, (encoded, scores) in enumerate(feeds(boxes, channels, len(form))):
        feed, ours = {"encoded": encoded, "confidence": scores}, outputs_of(model, [encoded, scores])
        counts.append(assert_detections(ours, values_of(file, feed, is_reference=index % 2 == 0)))
        values = run_reference(graph, feed)
        for name in OUTPUTS:
            np.testing.assert_array_equal(values[name], ours[name], name, strict=True)
    assert counts[-1] == 0
    assert max(counts) == min(boxes, {**OPTIONS, **options}["max_detections"])


def test_u8_inputs_and_shapes_that_the_file_does_not_say(tmp_path: Path) -> None:
    """The second operator reads an island, whose numbers are near: its scores are, and its boxes where these differ."""
    file, rng = file_with_detections(), np.random.default_rng(3)
    kinds = [each.kind for each in read_tflite(file, "ssd").operators]
    assert kinds.count(Kind.DETECTION) == 2
    model = compiled(file, tmp_path)
    assert [form["shape"] for form in model.about.outputs[:4]] == [[1, 10, 4], [1, 10], [1, 10], [1]]
    for _ in range(8):
        feed = {"x": rng.integers(60, 180, (1, 30, 5)), "s": rng.integers(0, 256, (1, 30, 6))}
        feed = {name: array.astype(np.uint8) for name, array in feed.items()}
        ours, theirs = outputs_of(model, [feed["x"], feed["s"]]), values_of(file, feed)
        assert assert_detections(ours, theirs) > 3
        count = int(theirs["number again"][0])
        assert ours["number again"][0] == count > 3
        for name in ("boxes again", "classes again", "scores again"):
            np.testing.assert_allclose(ours[name][:, :count], theirs[name][:, :count], 1e-5)


def test_rows_of_an_earlier_call_are_not_left(tmp_path: Path) -> None:
    boxes, channels, options = FORMS["few of each class"]
    model = compiled(numbers_model(boxes, channels, **options), tmp_path)
    (full, *_, none) = feeds(boxes, channels, 0)
    assert outputs_of(model, list(full))["number"][0] > 0
    assert not any(array.any() for array in outputs_of(model, list(none)).values())


def test_boxes_without_an_area_overlap_none(tmp_path: Path) -> None:
    file = numbers_model(40, 5)
    encoded, scores = feeds(40, 5, 0)[0]
    encoded[0, :5, 2] = -1000
    scores[0, :5] = 2
    ours = outputs_of(compiled(file, tmp_path), [encoded, scores])
    assert (
        assert_detections(ours, values_of(file, {"encoded": encoded, "confidence": scores}))
        == OPTIONS["max_detections"]
    )
    assert (ours["boxes"][0, :5, 0] == ours["boxes"][0, :5, 2]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_classes_per_detection": 2}, "it must have one class for each detection: 2"),
        ({"detections_per_class": 0}, "its counts must be from 1 to 65536"),
        ({"num_classes": 90}, "its scores must be of 40 boxes and 90 classes: (1, 40, 5)"),
        ({"nms_iou_threshold": 0.0}, "its overlap must be above 0 and at most 1: 0.0"),
        ({"nms_iou_threshold": 1e-60}, "its overlap must be above 0 and at most 1: 0.0"),
        ({"y_scale": float("inf")}, "its options must have numbers, which y_scale is not"),
        ({"y_scale": 0.0}, "its scales must be positive: (0.0,"),
        ({"h_scale": [5.0]}, "its options must have numbers, which h_scale is not"),
    ],
)
def test_options_that_are_refused_say_why(options: dict[str, Any], message: str) -> None:
    (found,) = obstacles(read_tflite(numbers_model(40, 5, **options), "ssd"))
    assert (found.operator, found.reason[: len(message)]) == (f"CUSTOM {NAME}", message)


def test_anchors_without_a_size_are_refused() -> None:
    """LiteRT does not run with them."""
    w, anchors = Writer(), anchors_of(40)
    anchors[7, 3] = -0.1
    inputs = w.input("encoded", "f32", (1, 40, 4)), w.input("confidence", "f32", (1, 40, 5))
    made = detections(w, *inputs, w.constant("anchors", "f32", anchors), OPTIONS, is_said=True)
    assert "constant, none of a size below 0" in obstacles(read_tflite(w.model(*made), "ssd"))[0].reason


@pytest.mark.parametrize(("scale", "is_exact"), [(0.05, False), (0.0625, True)])
def test_scores_with_a_zero_point_are_numbers_of_litert_s(scale: float, is_exact: bool, tmp_path: Path) -> None:
    """It rounds twice where the scale is no power of two."""
    w, rng = Writer(), np.random.default_rng(8)
    inputs = w.input("encoded", "f32", (1, 40, 4)), w.input("confidence", "u8", (1, 40, 5), scale, 120)
    file = w.model(*detections(w, *inputs, w.constant("anchors", "f32", anchors_of(40)), OPTIONS, is_said=True))
    if not is_exact:
        assert obstacles(read_tflite(file, "ssd"))[0].reason == "its scores must have the zero point 0: 120"
        return
    feed = {"encoded": rng.normal(size=(1, 40, 4)).astype(np.float32)}
    feed["confidence"] = rng.integers(0, 256, (1, 40, 5)).astype(np.uint8)
    assert assert_detections(outputs_of(compiled(file, tmp_path), list(feed.values())), values_of(file, feed)) == 10


def test_options_have_litert_s_defaults() -> None:
    w, left = Writer(), {key: value for key, value in OPTIONS.items() if key not in ("use_regular_nms", "y_scale")}
    inputs = w.input("encoded", "f32", (1, 40, 4)), w.input("confidence", "f32", (1, 40, 5))
    anchors = w.constant("anchors", "f32", anchors_of(40))
    file = w.model(*detections(w, *inputs, anchors, {**left, "y_scale": 10.0}, is_said=False))
    (operator,) = read_tflite(file, "ssd").operators
    assert not operator.attributes["options"].is_regular
    file = w.model(*detections(w, *inputs, anchors, left, is_said=False))
    assert "which y_scale is not" in obstacles(read_tflite(file, "ssd"))[0].reason
