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
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from int8tune.compiler.rounding.staircases import LongArray, Staircase
from int8tune.schedules.operands import FUSED_SCALE_LIMIT, FloatArray, IntArray

Choice = tuple[int, tuple[int, int], float]

ROUNDING = "fused_rounding"
"""The attribute of layers of the rule `fused` that has their `FusedRounding`."""

# Scales tried, in units in the last place from the exact one; how many thresholds may lie beyond the lower and upper
# end of an offset's interval; and places within that.
CHOICES: tuple[Choice, ...] = tuple(
    choice
    for most, places in ((12, (0.5, 0.25, 0.75)), (6, (0.1, 0.4, 0.6, 0.9)), (3, (0.05, 0.15, 0.33, 0.67, 0.85, 0.95)))
    for choice in itertools.product(sorted(range(-most, most + 1), key=abs), ((0, 0), (0, 1), (1, 0)), places)
)
FEW, ENOUGH = 9, 27
# Offsets are multiples of this, so that sums of 64-bit floats are exact where a threshold is near.
OFFSET_UNIT = 2.0**-40
# Where more channels are wrong with the exact scale's neighbour, some will be with all others.
MOST_STUBBORN = 0.25
# By the place of a choice: of the channels that are wrong with all up to it, so many try every choice alone.
SAMPLED = {0: 1, FEW: 6}
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
        sums, outputs: int64 [P, N], both ends, and those next to them and to thresholds; and what becomes of them.
    """

    stairs: Staircase
    thresholds: LongArray
    sums: LongArray
    outputs: LongArray

    def part(self, chosen: npt.NDArray[np.bool_] | LongArray) -> _Points:
        """Those of some channels, by their places or by a mask."""
        return _Points(self.stairs.part(chosen), self.thresholds[chosen], self.sums[chosen], self.outputs[chosen])


def fused_rounding(stairs: Staircase) -> FusedRounding | None:
    """Scales and offsets that give the same staircases, or None where they were not found for every channel."""
    if not stairs.is_simple or stairs.low == stairs.high:
        return None
    points, count = _points(stairs), len(stairs.least)
    scale, offset, another = np.zeros((3, count), np.float32)
    found = FusedRounding(scale, offset, np.full(count, -1, np.int32), another)
    wrong = np.full(count, 2)
    for tried, choice in enumerate(CHOICES):
        # A layer without exceptions is worth some tries, a channel with one instead of several all of them.
        todo = wrong > (0 if tried < ENOUGH else 1)
        if not todo.any():
            return found
        _try(points.part(todo), choice, found, wrong, np.flatnonzero(todo))
        stubborn = np.flatnonzero(wrong == 2)
        if tried == FEW and len(stubborn) > max(1, MOST_STUBBORN * count):
            return None
        if tried in SAMPLED and _is_hopeless(points, stubborn, SAMPLED[tried]):
            return None
    return found if (wrong < 2).all() else None


def _points(stairs: Staircase) -> _Points:
    thresholds = stairs.thresholds
    # Two on either side of a threshold, and at an end: where one of them is an exception, those beyond are right
    # if the other one is.
    near = (thresholds[..., None] + np.arange(-2, 2)).reshape(len(thresholds), -1)
    ends = np.stack([stairs.least, stairs.most, stairs.least + 1, stairs.most - 1], axis=1)
    sums = np.clip(np.concatenate([ends, near], axis=1), stairs.least[:, None], stairs.most[:, None])
    return _Points(stairs, thresholds, sums, stairs.outputs(sums))


def _is_hopeless(points: _Points, channels: LongArray, most: int) -> bool:
    """Whether one of so many of these channels is wrong with every choice, those with the smallest scales.

    The smaller a scale, the nearer to a threshold are the sums next to it.
    """
    smallest = channels[points.stairs.scale[channels].argsort()][:most]
    return any(_is_wrong_always(points, channel) for channel in smallest)


def _is_wrong_always(points: _Points, channel: int) -> bool:
    """Whether a channel has more than an exception with each choice; all are tried at the same time."""
    for outside in sorted({outside for _, outside, _ in CHOICES}):
        steps, shares = zip(*((steps, share) for steps, other, share in CHOICES if other == outside), strict=True)
        copies = points.part(np.full(len(steps), channel))
        scale = _near_scale(copies, np.array(steps, np.int32))
        offset = _offset(copies, scale, outside, np.array(shares))
        _, _, wrong = _exceptions(copies, scale, offset)
        if ((wrong < 2) & (scale < FUSED_SCALE_LIMIT)).any():
            return False
    return True


def _try(
    points: _Points,
    choice: tuple[int, tuple[int, int], float],
    found: FusedRounding,
    wrong: LongArray,
    places: LongArray,
) -> None:
    """Keep scale and offset of a choice for the channels at `places` where they are better than what was found."""
    steps, outside, share = choice
    scale = _near_scale(points, np.int32(steps))
    offset = _offset(points, scale, outside, share)
    exception, another, count = _exceptions(points, scale, offset)
    better = (count < wrong[places]) & (scale < FUSED_SCALE_LIMIT)
    at = places[better]
    wrong[at], found.scale[at], found.offset[at] = count[better], scale[better], offset[better]
    found.exception[at], found.exception_offset[at] = exception[better], another[better]


def _near_scale(points: _Points, steps: IntArray | np.int32) -> FloatArray:
    """The scale [P] so many units in the last place from the exact one."""
    near: FloatArray = (points.stairs.scale.astype(np.float32).view(np.int32) + steps).view(np.float32)
    return near


def _offset(
    points: _Points, scale: FloatArray, outside: tuple[int, int], share: npt.NDArray[np.float64] | float
) -> FloatArray:
    """The offset [P] at this place of the interval that `_offsets` gives."""
    low, high = _offsets(points, scale, outside)
    place = np.rint((low + (high - low) * share) / OFFSET_UNIT) * OFFSET_UNIT
    inside: FloatArray = np.clip(place, 0, 1).astype(np.float32)
    return inside


def _offsets(
    points: _Points, scale: FloatArray, outside: tuple[int, int]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The interval of offsets [P] that meet all thresholds that can be reached, but those `outside` of its ends."""
    stairs, thresholds = points.stairs, points.thresholds
    k = np.arange(stairs.low + 1, stairs.high + 1)[None] - 0.5
    wide = scale.astype(np.float64)[:, None]
    below, at = k - (thresholds - 1) * wide, k - thresholds * wide
    # at <= offset < below for sums of at least 0, and the other way round for others, whose offset is subtracted.
    is_positive = thresholds > 0
    least, most = np.where(is_positive, at, -below), np.where(is_positive, below, -at)
    reached = (thresholds > stairs.least[:, None]) & (thresholds <= stairs.most[:, None])
    least, most = np.where(reached, least, -np.inf), np.where(reached, most, np.inf)
    below_it, above_it = (min(count, least.shape[1] - 1) for count in outside)
    low = np.partition(least, -1 - below_it, axis=1)[:, -1 - below_it]
    high = np.partition(most, above_it, axis=1)[:, above_it]
    return np.where(np.isfinite(low), low, 0.0), np.minimum(high, _room_at_ends(points, wide))


def _room_at_ends(points: _Points, scale: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The greatest offset [P] with which no sum at an end is beyond a threshold that can't be reached; at most 1."""
    ends, outputs = points.sums[:, :2], points.outputs[:, :2]
    is_clamped = (outputs == points.stairs.low) | (outputs == points.stairs.high)
    room = np.abs(outputs) + 0.5 - np.abs(ends) * scale
    least: npt.NDArray[np.float64] = np.where(is_clamped, 1.0, room).min(axis=1)
    return least


def _exceptions(points: _Points, scale: FloatArray, offset: FloatArray) -> tuple[LongArray, FloatArray, LongArray]:
    """For each channel the magnitude of sums that are off, an offset that mends them, and 0, 1, or 2 for all else."""
    stairs, sums, outputs = points.stairs, points.sums, points.outputs
    off = outputs - np.clip(_fused(sums, scale[:, None], offset[:, None]), stairs.low, stairs.high)
    index = np.abs(off).argmax(axis=1)[:, None]
    worst, miss = (np.take_along_axis(each, index, 1) for each in (sums, off))
    is_up = (miss > 0) == (worst >= 0)
    another = np.where(is_up, np.minimum(offset[:, None] + MENDING, 1), 0).astype(np.float32)
    is_exception = (np.abs(sums) == np.abs(worst)) & (miss != 0)
    wrong = ((off != 0) & ~is_exception).any(axis=1)
    channel, at = is_exception.nonzero()
    mended = np.clip(_fused(sums[channel, at], scale[channel], another[channel, 0]), stairs.low, stairs.high)
    wrong[channel[mended != outputs[channel, at]]] = True
    # The sum of the same magnitude and the other sign may be near no threshold, and has the other offset all the same.
    twin = np.clip(-worst, stairs.least[:, None], stairs.most[:, None])
    twin_output = np.clip(_fused(twin, scale[:, None], another), stairs.low, stairs.high)
    wrong |= ((miss != 0) & (twin == -worst) & (twin_output != stairs.outputs(twin)))[:, 0]
    exception = np.where(miss != 0, np.abs(worst), -1)[:, 0]
    return exception, another[:, 0], np.where(wrong, 2, exception >= 0).astype(np.int64)


def _fused(sums: LongArray, scale: FloatArray, offset: FloatArray) -> LongArray:
    """`schedules.oracle.reference.scale_fused`, exact for outputs below 2^12: the 64-bit sums have all their bits."""
    number = sums.astype(np.float32).astype(np.float64)
    total = number * scale.astype(np.float64) + np.copysign(offset.astype(np.float64), number)
    return np.rint(total.astype(np.float32)).astype(np.int64)
