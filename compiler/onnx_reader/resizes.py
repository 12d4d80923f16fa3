"""Resize nodes: which of a graph's ways to resize has the same places.

Source: cpu/tensor/upsamplebase.h of ONNX Runtime, whose binary32 computations these are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np

from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.layers import MAX_NUMBER
from int8tune.compiler.onnx_reader.nodes import Node
from int8tune.compiler.onnx_reader.quantization import Constant
from int8tune.compiler.operators.base import FloatArray, LongArray
from int8tune.compiler.operators.quantize import half_away
from int8tune.compiler.operators.resize import nearest_positions

# Resize has had coordinate modes since this version; before, it was asymmetric.
OPSET_OF_MODES = 11
HALF = np.float32(0.5)

Reason = str


def _half_down(places: FloatArray) -> Any:
    return np.where(places == np.trunc(places) + HALF, np.floor(places), half_away(places))


_ROUNDINGS: dict[str, Callable[[FloatArray], Any]] = {
    "round_prefer_floor": _half_down,
    "round_prefer_ceil": half_away,
    "floor": np.floor,
    "ceil": np.ceil,
}


def resize_attributes(
    file: OnnxFile, node: Node, shape: tuple[int, ...], made: tuple[int, ...], constants: Mapping[str, Constant]
) -> dict[str, Any] | Reason:
    """Attributes of a graph's resize, or of a gather where that has other places; or why there are none.

    Shapes are [N, C, H, W].
    """
    at = node.attributes
    method = {"nearest": "nearest", "linear": "bilinear"}.get(at.get("mode", "nearest"))
    if method is None or len(shape) != 4 or len(made) != 4 or shape[:2] != made[:2]:
        return f"it must resize images, by the nearest or linearly: {at.get('mode')}, {shape} to {made}"
    if not 1 <= min(made) <= max(made) <= MAX_NUMBER:
        return f"its output must have 1 to {MAX_NUMBER} rows and columns: {made}"
    mode = at.get("coordinate_transformation_mode", "half_pixel") if file.opset >= OPSET_OF_MODES else "asymmetric"
    if at.get("antialias") or at.get("keep_aspect_ratio_policy", "stretch") != "stretch" or "axes" in at:
        return "antialias, policies and axes are not supported"
    scales = _scales(file, node, shape, made, constants)
    if isinstance(scales, str):
        return scales
    if method == "bilinear":
        return _linear(mode, scales, shape, made)
    wanted = [_nearest(file, node, mode, scales[axis], shape[axis], made[axis]) for axis in (2, 3)]
    for corners, centers in product((False, True), repeat=2):
        found = [nearest_positions(shape[axis], made[axis], corners, centers) for axis in (2, 3)]
        if all(one is not None and np.array_equal(one, other) for one, other in zip(wanted, found, strict=True)):
            return {"method": method, "align_corners": corners, "half_pixel_centers": centers}
    if any(each is None for each in wanted):
        return f"its places are not known: {mode} and {at.get('nearest_mode', 'round_prefer_floor')}"
    return {"places": (None, None, *wanted)}


def _scales(
    file: OnnxFile, node: Node, shape: tuple[int, ...], made: tuple[int, ...], constants: Mapping[str, Constant]
) -> FloatArray | Reason:
    """As the node says them, or as its sizes do."""
    name = node.input(2 if file.opset >= OPSET_OF_MODES else 1)
    constant = constants.get(name)
    if constant is not None and constant.array.size == len(shape) and constant.array.dtype == np.float32:
        return constant.array.reshape(-1)
    if name and (constant is None or constant.array.size):
        return "its scales must be constant"
    return _ratios(shape, made)


def _ratios(shape: tuple[int, ...], made: tuple[int, ...]) -> FloatArray:
    ratios: FloatArray = np.divide(np.array(made, np.float32), np.array(shape, np.float32))
    return ratios


def _linear(mode: str, scales: FloatArray, shape: tuple[int, ...], made: tuple[int, ...]) -> dict[str, Any] | Reason:
    if mode != "align_corners" and not np.array_equal(scales, _ratios(shape, made)):
        return f"its scales must be those of {shape} and {made}: {scales.tolist()}"
    if mode == "pytorch_half_pixel" and min(made[2:]) == 1:
        return "a single output of pytorch_half_pixel is not supported"
    if mode not in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
        return f"mode {mode} is not supported"
    corners, centers = mode == "align_corners", mode.endswith("half_pixel")
    return {"method": "bilinear", "align_corners": corners, "half_pixel_centers": centers}


def _nearest(file: OnnxFile, node: Node, mode: str, scale: np.float32, extent: int, outputs: int) -> LongArray | None:
    """The row or column of each output; None where the node has none."""
    if scale == 1:
        return np.arange(outputs)
    places = _places(mode, np.arange(outputs).astype(np.float32), scale, extent, outputs)
    way = node.attributes.get("nearest_mode", "round_prefer_floor")
    if file.opset < OPSET_OF_MODES:
        way = "ceil" if scale < 1 else "floor"
    if places is None or way not in _ROUNDINGS:
        return None
    nearest: LongArray = np.clip(_ROUNDINGS[way](places), 0, extent - 1).astype(np.int64)
    return nearest


def _places(mode: str, outputs: FloatArray, scale: np.float32, extent: int, count: int) -> FloatArray | None:
    places: FloatArray | None = None
    if mode == "asymmetric":
        places = outputs / scale
    elif mode == "align_corners":
        places = outputs * np.float32(extent - 1) / np.float32(max(1, count - 1))
    elif mode == "tf_half_pixel_for_nn":
        places = (outputs + HALF) / scale
    elif mode == "half_pixel" or (mode == "pytorch_half_pixel" and count > 1):
        places = (outputs + HALF) / scale - HALF
    elif mode == "pytorch_half_pixel":
        places = np.zeros_like(outputs)
    return places
