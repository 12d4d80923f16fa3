"""Detections of an SSD: boxes decoded by their anchors, then the best ones that don't overlap better ones.

TFLite's custom operator TFLite_Detection_PostProcess, on one thread. Source: kernels/detection_postprocess.cc of
TensorFlow Lite. Centers and sizes are computed in binary64, everything else in binary32. Rows without a detection are
zeros; LiteRT leaves there what was in memory. Boxes without an area overlap none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import Array, FloatArray, shape_fault

CORNERS = 4
# What is computed in one go: boxes times classes, and rows of detections.
MOST_SCORES, MOST_DETECTIONS = 1 << 24, 1 << 16


@dataclass(frozen=True, slots=True)
class DetectionOptions:
    """What the operator's options say.

    Attributes:
        detections: rows of its outputs.
        detections_per_class: how many are found of one class, where `is_regular`.
        classes: without one for the background, which is before all others.
        is_regular: each class is searched by itself, else each box has its best class only.
        scales: of y, x, height and width.
    """

    detections: int
    detections_per_class: int
    classes: int
    is_regular: bool
    score_threshold: float
    overlap_threshold: float
    scales: tuple[float, float, float, float]


def options_of(operator: Operator) -> DetectionOptions:
    found = operator.attributes["options"]
    assert isinstance(found, DetectionOptions)
    return found


def output_shapes(options: DetectionOptions) -> tuple[tuple[int, ...], ...]:
    """The shapes of boxes, classes, scores, and the number of detections."""
    rows = options.detections
    return (1, rows, CORNERS), (1, rows), (1, rows), (1,)


def fault(operator: Operator, inputs: Sequence[Value], outputs: Sequence[Value]) -> str | None:
    options, (boxes, scores, anchors) = options_of(operator), inputs
    if any(value.type != "f32" for value in (*inputs, *outputs)):
        return f"its values must be f32 or u8: {', '.join(value.type for value in (*inputs, *outputs))}"
    count = boxes.shape[1] if len(boxes.shape) == 3 else 0
    if boxes.shape[:1] != (1,) or count < 1 or boxes.shape[2] < CORNERS:
        return f"its boxes must be one image's, of at least 4 values each: {boxes.shape}"
    if anchors.shape != (count, CORNERS):
        return f"its anchors must have shape {(count, CORNERS)}: {anchors.shape}"
    if anchors.constant is None or not (anchors.constant[:, 2:] >= 0).all():
        return "its anchors must be constant, none of a size below 0"
    if len(scores.shape) != 3 or scores.shape[:2] != (1, count) or not 0 <= scores.shape[2] - options.classes <= 1:
        return f"its scores must be of {count} boxes and {options.classes} classes: {scores.shape}"
    if count * scores.shape[2] > MOST_SCORES:
        return f"it must have at most {MOST_SCORES:,} scores: {scores.shape}"
    faults = (shape_fault(value, shape) for value, shape in zip(outputs, output_shapes(options), strict=True))
    return next((each for each in faults if each), None)


def reference(
    operator: Operator,
    inputs: Sequence[Value],  # noqa: ARG001
    outputs: Sequence[Value],  # noqa: ARG001
    arrays: Sequence[Array],
) -> tuple[Array, ...]:
    options, (boxes, scores, anchors) = options_of(operator), arrays
    corners = decoded(boxes[0], anchors, options.scales)
    scores = scores[0, :, scores.shape[2] - options.classes :]
    find = _regular if options.is_regular else _fast
    found = find(corners, scores, options)
    made = [np.zeros(shape, np.float32) for shape in output_shapes(options)]
    for row, (box, category, score) in enumerate(found):
        made[0][0, row], made[1][0, row], made[2][0, row] = corners[box], category, score
    made[3][0] = len(found)
    return tuple(made)


Found = list[tuple[int, int, np.float32]]


def decoded(boxes: FloatArray, anchors: FloatArray, scales: Sequence[float]) -> FloatArray:
    """The corners of boxes: ymin, xmin, ymax, xmax."""
    steps = boxes[:, :CORNERS].astype(np.float64) / np.array(scales, np.float32).astype(np.float64)
    wide = anchors.astype(np.float64)
    centers = (steps[:, :2] * wide[:, 2:] + wide[:, :2]).astype(np.float32)
    halves = (0.5 * np.exp(steps[:, 2:]) * wide[:, 2:]).astype(np.float32)
    return np.concatenate([centers - halves, centers + halves], axis=1)


def _fast(corners: FloatArray, scores: FloatArray, options: DetectionOptions) -> Found:
    best = _chosen(corners, scores.max(axis=1), options.detections, options)
    # Of equal scores, the first class.
    return [(box, int(scores[box].argmax()), scores[box].max()) for box in best]


def _regular(corners: FloatArray, scores: FloatArray, options: DetectionOptions) -> Found:
    kept: Found = []
    for category in range(options.classes):
        own = scores[:, category]
        chosen = _chosen(corners, own, options.detections_per_class, options)
        # Of equal scores, an earlier class comes first.
        kept = sorted([*kept, *((box, category, own[box]) for box in chosen)], key=lambda each: -each[2])
        del kept[options.detections :]
    return kept


def _chosen(corners: FloatArray, scores: FloatArray, most: int, options: DetectionOptions) -> list[int]:
    """Boxes, the best ones first, without those that overlap a better one; of equal scores the first box is better."""
    (places,) = np.nonzero(scores >= np.float32(options.score_threshold))
    order = places[np.argsort(-scores[places], kind="stable")]
    chosen: list[int] = []
    while len(order) and len(chosen) < most:
        first, order = int(order[0]), order[1:]
        chosen.append(first)
        order = order[~(overlaps(corners[first], corners[order]) > np.float32(options.overlap_threshold))]
    return chosen


def overlaps(box: FloatArray, others: FloatArray) -> FloatArray:
    """The intersection of a box with each of others, as a share of their union; 0 where one has no area."""
    area = (box[2] - box[0]) * (box[3] - box[1])
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    sides = np.maximum(high - low, np.float32(0))
    common = sides[:, 0] * sides[:, 1]
    made: FloatArray = np.where((area > 0) & (areas > 0), common / (area + areas - common), np.float32(0))
    return made
