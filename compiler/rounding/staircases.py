"""How sums become outputs: by staircases. A threshold is the least sum whose output is k or more.

TFLite's reference kernels have two kinds. Convolutions multiply by a 31-bit number and round twice (the fixed rule);
FULLY_CONNECTED multiplies in binary64, and takes halves away from zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from int8tune.schedules.operands import FUSED_SCALE_LIMIT, MIN_SCALE, FloatArray
from int8tune.schedules.oracle.reference import scale_fixed_point

BoolArray = npt.NDArray[np.bool_]
LongArray = npt.NDArray[np.int64]
DoubleArray = npt.NDArray[np.float64]
INT32 = np.iinfo(np.int32)

# With larger shifts a threshold times 2^31 does not fit 63 bits; both kinds keep to that.
MOST_SHIFT = 22
# What is no farther from an integer rounds to that, whatever binary32 makes of it.
NEAR = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Staircase(ABC):
    """What is to be met, of P channels.

    Attributes:
        low, high: bounds of the outputs, without zero point.
        least, most: int64 [P], the sums that can occur.
    """

    low: int
    high: int
    least: LongArray
    most: LongArray

    @property
    @abstractmethod
    def scale(self) -> DoubleArray:
        """The exact factor of the sums [P]."""

    @property
    @abstractmethod
    def thresholds(self) -> LongArray:
        """The least sums [P, K] with an output of k or more, for k from `low + 1` to `high`."""

    @abstractmethod
    def outputs(self, sums: LongArray) -> LongArray:
        """The outputs [P, N] of sums [P, N]."""

    @property
    def is_simple(self) -> bool:
        """Whether thresholds can be computed in 63 bits, and no sum wraps around."""
        no_sum_wraps = (self.least > INT32.min) & (self.most <= INT32.max)
        in_range = (self.scale < FUSED_SCALE_LIMIT) & (self.scale >= 2.0 ** -(MOST_SHIFT + 1))
        return bool((no_sum_wraps & in_range).all())

    def flat(self) -> tuple[BoolArray, FloatArray]:
        """The channels of one output, and scales [P] that give it without any offset.

        Networks have channels that training made nothing of: weights of 0, and a bias and a scale that are anything.
        """
        ends = np.stack([self.least, self.most], axis=1)
        wanted = self.outputs(ends)[:, 0]
        middle = ends.mean(axis=1)
        exact = np.divide(wanted, middle, out=np.zeros(len(wanted)), where=middle != 0)
        scale = np.clip(exact, MIN_SCALE, FUSED_SCALE_LIMIT - 2.0**-24).astype(np.float32)
        is_near = np.abs(ends * scale.astype(np.float64)[:, None] - wanted[:, None]) <= NEAR
        is_one = (self.outputs(ends) == wanted[:, None]) & is_near & (ends > INT32.min) & (ends <= INT32.max)
        return is_one.all(axis=1), scale

    def part(self, chosen: BoolArray | LongArray) -> Self:
        """Some of the channels, by their places or by a mask."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        some: dict[str, Any] = {name: each[chosen] for name, each in values.items() if isinstance(each, np.ndarray)}
        return replace(self, **some)


@dataclass(frozen=True, slots=True, eq=False)
class FixedStaircase(Staircase):
    """The fixed rule's.

    Attributes:
        multiplier, shift: int64 [P].
    """

    multiplier: LongArray
    shift: LongArray

    @property
    def scale(self) -> DoubleArray:
        exact: DoubleArray = np.ldexp(self.multiplier.astype(np.float64), self.shift.astype(int) - 31)
        return exact

    @property
    def thresholds(self) -> LongArray:
        k, right = np.arange(self.low + 1, self.high + 1)[None], -self.shift[:, None]
        half = np.where(right > 0, np.int64(1) << np.maximum(right - 1, 0), 0)
        # The second rounding takes halves away from zero: up for k > 0, else down.
        high = (k << right) - half + ((k <= 0) & (right > 0))
        # The first one adds 2^30 and shifts by 31.
        found: LongArray = -((-((high << 31) - (1 << 30))) // self.multiplier[:, None])
        return found

    def outputs(self, sums: LongArray) -> LongArray:
        multiplier, shift = (np.broadcast_to(each[:, None], sums.shape) for each in (self.multiplier, self.shift))
        return np.clip(scale_fixed_point(sums, multiplier, shift), self.low, self.high)

    @property
    def is_simple(self) -> bool:
        shifts_right = (self.shift <= 0) & (self.shift >= -MOST_SHIFT) & (self.multiplier > 0)
        return bool(shifts_right.all()) and super(FixedStaircase, self).is_simple


@dataclass(frozen=True, slots=True, eq=False)
class ExactStaircase(Staircase):
    """That of a factor in binary64.

    Attributes:
        factor: float64 [P].
    """

    factor: DoubleArray

    @property
    def scale(self) -> DoubleArray:
        return self.factor

    @property
    def thresholds(self) -> LongArray:
        k = np.arange(self.low + 1, self.high + 1)[None]
        near = np.rint((k - 0.5) / self.factor[:, None]).astype(np.int64)
        # Of a number and its neighbours, the first that is there: the quotient is rounded, and so are products.
        tried = np.stack([near - 1, near, near + 1, near + 2])
        is_there = np.stack([self._rounded(each) >= k for each in tried])
        found: LongArray = np.take_along_axis(tried, is_there.argmax(axis=0)[None], 0)[0]
        return found

    def outputs(self, sums: LongArray) -> LongArray:
        return np.clip(self._rounded(sums), self.low, self.high)

    def _rounded(self, sums: LongArray) -> LongArray:
        scaled = sums * self.factor[:, None]
        return np.copysign(np.floor(np.abs(scaled) + 0.5), scaled).astype(np.int64)
