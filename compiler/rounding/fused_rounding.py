"""TFLite's roundings as one fused multiplication and addition in binary32.

They turn sums into outputs by staircases (`.staircases`). The fixed rule's two roundings move the thresholds by
half a unit of 2^-shift away from those of an exact product, up for positive outputs and down for others: that is an
offset, of the sum's sign. So a scale and an offset in binary32 give the same staircase, if they are right at each of
its at most 255 thresholds, which is checked for every one: what is monotonic and right on both sides of all thresholds
is right everywhere. Sums of a single magnitude may be an exception, which have another offset: most often those are
ties that binary32 made.

There is room for a choice. Scales next to the exact one, and offsets within the interval that the thresholds leave, are
tried until one is right.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from int8tune.compiler.rounding.staircases import BoolArray, DoubleArray, LongArray, Staircase
from int8tune.schedules.numerics import RoundingRule
from int8tune.schedules.operands import FUSED_SCALE_LIMIT, FloatArray, IntArray

ROUNDING = "fused_rounding"
"""The attribute of layers of the rule `fused` that has their `FusedRounding`."""

# What is tried in turn: scales, in units in the last place from the exact one; how many thresholds may lie beyond the
# lower and upper end of an offset's interval; and places within that.
CHOICES = tuple(
    choice
    for most, places in ((12, (0.5, 0.25, 0.75)), (6, (0.1, 0.4, 0.6, 0.9)), (3, (0.05, 0.15, 0.33, 0.67, 0.85, 0.95)))
    for choice in itertools.product(sorted(range(-most, most + 1), key=abs), ((0, 0), (0, 1), (1, 0)), places)
)
STEPS, OUTSIDE, SHARES = (np.array(each) for each in zip(*CHOICES, strict=True))
# A channel that is wrong with so many tries all, some at the same time; one with an exception goes on for so many.
FEW, ENOUGH, TOGETHER = 9, 27, 60
# Offsets are multiples of this, so that sums of 64-bit floats are exact where a threshold is near.
OFFSET_UNIT = 2.0**-40
# Channels tried together: few enough for what is computed to stay in a core's cache.
BLOCK = 32
# What is added to an offset so that a sum just below a threshold is above it, or a tie is none.
MENDING = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class FusedRounding:
    """What kernels of the rule `fused` take for each channel, or once for all.

    Attributes:
        scale, offset: of the multiplication and addition.
        exception, exception_offset: the magnitude of sums that have another offset, -1 where there are none.
    """

    scale: FloatArray
    offset: FloatArray
    exception: IntArray
    exception_offset: FloatArray

    rule: ClassVar[RoundingRule] = "fused"

    @property
    def has_exceptions(self) -> bool:
        return bool((self.exception >= 0).any())

    def operands(self) -> dict[str, FloatArray | IntArray]:
        """The fields of `schedules.operands.Operands` that say this."""
        fields: dict[str, FloatArray | IntArray] = {"scale": self.scale, "offset": self.offset}
        return (
            {**fields, "exception": self.exception, "exception_offset": self.exception_offset}
            if self.has_exceptions
            else fields
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Points:
    """Where staircases are checked.

    Attributes:
        thresholds: int64 [P, K], the least sum with an output of k or more, for k from `low + 1` to `high`.
        sums: int64 [P, N], both ends, and those next to them and to thresholds.
        numbers: the sums in binary32, held in binary64.
        outputs: what becomes of the sums.
    """

    stairs: Staircase
    thresholds: LongArray
    sums: LongArray
    numbers: DoubleArray
    outputs: FloatArray

    def part(self, chosen: BoolArray | LongArray) -> _Points:
        """Those of some channels, by their places or by a mask."""
        outputs, numbers = self.outputs[chosen], self.numbers[chosen]
        return _Points(self.stairs.part(chosen), self.thresholds[chosen], self.sums[chosen], numbers, outputs)


def fused_rounding(stairs: Staircase) -> FusedRounding | None:
    """Scales and offsets that give the same staircases, or None where they were not found for every channel."""
    is_flat, scale = stairs.flat()
    places = np.flatnonzero(~is_flat)
    if not stairs.part(places).is_simple or stairs.low == stairs.high:
        return None
    offset, another = np.zeros((2, len(scale)), np.float32)
    found = FusedRounding(scale, offset, np.full(len(scale), -1, np.int32), another)
    # The smaller a scale, the nearer to thresholds are the sums next to them: a channel without any is found early.
    order = places[stairs.scale[places].argsort()]
    blocks = (order[start : start + BLOCK] for start in range(0, len(order), BLOCK))
    return found if all(_is_found(_points(stairs.part(places)), places, found) for places in blocks) else None


def _points(stairs: Staircase) -> _Points:
    thresholds = stairs.thresholds
    # Two on either side of a threshold, and at an end: where one of them is an exception, those beyond are right
    # if the other one is.
    near = (thresholds[..., None] + np.arange(-2, 2)).reshape(len(thresholds), -1)
    ends = np.stack([stairs.least, stairs.most, stairs.least + 1, stairs.most - 1], axis=1)
    sums = np.clip(np.concatenate([ends, near], axis=1), stairs.least[:, None], stairs.most[:, None])
    return _Points(stairs, thresholds, sums, _in_binary32(sums), stairs.outputs(sums).astype(np.float32))


def _is_found(points: _Points, places: LongArray, found: FusedRounding) -> bool:
    """Whether each of these channels has a choice: the first one without exceptions, or else the first one."""
    wrong = np.full(len(places), 2)
    for choice in range(FEW):
        _try(points, choice, found, wrong, places)
    for channel in np.flatnonzero(wrong == 2).tolist():
        if not _try_all(points, channel, found, places):
            return False
        wrong[channel] = 0
    for choice in range(FEW, ENOUGH):
        _try(points, choice, found, wrong, places)
    return True


def _try(points: _Points, choice: int, found: FusedRounding, wrong: LongArray, places: LongArray) -> None:
    """Keep scale and offset of a choice for the channels with which they are better than what was found."""
    todo = np.flatnonzero(wrong)
    if not len(todo):
        return
    tried, count = _tried(points.part(todo), np.array([choice]))
    better = count < wrong[todo]
    wrong[todo[better]] = count[better]
    _keep(tried, better, found, places[todo[better]])


def _try_all(points: _Points, channel: int, found: FusedRounding, places: LongArray) -> bool:
    """Keep the choice of a channel, the first without exceptions if that is an early one; whether there is one."""
    for choices in np.split(np.arange(len(CHOICES)), range(ENOUGH, len(CHOICES), TOGETHER)):
        tried, count = _tried(points.part(np.full(len(choices), channel)), choices)
        right = [*np.flatnonzero((count == 0) & (choices < ENOUGH)), *np.flatnonzero(count < 2)]
        if right:
            _keep(tried, right[:1], found, places[[channel]])
            return True
    return False


def _keep(tried: FusedRounding, better: BoolArray | list[int], found: FusedRounding, places: LongArray) -> None:
    for field in fields(FusedRounding):
        getattr(found, field.name)[places] = getattr(tried, field.name)[better]


def _tried(points: _Points, choices: LongArray) -> tuple[FusedRounding, LongArray]:
    """What a choice, or one for each channel, comes to; with how many exceptions: none, one, or 2 for all else."""
    scale = _near_scale(points, STEPS[choices])
    offset = _limits(points, scale).offset(OUTSIDE[choices], SHARES[choices])
    exception, another, count = _exceptions(points, scale, offset)
    count[scale >= FUSED_SCALE_LIMIT] = 2
    return FusedRounding(scale, offset, exception.astype(np.int32), another), count


def _near_scale(points: _Points, steps: LongArray) -> FloatArray:
    """The scale [P] so many units in the last place from the exact one."""
    exact = points.stairs.scale.astype(np.float32)
    near: FloatArray = (exact.view(np.int32) + steps.astype(np.int32)).view(np.float32)
    return near


@dataclass(frozen=True, slots=True, eq=False)
class _Limits:
    """What thresholds demand of the offset for a scale.

    Attributes:
        least, most: [P, K], what each threshold demands; infinite where no sum reaches it.
        room: [P], the greatest offset with which no sum at an end is beyond a threshold that can't be reached; at
            most 1.
    """

    least: DoubleArray
    most: DoubleArray
    room: DoubleArray

    def offset(self, outside: LongArray, share: DoubleArray) -> FloatArray:
        """Offsets at this place of the interval that meets all thresholds but those `outside` [P, 2] of its ends."""
        below, above = np.minimum(outside, self.least.shape[1] - 1).T
        low = -_of_least(-self.least, below)
        low, high = np.where(np.isfinite(low), low, 0.0), np.minimum(_of_least(self.most, above), self.room)
        place = np.rint((low + (high - low) * share) / OFFSET_UNIT) * OFFSET_UNIT
        inside: FloatArray = np.clip(place, 0, 1).astype(np.float32)
        return inside


def _of_least(numbers: DoubleArray, place: LongArray) -> DoubleArray:
    """The least number of each row, or the one at this place behind it."""
    ordered = np.partition(numbers, range(min(2, numbers.shape[1])), axis=1)
    found: DoubleArray = ordered[np.arange(len(numbers)), place]
    return found


def _limits(points: _Points, scale: FloatArray) -> _Limits:
    stairs, thresholds = points.stairs, points.thresholds
    k = np.arange(stairs.low + 1, stairs.high + 1)[None] - 0.5
    wide = scale.astype(np.float64)[:, None]
    below, at = k - (thresholds - 1) * wide, k - thresholds * wide
    # at <= offset < below for sums of at least 0, and the other way round for others, whose offset is subtracted.
    is_positive = thresholds > 0
    least, most = np.where(is_positive, at, -below), np.where(is_positive, below, -at)
    reached = (thresholds > stairs.least[:, None]) & (thresholds <= stairs.most[:, None])
    ends, outputs = points.sums[:, :2], points.outputs[:, :2]
    is_clamped = (outputs == stairs.low) | (outputs == stairs.high)
    room = np.where(is_clamped, 1.0, np.abs(outputs) + 0.5 - np.abs(ends) * wide).min(axis=1)
    return _Limits(np.where(reached, least, -np.inf), np.where(reached, most, np.inf), room)


def _exceptions(points: _Points, scale: FloatArray, offset: FloatArray) -> tuple[LongArray, FloatArray, LongArray]:
    """For each channel the magnitude of sums that are off, an offset that mends them, and 0, 1, or 2 for all else."""
    stairs, sums = points.stairs, points.sums
    off = points.outputs - np.clip(_fused(points.numbers, scale[:, None], offset[:, None]), stairs.low, stairs.high)
    index = np.arange(len(off)), np.abs(off).argmax(axis=1)
    worst, miss = sums[index][:, None], off[index][:, None]
    is_up = (miss > 0) == (worst >= 0)
    another = np.where(is_up, np.minimum(offset[:, None] + MENDING, 1), 0).astype(np.float32)
    wrong = np.zeros(len(sums), np.bool_)
    channel, at = off.nonzero()
    mended = np.clip(_fused(points.numbers[channel, at], scale[channel], another[channel, 0]), stairs.low, stairs.high)
    is_another = np.abs(sums[channel, at]) != np.abs(worst[channel, 0])
    wrong[channel[is_another | (mended != points.outputs[channel, at])]] = True
    # The sum of the same magnitude and the other sign has the other offset, too.
    twin = np.clip(-worst, stairs.least[:, None], stairs.most[:, None])
    twin_output = np.clip(_fused(_in_binary32(twin), scale[:, None], another), stairs.low, stairs.high)
    wrong |= ((miss != 0) & (twin == -worst) & (twin_output != stairs.outputs(twin)))[:, 0]
    exception = np.where(miss != 0, np.abs(worst), -1)[:, 0]
    return exception, another[:, 0], np.where(wrong, 2, exception >= 0).astype(np.int64)


def _fused(numbers: DoubleArray, scale: FloatArray, offset: FloatArray) -> FloatArray:
    """`schedules.oracle.reference.scale_fused`, exact for outputs below 2^12: the 64-bit sums have all their bits."""
    total = numbers * scale.astype(np.float64) + np.copysign(offset.astype(np.float64), numbers)
    rounded: FloatArray = np.rint(total.astype(np.float32))
    return rounded


def _in_binary32(sums: LongArray) -> DoubleArray:
    return sums.astype(np.float32).astype(np.float64)
