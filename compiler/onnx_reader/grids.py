"""Float weights that are steps of a scale: a tool quantized them, and wrote the numbers that they stand for.

Sony's Model Compression Toolkit writes its models so, and so is a model whose constants were folded. Weights are taken
for steps only where these, times the scale in binary32, are the numbers of the file in every bit: then the model means
what it meant.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from int8tune.compiler.graph import Quantization
from int8tune.compiler.onnx_reader.nodes import Node
from int8tune.compiler.onnx_reader.tensors import Array

LEAST_STEP, MOST_STEPS = -128, 127
# Neighbours of the largest value's share that may be the scale, in last bits: that share was rounded.
_NEIGHBOURS = 2
# Values of a channel that a scale is tried on before it is on all of them.
_FIRST = 8


def steps_of(node: Node, weights: Array) -> tuple[Array, Quantization] | None:
    """Weights of a layer as s8 with a scale for each output channel; None where they are not all steps.

    Args:
        weights: float32, as the node has them.
    """
    axis = _axis_of_channels(node)
    if axis is None or weights.dtype != np.float32 or weights.ndim <= axis or not weights.size:
        return None
    moved = np.moveaxis(weights, axis, 0)
    rows = moved.reshape(len(moved), -1)
    scales = np.empty(len(rows), np.float32)
    steps = np.empty(rows.shape, np.int8)
    for at, row in enumerate(rows):
        scale = _scale_of(row)
        if scale is None:
            return None
        scales[at], steps[at] = scale, np.rint(row / scale)
    stored = np.ascontiguousarray(np.moveaxis(steps.reshape(moved.shape), 0, axis))
    return stored, Quantization(scales, np.zeros(len(scales), np.int64), axis)


def channels_of(node: Node, weights: Array) -> int:
    """The output channels of a layer; 0 of other nodes."""
    axis = _axis_of_channels(node)
    return weights.shape[axis] if axis is not None and weights.ndim > axis else 0


def _axis_of_channels(node: Node) -> int | None:
    if node.computes == "Gemm":
        return 0 if node.attributes.get("transB", 0) else 1
    return {"Conv": 0, "ConvTranspose": 1, "MatMul": 1}.get(node.computes)


def _scale_of(values: Array) -> np.float32 | None:
    """A scale of which all values are exact steps that 8 bits have; None where there is none."""
    steps = np.unique(values)
    largest = max(-steps[0], steps[-1])
    if not np.isfinite(largest) or len(steps) > MOST_STEPS - LEAST_STEP + 1:
        return None
    if largest == 0:
        return np.float32(1)
    # The outer ones tell scales apart best.
    first = np.concatenate([steps[: _FIRST // 2], steps[-_FIRST // 2 :]])
    for scales in _candidates(largest):
        for scale in scales[_are_steps(first, scales)]:
            if _are_steps(steps, scale[None])[0]:
                return np.float32(scale)
    return None


def _candidates(largest: np.float32) -> Iterator[Array]:
    """Scales of which the largest value may be a step: the smallest ones first, as tools use all of a range."""
    shares = (np.float64(largest) / np.arange(-LEAST_STEP, 0, -1)).astype(np.float32)
    shares = shares[shares >= np.finfo(np.float32).tiny]
    yield shares
    for _ in range(_NEIGHBOURS):
        shares = np.concatenate([np.nextafter(shares, np.float32(end)) for end in (0, np.inf)])
        yield shares


def _are_steps(values: Array, scales: Array) -> Array:
    """For each scale, whether all values are steps of it."""
    with np.errstate(all="ignore"):
        steps = np.rint(values / scales[:, None])
        fit = (steps.min(axis=1) >= LEAST_STEP) & (steps.max(axis=1) <= MOST_STEPS)
        are: Array = (steps * scales[:, None] == values).all(axis=1) & fit
    return are
