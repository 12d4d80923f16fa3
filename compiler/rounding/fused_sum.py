"""The fixed rule's addition of two quantized values as two fused multiplications and additions in binary32.

There are 65,536 sums at most, so every one of them is checked. Factors next to the exact ones are tried until all are
right: most often the first are, as the fixed rule differs from exact arithmetic only where a sum is nearly a tie.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from int8tune.schedules.numerics import RoundingRule
from int8tune.schedules.operands import ADDITION_SHIFT, Addend, FloatArray
from int8tune.schedules.oracle.reference import add_fixed_point

# In units in the last place of the ratios, and of a sum of 2^7 for the constant.
RATIO_STEPS = tuple(sorted(range(-2, 3), key=abs))
CONSTANT_STEPS = tuple(sorted(range(-8, 9), key=abs))
CONSTANT_UNIT = 2.0**-18


SUM = "fused_sum"
"""The attribute of additions of the rule `fused` that has their `FusedSum`."""


@dataclass(frozen=True, slots=True, eq=False)
class FusedSum:
    """What the rule `fused` adds with: float32 [2] and [1], as `schedules.operands.Addend` has them."""

    ratio: FloatArray
    constant: FloatArray

    rule: ClassVar[RoundingRule] = "fused"


def fused_sum(
    own: npt.NDArray[np.int64], other: npt.NDArray[np.int64], own_zero_point: int, addend: Addend
) -> FusedSum | None:
    """Factors that give the sums of the fixed rule, or None where none were found.

    Args:
        own, other: the 256 stored values of either summand.
        addend: of the fixed rule; its data plays no part.
    """
    low, high = addend.clamp_low, addend.clamp_high
    sums = np.clip(add_fixed_point(own[:, None], other[None], own_zero_point, addend), low, high)
    factors = np.ldexp(addend.multiplier.astype(np.float64), addend.shift.astype(int) - 31)
    exact = factors[:2] * factors[2] * 2.0**ADDITION_SHIFT
    nearest = exact.astype(np.float32)
    for steps in sorted(itertools.product(RATIO_STEPS, RATIO_STEPS), key=lambda pair: abs(pair[0]) + abs(pair[1])):
        ratio = (nearest.view(np.int32) + np.array(steps, np.int32)).view(np.float32)
        wide = ratio.astype(np.float64)
        middle = addend.sum_zero_point - wide[0] * own_zero_point - wide[1] * addend.zero_point
        for step in CONSTANT_STEPS:
            constant = np.float32(middle + step * CONSTANT_UNIT)
            if np.array_equal(np.clip(_sums(own, other, wide, constant), low, high), sums):
                return FusedSum(ratio, np.array([constant], np.float32))
    return None


def _sums(
    own: npt.NDArray[np.int64], other: npt.NDArray[np.int64], ratio: npt.NDArray[np.float64], constant: np.float32
) -> npt.NDArray[np.int64]:
    """`schedules.oracle.reference.add_binary32`: 64-bit numbers hold the products and sums of 8 and 24 bits whole."""
    inner = (other * ratio[1] + np.float64(constant)).astype(np.float32).astype(np.float64)
    sums: npt.NDArray[np.int64] = np.rint((own[:, None] * ratio[0] + inner).astype(np.float32)).astype(np.int64)
    return sums
