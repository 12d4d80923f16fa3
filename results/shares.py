"""How sure a share of samples is, and whether two models' answers differ beyond chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

# Of a normal distribution's middle 95 %.
DEVIATIONS = 1.959964


@dataclass(frozen=True, slots=True)
class Share:
    """How many of some samples have a property.

    The interval of 95 % is Wilson's (Journal of the American Statistical Association 22, 1927): it lies within 0 and 1,
    and has a width where all samples have the property or none.
    """

    count: int
    samples: int

    @property
    def estimate(self) -> float:
        return self.count / self.samples

    @property
    def half_width(self) -> float:
        """Half of the interval."""
        square = DEVIATIONS**2
        variance = self.estimate * (1 - self.estimate) / self.samples + square / (4 * self.samples**2)
        return DEVIATIONS * math.sqrt(variance) / (1 + square / self.samples)

    @property
    def _middle(self) -> float:
        square = DEVIATIONS**2
        return (self.count + square / 2) / (self.samples + square)

    @property
    def low(self) -> float:
        return max(0.0, self._middle - self.half_width)

    @property
    def high(self) -> float:
        return min(1.0, self._middle + self.half_width)


@dataclass(frozen=True, slots=True)
class PairedTest:
    """McNemar's exact test of two models on the same samples (Psychometrika 12, 1947).

    Attributes:
        only_first, only_second: samples that one of them alone gets right.
    """

    only_first: int
    only_second: int

    @property
    def p_value(self) -> float:
        """How likely a split that is so uneven, or more, is where both are equally good."""
        count = self.only_first + self.only_second
        fewer = min(self.only_first, self.only_second)
        # Whole numbers: 2 ** count is no float where many samples differ.
        return min(1.0, float(2 * sum(math.comb(count, k) for k in range(fewer + 1)) / 2**count))


def share_of(right: npt.NDArray[np.bool_]) -> Share:
    """The share of True in an array [samples]."""
    return Share(int(np.count_nonzero(right)), right.size)


def paired_test(first: npt.NDArray[np.bool_], second: npt.NDArray[np.bool_]) -> PairedTest:
    """Which samples one of two models alone gets right, from arrays [samples]."""
    return PairedTest(int((first & ~second).sum()), int((second & ~first).sum()))


def in_top(
    outputs: npt.NDArray[Any], labels: Sequence[int] | npt.NDArray[np.integer], count: int
) -> npt.NDArray[np.bool_]:
    """Whether each sample's label is among the `count` largest outputs [samples, classes].

    Of equal outputs, the first ones count as larger, as `argmax` has it.
    """
    own = np.take_along_axis(outputs, np.asarray(labels)[:, None], axis=1)
    is_before = np.arange(outputs.shape[1])[None, :] < np.asarray(labels)[:, None]
    ahead = (outputs > own) | ((outputs == own) & is_before)
    found: npt.NDArray[np.bool_] = ahead.sum(axis=1) < count
    return found
