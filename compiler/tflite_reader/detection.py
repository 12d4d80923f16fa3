"""The custom operator TFLite_Detection_PostProcess, whose options are FlexBuffers."""

from __future__ import annotations

import math
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

import numpy as np

from int8tune.compiler.graph import Kind, Operator, Value
from int8tune.compiler.naming import free_name
from int8tune.compiler.operators import checked, other
from int8tune.compiler.operators.detection import MOST_DETECTIONS, DetectionOptions, output_shapes
from int8tune.compiler.tflite_reader.file import CUSTOM
from int8tune.compiler.tflite_reader.steps import Reason, Step

DETECTION = f"{CUSTOM} TFLite_Detection_PostProcess"
INPUTS, OUTPUTS, SCORES = 3, 4, 1
MOST_OPTION_BYTES, MOST_OPTIONS = 1 << 12, 64
COUNTS = ("max_detections", "detections_per_class", "max_classes_per_detection", "num_classes")
SCALES = ("y_scale", "x_scale", "h_scale", "w_scale")
OPTIONS = (*COUNTS, "use_regular_nms", "nms_score_threshold", "nms_iou_threshold", *SCALES)
# What LiteRT takes where an option is not there.
DEFAULTS = {"detections_per_class": 100.0, "use_regular_nms": 0.0}

Values = MutableMapping[str, Value]


def detection_operators(step: Step, operator: Any, values: Values) -> tuple[Operator, ...]:
    """The operator behind a DEQUANTIZE for each input of u8; `values` grows by what these make.

    Outputs get the shapes that LiteRT gives them, as most files say none.
    """
    plain = step.plain
    if (len(step.inputs), len(plain.outputs)) != (INPUTS, OUTPUTS):
        return (other(plain, f"it has {len(step.inputs)} inputs and {len(plain.outputs)} outputs"),)
    options = _options(operator)
    if isinstance(options, str):
        return (other(plain, options),)
    if (wrong := _score_fault(step.inputs[SCORES])) is not None:
        return (other(plain, wrong),)
    for name, shape in zip(plain.outputs, output_shapes(options), strict=True):
        values[name] = replace(values[name], shape=shape)
    before: list[Operator] = []
    inputs = tuple(_number(plain, value, values, before) for value in step.inputs)
    whole = replace(plain, kind=Kind.DETECTION, inputs=inputs, attributes={"options": options})
    return (*(checked(each, values) for each in before), checked(whole, values))


def _number(plain: Operator, value: Value, values: Values, before: list[Operator]) -> str:
    """The value that the numbers of an input of u8 are, and what makes it; a constant's are known."""
    if value.type != "u8" or value.quantization is None or value.quantization.per_channel:
        return value.name
    name = free_name(f"{value.name}/number", values)
    known = None if value.constant is None else value.quantization.numbers(value.constant)
    values[name] = Value(name, value.shape, "f32", constant=known)
    if known is None:
        before.append(Operator(Kind.DEQUANTIZE, plain.layers, "DEQUANTIZE", (value.name,), (name,), plain.rule))
    return name


def _score_fault(scores: Value) -> Reason | None:
    """Why LiteRT gets other numbers of stored scores: it subtracts the zero point behind the product with the scale."""
    if scores.type != "u8" or scores.quantization is None or not scores.quantization.zero_point.any():
        return None
    is_exact = all(math.frexp(float(scale))[0] == 0.5 for scale in scores.quantization.scale)
    return None if is_exact else f"its scores must have the zero point 0: {scores.quantization.zero_point[0]}"


def _options(operator: Any) -> DetectionOptions | Reason:
    data = b"" if operator.CustomOptionsIsNone() else operator.CustomOptionsAsNumpy().tobytes()
    if len(data) > MOST_OPTION_BYTES:
        return f"its options must have at most {MOST_OPTION_BYTES} bytes: {len(data)}"
    found = _numbers(data)
    if isinstance(found, str):
        return found
    counts = {name: int(found[name]) for name in COUNTS}
    if not all(1 <= count <= MOST_DETECTIONS for count in counts.values()):
        return f"its counts must be from 1 to {MOST_DETECTIONS}: {counts}"
    if counts["max_classes_per_detection"] != 1:
        return f"it must have one class for each detection: {counts['max_classes_per_detection']}"
    scales = tuple(found[name] for name in SCALES)
    if min(scales) <= 0:
        return f"its scales must be positive: {scales}"
    if not 0 < found["nms_iou_threshold"] <= 1:
        return f"its overlap must be above 0 and at most 1: {found['nms_iou_threshold']}"
    return DetectionOptions(
        detections=counts["max_detections"],
        detections_per_class=counts["detections_per_class"],
        classes=counts["num_classes"],
        is_regular=bool(found["use_regular_nms"]),
        score_threshold=found["nms_score_threshold"],
        overlap_threshold=found["nms_iou_threshold"],
        scales=(scales[0], scales[1], scales[2], scales[3]),
    )


def _numbers(data: bytes) -> dict[str, float] | Reason:
    """The options by name, of which only those that have a default may be missing."""
    from flatbuffers import flexbuffers  # what the package tflite needs

    try:
        options = flexbuffers.GetRoot(data).AsMap
        places = {bytes(key.AsKeyBytes): place for place, key in zip(range(MOST_OPTIONS), options.Keys, strict=False)}
        there = {name: options.Values[places[name.encode()]] for name in OPTIONS if name.encode() in places}
        # Others may be lists of lists of each other, without an end.
        numbers = {
            name: float(np.float32(each.AsFloat)) for name, each in there.items() if each.IsNumeric or each.IsBool
        }
    except Exception:  # it follows offsets wherever they lead
        return "its options are no FlexBuffers map of numbers"
    found = {**DEFAULTS, **numbers}
    wrong = [name for name in OPTIONS if not math.isfinite(found.get(name, math.nan))]
    return f"its options must have numbers, which {wrong[0]} is not" if wrong else found
