"""Softmax over one axis.

Sources: TFLite, optimized_ops::Softmax of optimized_ops.h, which its reference registration runs, too; ONNX Runtime,
qlinear_softmax.cc. Both look exponentials up by the distance from the largest value and add them in binary32, one
after the other. On ARM, TFLite may look 16-bit ones up instead; without optimizations ONNX Runtime computes with
numbers: one step of difference each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.graph import Operator, Value
from compiler.operators.base import (
    Array,
    FloatArray,
    LongArray,
    byte_fault,
    scale_of,
    shape_fault,
    stored,
    zero_point_of,
)
from compiler.operators.quantize import half_away, half_even

# What ONNX Runtime keeps below the largest binary32 number, in powers of e.
RESERVE = 5


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxConstants:
    """What a softmax knows before it runs.

    The fixed rule multiplies each exponential by 1 / (sum * `factor`); the float rule by `factor`, and divides by the
    sum. The fixed rule rounds halves away from zero, the float rule to even.

    Attributes:
        exponentials: float32 [256]: by the largest stored value of a row minus a value of it.
        factor: the output's scale for the fixed rule; its reciprocal, rounded down, for the float rule.
    """

    exponentials: FloatArray
    factor: np.float32


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    (data,) = inputs
    wrong = byte_fault(data, output)
    if wrong:
        return wrong
    axis, rank = operator.attributes["axis"], len(data.shape)
    if data.type != output.type or not 0 <= axis < rank:
        return f"its input and output must have one type, and axis {axis}: {data.type}, {output.type}, {data.shape}"
    if operator.rule == "fixed" and axis != rank - 1:
        return f"the fixed rule's axis is the last one: {axis}"
    if operator.rule == "float" and operator.attributes["beta"] != 1:
        return f"the float rule's beta is 1: {operator.attributes['beta']}"
    lowest = 0 if output.type == "u8" else -128
    if operator.rule == "fixed" and zero_point_of(output) != lowest:
        return f"its output's zero point must be {lowest}: {zero_point_of(output)}"
    if not math.isfinite(operator.attributes["beta"]) or operator.attributes["beta"] < 0:
        return f"its beta must be finite and not negative: {operator.attributes['beta']}"
    wrong = shape_fault(output, data.shape)
    if wrong is None and operator.rule == "float":
        constants = softmax_constants(operator, data, output)
        is_finite = np.isfinite(constants.exponentials[0] * constants.factor)
        # ONNX Runtime gives 0 or 255 then; so it does for every softmax of one value with a scale of 1/256.
        return None if is_finite else f"its exponentials times {constants.factor} are beyond binary32"
    return wrong


def softmax_constants(operator: Operator, data: Value, output: Value) -> SoftmaxConstants:
    """The constants of a softmax."""
    distance = np.arange(256)
    if operator.rule == "fixed":
        step = -scale_of(data) * np.float32(operator.attributes["beta"])
        exponents = (step * distance.astype(np.float32)).astype(np.float64)
        return SoftmaxConstants(np.exp(exponents).astype(np.float32), scale_of(output))
    length = data.shape[operator.attributes["axis"]]
    room = math.log(float(np.finfo(np.float32).max / np.float32(length))) - RESERVE
    scale = float(scale_of(data))
    shifted = (max(0.0, room) / scale - distance) * scale
    return SoftmaxConstants(np.exp(shifted).astype(np.float32), np.floor(np.float32(1) / scale_of(output)))


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    constants = softmax_constants(operator, inputs[0], output)
    rows = np.moveaxis(arrays[0].astype(np.int64), operator.attributes["axis"], -1)
    terms = constants.exponentials[rows.max(axis=-1, keepdims=True) - rows]
    # Accumulated, not reduced: numpy adds pairs, the runtimes one value after the other.
    sums = np.add.accumulate(terms, axis=-1)[..., -1:]
    steps = _fixed(terms, sums, constants, output) if operator.rule == "fixed" else _float(terms, sums, constants)
    return stored(np.moveaxis(steps + zero_point_of(output), -1, operator.attributes["axis"]), operator, output)


def _fixed(terms: FloatArray, sums: FloatArray, constants: SoftmaxConstants, output: Value) -> LongArray:
    scaled = terms * (np.float32(1) / (sums * constants.factor))
    # uint8 truncates the binary32 sum, which for 0.49999997 is 1.
    return (scaled + np.float32(0.5)).astype(np.int64) if output.type == "u8" else half_away(scaled)


def _float(terms: FloatArray, sums: FloatArray, constants: SoftmaxConstants) -> LongArray:
    return half_even(terms * constants.factor / sums)
