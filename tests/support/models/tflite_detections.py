"""TFLite models that end in the custom operator TFLite_Detection_PostProcess."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.models.tflite_models import Writer

Array = npt.NDArray[Any]
NAME = "TFLite_Detection_PostProcess"
OPTIONS: dict[str, Any] = {
    "max_detections": 10,
    "max_classes_per_detection": 1,
    "detections_per_class": 100,
    "use_regular_nms": False,
    "nms_score_threshold": 0.3,
    "nms_iou_threshold": 0.6,
    "num_classes": 5,
    "y_scale": 10.0,
    "x_scale": 9.7,
    "h_scale": 5.0,
    "w_scale": 4.9,
}
OUTPUTS = ("boxes", "classes", "scores", "number")


def anchors_of(boxes: int) -> Array:
    """Anchors, each of which is there twice."""
    made = np.random.default_rng(0).uniform(0.1, 0.9, (boxes, 4)).astype(np.float32)
    return made[np.arange(boxes) // 2]


def detections(
    w: Writer, boxes: int, scores: int, anchors: int, options: dict[str, Any], *, is_said: bool
) -> list[int]:
    """The operator's outputs.

    Args:
        is_said: the file has their shapes.
    """
    rows = options.get("max_detections", 10)
    shapes = [(1, rows, 4), (1, rows), (1, rows), (1,)] if is_said else [(), (), (), ()]
    made = [w.tensor(name, "f32", shape) for name, shape in zip(OUTPUTS, shapes, strict=True)]
    w.custom(NAME, [boxes, scores, anchors], made, options)
    return made


def numbers_model(boxes: int, channels: int, **options: Any) -> bytes:
    """Detections of inputs in float; what is quantized is beside them."""
    w = Writer()
    inputs = w.input("encoded", "f32", (1, boxes, 4)), w.input("confidence", "f32", (1, boxes, channels))
    made = detections(w, *inputs, w.constant("anchors", "f32", anchors_of(boxes)), {**OPTIONS, **options}, is_said=True)
    return w.model(*made)


def file_with_detections() -> bytes:
    """Detections of u8 inputs, whose shapes the file does not say, and of numbers that something computes."""
    w = Writer()
    boxes, scores = w.input("x", "u8", (1, 30, 5), 0.05, 120), w.input("s", "u8", (1, 30, 6), 1 / 256, 0)
    anchors = w.constant("anchors", "u8", np.random.default_rng(1).integers(60, 250, (30, 4)), 0.004, 3)
    made = detections(w, boxes, scores, anchors, OPTIONS, is_said=False)
    numbers, curve = w.tensor("numbers", "f32", (1, 30, 6)), w.tensor("curve", "f32", (1, 30, 6))
    w.operator("DEQUANTIZE", [scores], [numbers])
    w.operator("SOFTMAX", [numbers], [curve], "Softmax", beta=9.0)
    options = {**OPTIONS, "use_regular_nms": True, "nms_score_threshold": 0.2}
    real = w.tensor("real", "f32", (1, 30, 5))
    w.operator("DEQUANTIZE", [boxes], [real])
    more = detections(w, real, curve, w.constant("real anchors", "f32", anchors_of(30)), options, is_said=False)
    for at in more:
        w.tensors[at].name += " again"
    return w.model(*made, *more)
