"""Staircases of a stored value as one fused multiplication and addition in binary32, rounded half to even.

What several operations on numbers make of a byte, each of them rounded, is close to a line and rarely on it. All 256
bytes are looked at: each leaves an interval to the addend, and what lies in all of them is tried.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from int8tune.compiler.rounding.staircases import BoolArray, DoubleArray, LongArray
from int8tune.schedules.operands import FloatArray

# What is larger before it is bounded can't be converted to an integer by a kernel.
LARGEST = 2.0**20

# Units in the last place from the given slope, and places in the interval of addends.
STEPS = (0, 1, -1, 2, -2)
SHARES = (0.5, 0.25, 0.75)


@np.errstate(all="ignore")  # scales of a file may be anything
def lines(inputs: LongArray, outputs: LongArray, slope: DoubleArray) -> tuple[FloatArray, FloatArray] | None:
    """Factors and addends whose rounded values, within the least and the largest of all outputs, are the outputs.

    Args:
        inputs: [N], stored values.
        outputs: [C, N], what each line makes of them.
        slope: [C], about; factors are next to these.

    Returns:
        [C] each, or None where there are none for a line.
    """
    factor, addend = np.zeros((2, len(outputs)), np.float32)
    todo = np.arange(len(outputs))
    for factors, addends in _choices(inputs, outputs, slope):
        is_right = _is_right(inputs, outputs[todo], factors[todo], addends[todo], outputs)
        factor[todo[is_right]], addend[todo[is_right]] = factors[todo[is_right]], addends[todo[is_right]]
        todo = todo[~is_right]
        if not len(todo):
            return factor, addend
    return None


def _choices(inputs: LongArray, outputs: LongArray, slope: DoubleArray) -> Iterator[tuple[FloatArray, FloatArray]]:
    nearest: FloatArray = slope.astype(np.float32)
    for step in STEPS:
        factors = (nearest + np.spacing(nearest) * step).astype(np.float32)
        rest = outputs - inputs * factors.astype(np.float64)[:, None]
        # Outputs at a bound may be of values beyond it.
        least = np.where(outputs > outputs.min(), rest - 0.5, -np.inf).max(axis=1)
        most = np.where(outputs < outputs.max(), rest + 0.5, np.inf).min(axis=1)
        for share in SHARES:
            yield factors, _between(least, most, share).astype(np.float32)


def _between(least: DoubleArray, most: DoubleArray, share: float) -> DoubleArray:
    """A number of each interval, whose ends may be infinite."""
    low = np.where(np.isfinite(least), least, np.where(np.isfinite(most), most - 1.0, 0.0))
    high = np.where(np.isfinite(most), most, low + 1.0)
    inside: DoubleArray = low + (high - low) * share
    return inside


def _is_right(
    inputs: LongArray, expected: LongArray, factors: FloatArray, addends: FloatArray, outputs: LongArray
) -> BoolArray:
    products, own = inputs * factors.astype(np.float64)[:, None], addends.astype(np.float64)[:, None]
    sums = products + own
    is_whole = (sums - products == own) & (sums - own == products)  # Knuth's TwoSum: nothing was rounded off
    made = np.clip(np.rint(sums.astype(np.float32)), outputs.min(), outputs.max())
    is_right: BoolArray = (is_whole & (made == expected) & (np.abs(sums) <= LARGEST)).all(axis=1)
    return is_right
