"""Layers with 8-bit weights on numbers, which LiteRT quantizes at run time: dynamic-range quantization.

Each row, or image of a batch, gets 8 bits by its own least and largest value. Sums of products of integers are
computed in binary32: exact up to 2^24. Sources: kernels/internal/reference/portable_tensor_utils.cc, kernels/
fully_connected.cc, conv.cc and depthwise_conv.cc of TensorFlow Lite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from int8tune.compiler.graph import Value
from int8tune.compiler.operators.base import BYTES
from int8tune.compiler.tflite_reader.floats.nodes import Nodes, half_away

MOST_SYMMETRIC = 127.0
LOW, HIGH = -128.0, 127.0
# What LiteRT computes with bits of s8 in tensors of u8, as converters of 2018 stored them.
UNSIGNED = ("CONV_2D", "FULLY_CONNECTED")


@dataclass(frozen=True, slots=True)
class Quantized:
    """Names of values.

    Attributes:
        stored: integers in binary32: [rows, values].
        scale: [rows, 1].
        zero_point: [rows, 1], empty where it is 0.
    """

    stored: str
    scale: str
    zero_point: str = ""

    def steps(self, at: Nodes) -> str:
        """Integers less the zero point."""
        return at.apply("Sub", self.stored, self.zero_point) if self.zero_point else self.stored


def is_hybrid(at: Nodes, data_index: int = 0) -> bool:
    """Whether an operator has numbers as data and weights in 8 bits."""
    data, weight = at.value(data_index), at.value(1)
    return data.type == "f32" and weight.type in BYTES and weight.quantization is not None


def require_symmetric(at: Nodes) -> None:
    """Raise where weights are none that LiteRT has in such layers."""
    weight = at.value(1)
    is_zero = weight.quantization is not None and not weight.quantization.zero_point.any()
    at.require(weight.constant is not None and is_zero, "its weights must be constant and symmetric")
    assert weight.quantization is not None
    is_known = at.step.plain.operator in UNSIGNED and not weight.quantization.per_channel
    at.require(weight.type == "s8" or is_known, "LiteRT reads its weights of u8 as s8, and has one scale for them")
    # LiteRT reads scales behind the only one.
    is_read = weight.quantization.scale.size == 1 < weight.shape[-1] and at.step.plain.operator == "DEPTHWISE_CONV_2D"
    at.require(not is_read, "its weights must have a scale for each channel")


def quantized(at: Nodes, rows: str) -> Quantized:
    """Rows of the data of a layer, as LiteRT's kernel of it has them."""
    word, weight = at.step.plain.operator, at.value(1)
    if word == "FULLY_CONNECTED":
        is_symmetric = not at.options("FullyConnected").AsymmetricQuantizeInputs()
    else:
        is_symmetric = word == "CONV_2D" and weight.quantization is not None and weight.quantization.scale.size == 1
    return (symmetric if is_symmetric else asymmetric)(at, rows)


def stored_weight(at: Nodes) -> np.ndarray:
    """The weights' integers as numbers, those of u8 by their bits as s8."""
    constant = at.value(1).constant
    assert constant is not None
    return constant.view(np.int8).astype(np.float32)


def weight_scale(weight: Value, channels: int) -> np.ndarray:
    """One scale for each output channel."""
    assert weight.quantization is not None
    return np.broadcast_to(weight.quantization.scale, channels).astype(np.float32)


def symmetric(at: Nodes, rows: str) -> Quantized:
    """Rows from -127 to 127."""
    largest = at.apply("ReduceMax", at.apply("Abs", rows), at.places([1]), keepdims=1)
    # Rows of zeros are zeros by any scale.
    largest = at.apply("Where", at.apply("Equal", largest, at.number(0.0)), at.number(1.0), largest)
    steps = at.apply("Mul", rows, at.apply("Div", at.number(MOST_SYMMETRIC), largest))
    bounded = at.clipped(half_away(at, steps, np.float32), -MOST_SYMMETRIC, MOST_SYMMETRIC)
    return Quantized(bounded, at.apply("Div", largest, at.number(MOST_SYMMETRIC)))


def asymmetric(at: Nodes, rows: str) -> Quantized:
    """Rows from -128 to 127, whose zero is a step; scales are computed in binary64."""
    zero = at.number(0.0)
    ends = {
        "low": at.apply("Min", at.apply("ReduceMin", rows, at.places([1]), keepdims=1), zero),
        "high": at.apply("Max", at.apply("ReduceMax", rows, at.places([1]), keepdims=1), zero),
    }
    low, high = (at.apply("Cast", name, to=11) for name in ends.values())
    width = at.apply("Sub", high, low)
    none = at.apply("Equal", width, _double(at, 0.0))
    wide = at.apply("Div", at.apply("Where", none, _double(at, 255.0), width), _double(at, 255.0))
    low_steps, high_steps = at.apply("Div", low, wide), at.apply("Div", high, wide)
    from_low, from_high = (
        at.apply("Sub", _double(at, end), steps) for end, steps in ((LOW, low_steps), (HIGH, high_steps))
    )
    errors = [
        at.apply("Add", _double(at, abs(end)), at.apply("Abs", steps))
        for end, steps in ((LOW, low_steps), (HIGH, high_steps))
    ]
    point = at.apply("Where", at.apply("Less", *errors), from_low, from_high)
    point = at.apply("Clip", half_away(at, point, np.float64), _double(at, LOW), _double(at, HIGH))
    # What has one value, which is 0, has no zero point.
    offset = at.apply("Cast", at.apply("Where", none, _double(at, 0.0), point), to=1)
    scale = at.apply("Cast", wide, to=1)
    steps = at.apply("Add", at.apply("Mul", rows, at.apply("Div", at.number(1.0), scale)), offset)
    bounded = at.clipped(half_away(at, steps, np.float32), LOW, HIGH)
    return Quantized(bounded, scale, offset)


def _double(at: Nodes, value: float) -> str:
    return at.constant(value, np.float64)
