"""TFLite's roundings by the rule `fine`, where `fused` has no scale and offset that are right at every threshold.

The smaller a scale is, the closer sums come to a threshold, and the last bits of a product in binary32 decide. The rule
`fine` has a scale of 48 bits, and keeps what is behind the point apart (`schedules.oracle.reference.scale_fine`): what
it rounds is off by less than 2^-23, and neighbouring sums are farther from each other than that, so it is monotonic.
What is right on both sides of all thresholds is right everywhere.

Each scale leaves an interval to the offset. Of some scales around the exact one, those with the widest intervals are
tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from int8tune.compiler.rounding.staircases import BoolArray, DoubleArray, LongArray, Staircase
from int8tune.schedules.numerics import RoundingRule
from int8tune.schedules.operands import MIN_SCALE, FloatArray, split_scale
from int8tune.schedules.oracle.reference import scale_fine

# Scales that are looked at, as parts of the exact one from it; how many are tried, and where in their intervals.
SCALE_STEPS = np.array(sorted(range(-256, 257), key=abs)) * 2.0**-30
TRIED, SHARES = 24, (0.5, 0.4, 0.6)
# Below this, sums of neighbours are too close to each other.
LEAST_SCALE = 2.0**-20
BLOCK = 32


@dataclass(frozen=True, slots=True, eq=False)
class FineRounding:
    """What kernels of the rule `fine` take for each channel, or once for all.

    Attributes:
        scale, rest: of the multiplication, in two parts.
        offset: of the addition.
    """

    scale: FloatArray
    rest: FloatArray
    offset: FloatArray

    rule: ClassVar[RoundingRule] = "fine"
    has_exceptions = False

    def operands(self) -> dict[str, FloatArray]:
        """The fields of `schedules.operands.Operands` that say this."""
        return {"scale": self.scale, "rest": self.rest, "offset": self.offset}


def fine_rounding(stairs: Staircase) -> FineRounding | None:
    """Scales, rests and offsets that give the same staircases, or None where they were not found for every channel."""
    is_flat, scale = stairs.flat()
    places = np.flatnonzero(~is_flat)
    others = stairs.part(places)
    if not others.is_simple or stairs.low == stairs.high or (others.scale < LEAST_SCALE).any():
        return None
    found = FineRounding(scale, *np.zeros((2, len(scale)), np.float32))
    blocks = (places[start : start + BLOCK] for start in range(0, len(places), BLOCK))
    return found if all(_is_found(stairs.part(places), places, found) for places in blocks) else None


def _is_found(stairs: Staircase, places: LongArray, found: FineRounding) -> bool:
    """Whether each of these channels has a choice, which is kept: most have the exact scale."""
    left = _tried(stairs, places, found, SCALE_STEPS[:1], 1)
    return not left.any() or not _tried(stairs.part(left), places[left], found, SCALE_STEPS, TRIED).any()


def _tried(stairs: Staircase, places: LongArray, found: FineRounding, steps: DoubleArray, count: int) -> BoolArray:
    """Keep what is right of so many choices; the channels [P] that have none."""
    thresholds = stairs.thresholds
    sums = _next_to(stairs, thresholds)
    expected = stairs.outputs(sums)
    left = np.ones(len(places), np.bool_)
    for choice in _choices(stairs, thresholds, steps, count):
        scale, rest, offset = (each[:, None] for each in choice)
        is_right = (np.clip(scale_fine(sums, scale, rest, offset), stairs.low, stairs.high) == expected).all(axis=1)
        for array, values in zip((found.scale, found.rest, found.offset), choice, strict=True):
            array[places[left & is_right]] = values[left & is_right]
        left &= ~is_right
        if not left.any():
            break
    return left


def _next_to(stairs: Staircase, thresholds: LongArray) -> LongArray:
    """The sums [P, N] on both sides of each threshold, and both ends."""
    sums = np.concatenate([stairs.least[:, None], stairs.most[:, None], thresholds - 1, thresholds], axis=1)
    within: LongArray = np.clip(sums, stairs.least[:, None], stairs.most[:, None])
    return within


def _choices(
    stairs: Staircase, thresholds: LongArray, steps: DoubleArray, count: int
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """So many scales, rests and offsets [P], those with the most room first."""
    exact = stairs.scale
    intervals = [_offsets(stairs, thresholds, exact * (1 + step)) for step in steps]
    lowest, highest = (np.stack(ends) for ends in zip(*intervals, strict=True))
    widest = np.argsort(lowest - highest, axis=0, kind="stable")[:count]
    channels = np.arange(len(exact))
    for best, share in itertools.product(widest, SHARES):
        low, high = lowest[best, channels], highest[best, channels]
        place = np.clip(low + (high - low) * share, 0, 1)
        offset = np.where(place < MIN_SCALE, 0, place).astype(np.float32)
        yield *split_scale(exact * (1 + steps[best])), offset


def _offsets(stairs: Staircase, thresholds: LongArray, scale: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
    """The least and the largest offset [P] with which all thresholds are where they must be."""
    k = np.arange(stairs.low + 1, stairs.high + 1)[None] - 0.5
    below, at = k - (thresholds - 1) * scale[:, None], k - thresholds * scale[:, None]
    # Offsets are added to sums of at least 0, and subtracted from others.
    is_positive = thresholds > 0
    is_reached = (thresholds > stairs.least[:, None]) & (thresholds <= stairs.most[:, None])
    least = np.where(is_reached, np.where(is_positive, at, -below), 0.0).max(axis=1)
    most = np.where(is_reached, np.where(is_positive, below, -at), 1.0).min(axis=1)
    return np.maximum(least, 0), np.minimum(most, 1)
