"""Scales of weights: one for each output channel, or one for all."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from int8tune.quantize.tensors import initializer_arrays, int_attribute

Array = npt.NDArray[Any]

LAYER_OPERATORS = ("Conv", "Gemm", "MatMul")
HIGHEST = 127
# Of the search for the least squared error: shares of the largest magnitude.
SHARES = np.linspace(1.0, 0.7, 16)


class Layer(NamedTuple):
    """An operator with constant weights of float32.

    Attributes:
        node: of the graph.
        axis: that of the output channels in its weights.
    """

    node: Any
    axis: int

    @property
    def weight(self) -> str:
        """The name of its weights."""
        return str(self.node.input[1])


def layers_of(graph: Any) -> list[Layer]:
    """The convolutions and dense layers of a graph whose weights are constants, in its order."""
    arrays = initializer_arrays(graph)
    found = []
    for node in graph.node:
        if node.op_type not in LAYER_OPERATORS or len(node.input) < 2 or node.input[0] in arrays:
            continue
        weight = arrays.get(node.input[1])
        if weight is None or weight.dtype != np.float32 or (node.op_type != "Conv" and weight.ndim != 2):
            continue
        is_transposed = bool(int_attribute(node, "transB", 0))
        found.append(Layer(node, 0 if node.op_type == "Conv" or is_transposed else 1))
    return found


def channel_scales(weights: Array, axis: int, searched: bool) -> Array:
    """A scale for each channel, float32: its largest magnitude becomes 127, or with `searched` the share of it that has
    the least squared error.
    """
    rows = np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)
    largest = np.abs(rows).max(axis=1)
    largest = np.where(largest > 0, largest, 1.0).astype(np.float32)
    scales = largest / HIGHEST
    if not searched:
        return scales
    least = np.full(len(rows), np.inf)
    for share in SHARES:
        tried = np.float32(share) * largest / HIGHEST
        rounded = np.clip(np.rint(rows / tried[:, None]), -HIGHEST - 1, HIGHEST) * tried[:, None]
        errors = ((rounded - rows) ** 2).sum(axis=1)
        scales = np.where(errors < least, tried, scales)
        least = np.minimum(errors, least)
    return scales.astype(np.float32)


def scale_and_zero_point(weights: Array) -> tuple[np.float32, np.int8]:
    """The scale and the zero point by which weights take all 256 numbers of s8, zero exactly."""
    lowest, highest = min(0.0, float(weights.min())), max(0.0, float(weights.max()))
    scale = np.float32((highest - lowest) / 255) or np.float32(1)
    return scale, np.int8(np.clip(np.rint(-128 - lowest / float(scale)), -128, 127))
