"""Weights as a graph has them."""

from __future__ import annotations

from int8tune.compiler.graph import Quantization, Value


def filters_first(weight: Value) -> Value:
    """Weights [1, KH, KW, OC] as [OC, KH, KW, 1]."""
    assert weight.constant is not None
    moved, quantization = weight.constant.transpose(3, 1, 2, 0), weight.quantization
    if quantization is not None and quantization.per_channel:
        quantization = Quantization(quantization.scale, quantization.zero_point, 0)
    return Value(weight.name, moved.shape, weight.type, quantization, moved)
