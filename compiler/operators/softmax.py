"""Softmax over one axis.

ONNX Runtime (qlinear_softmax.cc) looks exponentials up by the distance from the largest value and adds them in
binary32, one after the other. Shares are rounded quotients without another error since its version 1.32; before, the
product was rounded to binary32, which is another step for a few values that are nearly ties. Without optimizations it
computes with numbers: one step of difference. TFLite's reference kernel computes in integers
(`compiler.operators.fixed_softmax`), its optimized one with such a table: one step of difference, for one value in tens
of thousands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import (
    STORED_RANGES,
    Array,
    DoubleArray,
    FloatArray,
    LongArray,
    byte_fault,
    scale_of,
    shape_fault,
    stored,
    stored_fault,
    zero_point_of,
)
from int8tune.compiler.operators.fixed_softmax import (
    MOST_VALUES,
    fixed_exponentials,
    fixed_shares,
    is_in_range,
    reciprocals,
)
from int8tune.compiler.operators.quantize import MOST_STEPS

# What ONNX Runtime keeps below the largest binary32 number, in powers of e.
RESERVE = 5
# Bits of outputs: the range of these values is that of numbers from 0 to 1.
WIDTHS = {"u8": 8, "s8": 8, "s16": 16}
# How far an output's scale may be from that, as a share of it.
SCALE_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxConstants:
    """What a softmax of the float rule knows before it runs.

    Attributes:
        exponentials: float32 [256]: by the largest stored value of a row minus a value of it.
        factor: the reciprocal of the output's scale, rounded down.
    """

    exponentials: FloatArray
    factor: np.float32

    @property
    def numerators(self) -> DoubleArray:
        """float64 [256]: what is divided by a row's sum, without an error."""
        return self.exponentials.astype(np.float64) * np.float64(self.factor)


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    (data,) = inputs
    is_word = (operator.rule, output.type) == ("fixed", "s16")
    wrong = byte_fault(data) or (stored_fault(output) if is_word else byte_fault(output))
    if wrong:
        return wrong
    axis, rank = operator.attributes["axis"], len(data.shape)
    if (data.type != output.type and not is_word) or not 0 <= axis < rank:
        return f"its input and output must have one type, and axis {axis}: {data.type}, {output.type}, {data.shape}"
    if operator.rule == "fixed" and axis != rank - 1:
        return f"the fixed rule's axis is the last one: {axis}"
    if operator.rule == "float" and operator.attributes["beta"] != 1:
        return f"the float rule's beta is 1: {operator.attributes['beta']}"
    wrong = shape_fault(output, data.shape)
    if wrong:
        return wrong
    return _fixed_fault(operator, data, output) if operator.rule == "fixed" else _float_fault(operator, data, output)


def _fixed_fault(operator: Operator, data: Value, output: Value) -> str | None:
    lowest, beta = STORED_RANGES[output.type][0], operator.attributes["beta"]
    if zero_point_of(output) != lowest:
        return f"its output's zero point must be {lowest}: {zero_point_of(output)}"
    steps = 1 << WIDTHS[output.type]
    if abs(steps * float(scale_of(output)) - 1) > SCALE_TOLERANCE:
        return f"its output's scale must be 1/{steps}: {scale_of(output)}"
    if not math.isfinite(beta) or not is_in_range(float(scale_of(data)), beta):
        return f"its beta must be finite, and a step of its input at least 2^-26 with it: {beta}, {scale_of(data)}"
    length = data.shape[operator.attributes["axis"]]
    return None if length <= MOST_VALUES else f"a sum has at most {MOST_VALUES} exponentials: {length}"


def _float_fault(operator: Operator, data: Value, output: Value) -> str | None:
    constants = softmax_constants(operator, data, output)
    is_finite = np.isfinite(constants.exponentials[0] * constants.factor)
    # ONNX Runtime gives 0 or 255 then; so it does for every softmax of one value with a scale of 1/256.
    return None if is_finite else f"its exponentials times {constants.factor} are beyond binary32"


def softmax_constants(operator: Operator, data: Value, output: Value) -> SoftmaxConstants:
    """The constants of a softmax of the float rule."""
    distance = np.arange(256)
    length = data.shape[operator.attributes["axis"]]
    # The logarithm is one of binary32.
    room = float(np.float32(math.log(float(np.finfo(np.float32).max / np.float32(length))))) - RESERVE
    scale = float(scale_of(data))
    shifted = (max(0.0, room) / scale - distance) * scale
    return SoftmaxConstants(np.exp(shifted).astype(np.float32), np.floor(np.float32(1) / scale_of(output)))


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    rows = np.moveaxis(arrays[0].astype(np.int64), operator.attributes["axis"], -1)
    distances = rows.max(axis=-1, keepdims=True) - rows
    if operator.rule == "fixed":
        width, scale = WIDTHS[output.type], float(scale_of(inputs[0]))
        steps = _fixed_steps(distances, scale, operator.attributes["beta"], width)
    else:
        steps = _float_steps(distances, softmax_constants(operator, inputs[0], output))
    return stored(np.moveaxis(steps + zero_point_of(output), -1, operator.attributes["axis"]), operator, output)


def _fixed_steps(distances: LongArray, scale: float, beta: float, width: int) -> LongArray:
    tables = fixed_exponentials(scale, beta)
    sums = tables.terms.astype(np.int64)[distances].sum(axis=-1, keepdims=True)
    reciprocal, bits = reciprocals(sums)
    return fixed_shares(reciprocal, bits, tables.shares.astype(np.int64)[distances], width)


def _float_steps(distances: LongArray, constants: SoftmaxConstants) -> LongArray:
    # Accumulated, not reduced: numpy adds pairs, the runtime one value after the other.
    sums = np.add.accumulate(constants.exponentials[distances], axis=-1)[..., -1:]
    shares = constants.numerators[distances] / sums.astype(np.float64)
    rounded: LongArray = np.rint(np.minimum(shares, MOST_STEPS)).astype(np.int64)
    return rounded
