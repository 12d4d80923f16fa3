"""Sums of a layer, rounded; those of a layer of 16-bit data are put together of those of its high and its low bytes.

Sources: TFLite, MultiplyByQuantizedMultiplier of 32 and 64 bits in kernels/internal/common.cc, and
reference/integer_ops/fully_connected.h for dense layers; ONNX, QuantizeLinear of a product of real numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import Array, LongArray, shape_fault, stored, zero_point_of
from int8tune.schedules.oracle.reference import scale_fixed_point

DoubleArray = npt.NDArray[np.float64]
SUMS = "sums"
# Integers that binary64 has all of; and what steps are saturated to, as more than any stored value.
MOST_DOUBLE, MOST_STEPS = 1 << 53, 1 << 30


class Rounding(StrEnum):
    """How a sum becomes an output.

    `SHIFT` multiplies by an integer and shifts, halves up; `FIXED` is gemmlowp's, with two roundings. `AWAY` and `EVEN`
    multiply in binary64 and round halves away from zero and to even. `NUMBER` gives the product as binary32.
    """

    SHIFT = "shift"
    FIXED = "fixed"
    AWAY = "away"
    EVEN = "even"
    NUMBER = "number"


@dataclass(frozen=True, slots=True, eq=False)
class WordSums:
    """What becomes of the sums of each channel.

    Attributes:
        wraps: sums have 32 bits, and go on with the lowest one behind the highest; always for `FIXED`, else for `AWAY`
            alone.
        bias: what is added to sums.
        factor: what they are multiplied by; integers for `SHIFT` and `FIXED`.
        shift: bits, to the right for `SHIFT` and to the left for `FIXED`.
        offset: what is added to products, for `EVEN` and `NUMBER`.
    """

    rounding: Rounding
    wraps: bool
    bias: LongArray
    factor: DoubleArray
    shift: LongArray
    offset: DoubleArray

    @classmethod
    def away(cls, wraps: bool, bias: LongArray, factor: DoubleArray) -> WordSums:
        """Those of dense layers of TFLite, by the rounding `AWAY`."""
        return cls(Rounding.AWAY, wraps, bias, factor, np.zeros(len(bias), np.int64), np.zeros(len(bias)))

    def of_channels(self, channels: LongArray) -> WordSums:
        """Those of some channels."""
        return replace(
            self,
            bias=self.bias[channels],
            factor=self.factor[channels],
            shift=self.shift[channels],
            offset=self.offset[channels],
        )


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    if any(value.type != "s32" or value.shape != output.shape for value in inputs):
        return f"it must take sums of shape {output.shape}: {[value.shape for value in inputs]}"
    found: WordSums = operator.attributes[SUMS]
    if (output.type == "f32") != (found.rounding is Rounding.NUMBER):
        return f"sums of rounding {found.rounding} can't become {output.type}"
    return shape_fault(output, (*output.shape[:-1], len(found.bias)))


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:  # noqa: ARG001
    found: WordSums = operator.attributes[SUMS]
    *high, low = (array.astype(np.int64) for array in arrays)
    total = sum((256 * each for each in high), low) + found.bias
    if found.wraps:
        total = total.astype(np.int32).astype(np.int64)
    if found.rounding is Rounding.NUMBER:
        return (total * found.factor + found.offset).astype(np.float32)
    return stored(_steps(found, total) + zero_point_of(output), operator, output)


def _steps(found: WordSums, total: LongArray) -> LongArray:
    made: LongArray
    match found.rounding:
        case Rounding.SHIFT:
            half = np.int64(1) << (found.shift - 1)
            made = (total * found.factor.astype(np.int64) + half) >> found.shift
        case Rounding.FIXED:
            made = scale_fixed_point(total, found.factor.astype(np.int64), found.shift)
        case Rounding.AWAY:
            steps = np.clip(total * found.factor, -MOST_STEPS, MOST_STEPS)
            whole = np.trunc(steps)
            made = (whole + np.trunc(2 * (steps - whole))).astype(np.int64)
        case _:
            steps = total * found.factor + found.offset
            made = np.rint(np.clip(steps, -MOST_STEPS, MOST_STEPS)).astype(np.int64)
    return made
