"""Images of another size, [N, H, W, C], by the nearest pixel or between the nearest four.

Sources: TFLite, reference/resize_nearest_neighbor.h and resize_bilinear.h; ONNX Runtime, cpu/tensor/upsample.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import (
    Array,
    FloatArray,
    LongArray,
    byte_fault,
    dequantized,
    is_same_quantization,
    scale_of,
    shape_fault,
    stored,
    zero_point_of,
)
from int8tune.compiler.operators.quantize import half_away, quantized_float

# TFLite's bilinear resize of s8 images counts in 1024th of a pixel.
UNIT_BITS = 10


@dataclass(frozen=True, slots=True, eq=False)
class ResizeAxis:
    """What outputs take of one axis of the image: `low` and `high` are the same where the nearest pixel is taken.

    Attributes:
        low, high: int64 [O], rows or columns of the image.
        share: of `high` in the output, the rest is that of `low`: float32 [O], or int64 [O] in 1024th where the fixed
            rule resizes s8 images. At an edge, where `low` and `high` are one, the fixed rule's may be below 0, and the
            float rule's is 0.5.
    """

    low: LongArray
    high: LongArray
    share: Array


@dataclass(frozen=True, slots=True, eq=False)
class ResizeConstants:
    """What a resize knows before it runs."""

    rows: ResizeAxis
    columns: ResizeAxis


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    (data,), at = inputs, operator.attributes
    wrong = byte_fault(data, output)
    if wrong or len(data.shape) != 4 or len(output.shape) != 4:
        return wrong or f"its image must have four axes: {data.shape}, {output.shape}"
    if (operator.rule == "fixed" or at["method"] == "nearest") and not is_same_quantization(data, output):
        return "its input and output must have one scale"
    if at["method"] == "bilinear" and at["align_corners"] and at["half_pixel_centers"]:
        return "corners can't be aligned where pixels have centres"
    return shape_fault(output, (data.shape[0], *output.shape[1:3], data.shape[3]))


def resize_constants(operator: Operator, data: Value, output: Value) -> ResizeConstants:
    """The constants of a resize."""
    rows, columns = (_axis(operator, data, data.shape[axis], output.shape[axis]) for axis in (1, 2))
    return ResizeConstants(rows, columns)


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    ((data,), (image,)), constants = (inputs, arrays), resize_constants(operator, inputs[0], output)
    if operator.attributes["method"] == "nearest":
        return np.ascontiguousarray(image[:, constants.rows.low][:, :, constants.columns.low])
    if operator.rule == "float":
        real = dequantized(image, data)
        steps = quantized_float(_weighted_blend(real, constants), scale_of(output)) + zero_point_of(output)
    elif data.type == "s8":
        steps = _whole_blend(image.astype(np.int64), constants)
    else:
        steps = np.floor(_blend(image.astype(np.float32), constants) + np.float32(0.5)).astype(np.int64)
    return stored(steps, operator, output)


def nearest_positions(extent: int, outputs: int, align_corners: bool, half_pixel_centers: bool) -> LongArray:
    """The row or column next to each output, int64 [O], computed in binary32."""
    offset = np.float32(0.5 if half_pixel_centers else 0)
    places = (np.arange(outputs).astype(np.float32) + offset) * _step(extent, outputs, align_corners)
    nearest = half_away(places) if align_corners else np.floor(places).astype(np.int64)
    return np.clip(nearest, 0, extent - 1)


def _axis(operator: Operator, data: Value, extent: int, outputs: int) -> ResizeAxis:
    at = operator.attributes
    if at["method"] == "nearest":
        nearest = nearest_positions(extent, outputs, at["align_corners"], at["half_pixel_centers"])
        return ResizeAxis(nearest, nearest, np.zeros(outputs, np.float32))
    if operator.rule == "fixed" and data.type == "s8":
        return whole_axis(extent, outputs, at["align_corners"], at["half_pixel_centers"])
    places = _places(operator, extent, outputs)
    if operator.rule == "float":
        places = np.clip(places, 0, np.float32(extent - 1))
        low = places.astype(np.int64)
        high = np.minimum(low + 1, extent - 1)
        share = np.where(low == high, np.float32(0.5), places - low.astype(np.float32))
        return ResizeAxis(low, high, share)
    low = np.maximum(np.floor(places), 0).astype(np.int64)
    high = np.minimum(np.ceil(places), extent - 1).astype(np.int64)
    return ResizeAxis(low, high, places - low.astype(np.float32))


def _places(operator: Operator, extent: int, outputs: int) -> FloatArray:
    """Where outputs are between rows or columns. TFLite multiplies by a step, ONNX Runtime divides by its inverse."""
    at, indices, half = operator.attributes, np.arange(outputs).astype(np.float32), np.float32(0.5)
    if operator.rule == "float":
        if at["align_corners"]:
            return indices * np.float32(extent - 1) / np.float32(max(1, outputs - 1))
        scale = np.float32(outputs) / np.float32(extent)
        if scale == 1:
            return indices
        return (indices + half) / scale - half if at["half_pixel_centers"] else indices / scale
    step = _step(extent, outputs, at["align_corners"])
    return (indices + half) * step - half if at["half_pixel_centers"] else indices * step


def _step(extent: int, outputs: int, align_corners: bool) -> np.float32:
    if align_corners and outputs > 1:
        return np.float32(extent - 1) / np.float32(outputs - 1)
    return np.float32(extent) / np.float32(outputs)


def whole_axis(extent: int, outputs: int, align_corners: bool, half_pixel_centers: bool) -> ResizeAxis:
    unit, aligned = 1 << UNIT_BITS, int(align_corners and outputs > 1)
    step = (unit * (extent - aligned) + (outputs - aligned) // 2) // (outputs - aligned)
    places = np.arange(outputs) * step + (step // 2 - unit // 2 if half_pixel_centers else 0)
    low = np.maximum(places, 0) >> UNIT_BITS
    high = np.clip((places + unit - 1) >> UNIT_BITS, 0, extent - 1)
    return ResizeAxis(low, high, places - unit * low)


def _blend(pixels: FloatArray, constants: ResizeConstants) -> FloatArray:
    """TFLite's sum of four products, one after the other."""
    rows, columns = constants.rows, constants.columns
    down, across = rows.share[:, None, None], columns.share[:, None]
    up, back = np.float32(1) - down, np.float32(1) - across
    blend: FloatArray = pixels[:, rows.low][:, :, columns.low] * up * back
    blend = blend + pixels[:, rows.high][:, :, columns.low] * down * back
    blend = blend + pixels[:, rows.low][:, :, columns.high] * up * across
    return blend + pixels[:, rows.high][:, :, columns.high] * down * across


def _weighted_blend(pixels: FloatArray, constants: ResizeConstants) -> FloatArray:
    """ONNX Runtime's sum of four pixels, each times the product of its weights."""
    rows, columns = constants.rows, constants.columns
    down, across = rows.share[:, None, None], columns.share[:, None]
    up, back = np.float32(1) - down, np.float32(1) - across
    blend: Array = back * up * pixels[:, rows.low][:, :, columns.low]
    blend = blend + across * up * pixels[:, rows.low][:, :, columns.high]
    blend = blend + back * down * pixels[:, rows.high][:, :, columns.low]
    return blend + across * down * pixels[:, rows.high][:, :, columns.high]


def _whole_blend(image: LongArray, constants: ResizeConstants) -> LongArray:
    """Sums in 2^-20 of a step, halves away from zero."""
    rows, columns, unit = constants.rows, constants.columns, 1 << UNIT_BITS
    down, across = rows.share[:, None, None], columns.share[:, None]
    upper, lower = image[:, rows.low], image[:, rows.high]
    left = upper[:, :, columns.low] * (unit - down) + lower[:, :, columns.low] * down
    right = upper[:, :, columns.high] * (unit - down) + lower[:, :, columns.high] * down
    total = left * (unit - across) + right * across
    rounded: LongArray = np.sign(total) * ((np.abs(total) + (1 << 2 * UNIT_BITS - 1)) >> 2 * UNIT_BITS)
    return rounded
