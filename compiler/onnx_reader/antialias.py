"""Resize with antialias: a product with weights of rows, and one with those of columns.

Source: cpu/tensor/upsample_antialias.h of ONNX Runtime. The filter is as wide as the places that an output stands for.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.float_writer import FloatWriter
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError
from int8tune.compiler.operators.base import FloatArray

_AXES = (2, 3)
# How far each filter reaches on both sides, in values of what is sampled.
_REACH = {"linear": 1.0, "cubic": 2.0}
_MODES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
# Of the weights of an axis.
MOST_WEIGHTS = 1 << 22


def write_resize(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    """Images [N, C, H, W]: columns first, as ONNX Runtime does."""
    (element, shape), (_, made) = file.forms[node.input(0)], file.forms[node.outputs[0]]
    at = node.attributes
    method, mode = at.get("mode", "nearest"), at.get("coordinate_transformation_mode", "half_pixel")
    if element != "f32" or len(shape) != 4 or shape[:2] != made[:2] or method not in _REACH or mode not in _MODES:
        raise UnsupportedNodeError(f"with antialias only images of f32 are resized, linear or cubic: {method}, {mode}")
    if at.get("keep_aspect_ratio_policy", "stretch") != "stretch" or tuple(at.get("axes", (0, 1, 2, 3))[-2:]) != _AXES:
        raise UnsupportedNodeError("its axes must be those of images, without a policy for its aspect ratio")
    filter_ = _cubic(float(at.get("cubic_coeff_a", -0.75))) if method == "cubic" else _linear
    weights = []
    for axis in _AXES:
        if shape[axis] * made[axis] > MOST_WEIGHTS:
            raise UnsupportedNodeError(f"an axis has at most {MOST_WEIGHTS:,} weights: {shape[axis]} x {made[axis]}")
        scale = _scale(file, node, axis, shape, made)
        places = _places(mode, scale, shape[axis], made[axis])
        weights.append(
            np.eye(shape[axis], dtype=np.float32)
            if scale == 1
            else _weights(places, scale, shape[axis], filter_, _REACH[method], bool(at.get("exclude_outside", 0)))
        )
    across = writer.apply("MatMul", node.input(0), np.ascontiguousarray(weights[1].T))
    writer.apply("MatMul", weights[0], across, output=node.outputs[0])


def _scale(file: OnnxFile, node: Node, axis: int, shape: tuple[int, ...], made: tuple[int, ...]) -> float:
    """What the node says, or what its sizes do."""
    scales = file.constants.get(node.input(2))
    if scales is not None and scales.size:
        # Of all axes, or of the last two.
        return float(np.float32(scales.reshape(-1)[axis - len(shape)]))
    return float(np.float32(made[axis]) / np.float32(shape[axis]))


def _places(mode: str, scale: float, extent: int, count: int) -> FloatArray:
    """The place in the input of each output."""
    at, step = np.arange(count, dtype=np.float32), np.float32(scale)
    if mode == "asymmetric":
        return at / step
    if mode == "align_corners":
        return at * np.float32(extent - 1) / np.float32(max(1, count - 1))
    if mode == "pytorch_half_pixel" and count == 1:
        return np.zeros(1, np.float32)
    return (at + np.float32(0.5)) / step - np.float32(0.5)


def _linear(values: FloatArray) -> FloatArray:
    made: FloatArray = np.maximum(1 - np.abs(values), 0).astype(np.float32)
    return made


def _cubic(sharpness: float) -> Callable[[FloatArray], FloatArray]:
    def filter_(values: FloatArray) -> FloatArray:
        far = np.abs(values).astype(np.float64)
        near = ((sharpness + 2) * far - (sharpness + 3)) * far * far + 1
        tail = (((far - 5) * far + 8) * far - 4) * sharpness
        return np.where(far < 1, near, np.where(far < 2, tail, 0)).astype(np.float32)

    return filter_


def _weights(
    places: FloatArray,
    scale: float,
    extent: int,
    filter_: Callable[[FloatArray], FloatArray],
    reach: float,
    excludes: bool,
) -> FloatArray:
    """The weights [outputs, inputs] of an axis; what is outside of it counts for its end, or not at all."""
    wide = max(1.0, 1 / scale)
    made = np.zeros((len(places), extent))
    for row, place in zip(made, places.astype(np.float64) + 0.5, strict=True):
        first, behind = math.floor(place - reach * wide + 0.5), math.floor(place + reach * wide + 0.5)
        taken = np.arange(max(first, 0) if excludes else first, min(behind, extent) if excludes else behind)
        weights = filter_(((taken - place + 0.5) / wide).astype(np.float32)).astype(np.float64)
        total = weights.sum()
        np.add.at(row, np.clip(taken, 0, extent - 1), weights / total if total else weights)
    return made.astype(np.float32)
