"""TFLite models with weights of 4 and 2 bits, and with scales that belong to blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.support.models.tflite_models import PACKED_BITS, Writer, schema

Shape = tuple[int, ...]
SCALE = 0.05
IMAGE, ROWS = (1, 6, 6, 5), (3, 45)
ONCE: Mapping[str, Any] = {"strideH": 1, "strideW": 1}
# Shapes of data, weights and result, the axis of channels, options, and the version that has weights of 4 bits.
LAYERS: Mapping[str, tuple[Shape, Shape, Shape, int, str, int, Mapping[str, Any]]] = {
    "FULLY_CONNECTED": (ROWS, (7, 45), (3, 7), 0, "FullyConnected", 9, {"fusedActivationFunction": 1}),
    "CONV_2D": (IMAGE, (7, 3, 3, 5), (1, 6, 6, 7), 0, "Conv2D", 5, ONCE),
    "DEPTHWISE_CONV_2D": (IMAGE, (1, 3, 3, 5), IMAGE, 3, "DepthwiseConv2D", 6, {**ONCE, "depthMultiplier": 1}),
}
ZERO_POINTS = {"s8": -3, "s16": 0}


class PackedWriter(Writer):
    """A model of one operator, of an input `x` and an output `y`."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(6)

    def weights(self, kind: str, shape: Shape, axis: int | None = None) -> int:
        """Weights that have all values of their type, with a scale for each channel of an axis."""
        bits = PACKED_BITS.get(kind, 8)
        values = self.rng.integers(-(1 << (bits - 1)), 1 << (bits - 1), shape)
        values.reshape(-1)[:2] = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        made = self.constant("w", kind, values, 0.02)
        if axis is not None:
            quantization = self.tensors[made].quantization
            quantization.scale = [*self.rng.uniform(0.01, 0.03, shape[axis]).astype(np.float32)]
            quantization.zeroPoint, quantization.quantizedDimension = [0] * shape[axis], axis
        return made

    def layer(self, word: str, kind: str, data: str = "s8", has_scales: bool = True, **fields: Any) -> bytes:
        taken, weights, made, axis, options, version, usual = LAYERS[word]
        form = () if data == "f32" else (SCALE, ZERO_POINTS[data])
        x = self.input("x", data, taken, *form)
        weight = self.weights(kind, weights, axis if has_scales else None)
        channels = weights[axis]
        if data == "f32":
            bias = self.constant("b", "f32", self.rng.normal(size=channels))
        else:
            sums = "s64" if data == "s16" else "s32"
            bias = self.constant("b", sums, self.rng.integers(-90, 90, channels), 0.001)
        y = self.tensor("y", data, made, *form)
        self.operator(word, [x, weight, bias], [y], options, version, **{**usual, **fields})
        return self.model(y)

    def blocks(self, kind: str = "s4", size: int = 32, word: str = "FULLY_CONNECTED", **fields: Any) -> bytes:
        """A dense layer whose weights have a scale for each 32 of a row."""
        shape = (8, 96)
        x = self.input("x", "f32", (5, 96))
        weight = self.weights(kind, shape)
        scales = self.constant("scales", "f16", self.rng.uniform(0.01, 0.2, (8, 96 // size)))
        self.block(weight, scales, size, **fields)
        y = self.tensor("y", "f32", (5, 8))
        bias = self.constant("b", "f32", self.rng.normal(size=8))
        self.operator(word, [x, weight, bias], [y], "FullyConnected", 14)
        return self.model(y)

    def both(self) -> bytes:
        """The dense layer with blocks, and one of its result whose weights have a scale each channel."""
        self.blocks()
        weight = self.weights("s4", (7, 8), 0)
        z = self.tensor("z", "f32", (5, 7))
        self.operator("FULLY_CONNECTED", [self.operators[0].outputs[0], weight], [z], "FullyConnected", 9)
        return self.model(z)

    def block(self, weight: int, scales: int, size: int, zero_points: int = -1) -> None:
        details = schema.BlockwiseQuantizationT()
        details.scales, details.zeroPoints, details.blockSize = scales, zero_points, size
        quantization = self.tensors[weight].quantization = schema.QuantizationParametersT()
        quantization.detailsType = schema.QuantizationDetails.BlockwiseQuantization
        quantization.details = details
