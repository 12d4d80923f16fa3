"""Averages of windows by their sums of stored values, which are integers: no order of summands matters.

What an average becomes is `round(sum * factor + offset)` wherever the sum is further from a tie than all roundings in
binary32 can add up to, of the float rule's own chain of numbers and of this one. The float rule rounds what it adds in
the order of the window's values, so a sum that is nearer to a tie may become either neighbour: it is in doubt, and the
windows that come to such a sum are computed as the rule says.

The bounds are those of N. Higham, "Accuracy and Stability of Numerical Algorithms", section 4.2, of terms that are all
as large as the largest one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import FloatArray, LongArray, scale_of, zero_point_of
from int8tune.compiler.operators.pool import average_constants, values_inside
from int8tune.compiler.program import Array
from int8tune.schedules.numerics import RANGES

# Half of the last place of numbers from 1 to 2.
UNIT_ROUNDOFF = 2.0**-24
# Of larger windows, rows are no code of their own, and sums have more than 16 bits; beyond the second, roundings of
# binary32 are no small part of a step.
MOST_TAPS, MOST_RATIO = 64, 32.0
# Scales whose products with bytes are neither denormal nor infinite.
SCALES = (1e-30, 1e30)
# Sums in doubt of one window: each is compared with. Windows of more are computed as the rule says, if they are few:
# those at the border, which have an even number of values, for instance.
MOST_DOUBTS, MOST_DOUBTFUL = 4, 0.25
NO_SUM, EVERY_SUM = np.iinfo(np.int16).max, np.iinfo(np.int16).min


@dataclass(frozen=True, slots=True, eq=False)
class Averages:
    """What makes averages of sums of stored values, for each window of an image.

    Attributes:
        factor, offset: float32 [OH * OW].
        nudge: what is added to the offset where the sum is not negative, and taken off it where it is: halves of the
            fixed rule go away from zero. 0 for the float rule.
        doubts: int16 [OH * OW * K]: sums that may be rounded either way, `NO_SUM` where there are no more; `EVERY_SUM`
            where all may.
    """

    factor: FloatArray
    offset: FloatArray
    nudge: float
    doubts: Array

    @property
    def doubts_of_each(self) -> int:
        return int(self.doubts.size // self.factor.size)


def averages_of(operator: Operator, data: Value, output: Value, most: float = MOST_DOUBTS) -> Averages | None:
    """The constants of an average pool of bytes; None where sums don't decide.

    Args:
        most: sums in doubt that a window may have; None, too, if many windows have more.
    """
    taps = math.prod(operator.attributes["kernel"])
    if data.type not in RANGES or taps > MOST_TAPS:
        return None
    count = average_constants(operator, data).count.reshape(-1)
    if operator.rule == "fixed":
        # Averages are multiples of 1 / count; a quarter of that leaves none at a tie.
        nudge = 1 / (4 * taps)
        return Averages(_single(1 / count), np.zeros(count.size, np.float32), nudge, np.zeros(0, np.int16))
    inside = values_inside(operator, data).reshape(-1)
    scales = [float(scale_of(each)) for each in (data, output)]
    ratio = scales[0] / scales[1]
    if ratio > MOST_RATIO or not all(SCALES[0] < scale < SCALES[1] for scale in scales):
        return None
    classes, index = np.unique(np.stack([inside, count]), axis=1, return_inverse=True)
    doubts = [_doubts(operator, data, output, *map(int, each)) for each in classes.T]
    index = index.reshape(-1)
    many = np.array([len(each) > most for each in doubts])
    if many[index].mean() > MOST_DOUBTFUL:
        return None
    doubts = [np.array([EVERY_SUM]) if are_many else each for each, are_many in zip(doubts, many, strict=True)]
    padded = np.full((len(doubts), max(map(len, doubts))), NO_SUM, np.int16)
    for row, each in zip(padded, doubts, strict=True):
        row[: len(each)] = each
    factor = ratio / count
    offset = zero_point_of(output) - zero_point_of(data) * inside * factor
    return Averages(_single(factor), _single(offset), 0.0, padded[index].reshape(-1))


def _doubts(operator: Operator, data: Value, output: Value, inside: int, count: int) -> LongArray:
    """The sums of `inside` values that roundings in binary32 may bring to the other side of a tie."""
    low, high = RANGES[data.type]
    sums = np.arange(low * inside, high * inside + 1)
    zero_point, offset = zero_point_of(data), zero_point_of(output)
    ratio = float(scale_of(data)) / float(scale_of(output))
    steps = (sums - inside * zero_point) * ratio / count + offset
    largest = max(high - zero_point, zero_point - low) * ratio
    # The rule: each value, sums of 2, 3, ... values, the quotient by the count and by the scale, the zero point.
    rule = largest * (inside + inside * (inside + 1) / 2) / count + 2 * largest + (largest + abs(offset))
    # Here: the factor, the offset, their product and its sum.
    here = 3 * inside * max(abs(low), high) * ratio / count + 2 * (
        abs(offset) + inside * abs(zero_point) * ratio / count
    )
    bound = 1.01 * UNIT_ROUNDOFF * (rule + here + np.abs(steps).max())
    least, most = operator.clamp or RANGES[output.type]
    matters = (steps > least - 1) & (steps < most + 1)
    tie = np.abs(steps - np.floor(steps) - 0.5) <= bound
    doubtful: LongArray = sums[matters & tie]
    return doubtful


def _single(values: Array) -> FloatArray:
    return values.astype(np.float32)
