"""What times say: medians, spreads, and how sure a speedup is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from int8tune.results.errors import RecordError

# With 4 pairs, one of two equal kernels still wins every pair once in 16 times: too often to call it faster.
MIN_PAIRS = 5
RESAMPLES = 2000
SETTLED_CONFIDENCE = 0.99


@dataclass(frozen=True, slots=True)
class Speedup:
    """How many times faster a candidate is than its baseline: baseline / candidate, with an interval.

    Exactly 1 with an interval of no width is a baseline's speedup over itself.
    """

    estimate: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.estimate <= self.high < math.inf:
            raise RecordError(f"a speedup needs 0 < low <= estimate <= high: {self.low}, {self.estimate}, {self.high}")


ITSELF = Speedup(1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class MedianTime:
    """A median of times with an interval, in seconds."""

    estimate_s: float
    low_s: float
    high_s: float


def median(times_s: Sequence[float]) -> float:
    """The middle of the times, in seconds."""
    ordered = sorted(_filled(times_s))
    middle = len(ordered) // 2
    return float(ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2)


def spread(times_s: Sequence[float]) -> float:
    """Interquartile range / median: 0 for equal times, 0.1 for a noisy device."""
    ordered = np.sort(np.asarray(_filled(times_s), dtype=np.float64))
    first, middle, third = (_quantile(ordered, share) for share in (0.25, 0.5, 0.75))
    return float((third - first) / middle)


def ratio_interval(
    a_times_s: Sequence[float], b_times_s: Sequence[float], confidence: float = 0.95, seed: int = 0
) -> Speedup:
    """Speedup of b over a from times taken in pairs: the median of a / b with its percentile bootstrap interval.

    Each pair was taken at nearly the same moment, so what slows the device down cancels out. Same input, same interval.
    Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13.

    Raises:
        RecordError: the two counts differ, or there are fewer than `MIN_PAIRS` pairs.
    """
    if len(a_times_s) != len(b_times_s) or len(a_times_s) < MIN_PAIRS:
        raise RecordError(
            f"an interval needs at least {MIN_PAIRS} pairs of times: {len(a_times_s)} and {len(b_times_s)}"
        )
    ratios = np.asarray(a_times_s, dtype=np.float64) / np.asarray(b_times_s, dtype=np.float64)
    return Speedup(*_median_interval(ratios, confidence, seed))


def median_ratio(a_times_s: Sequence[float], b_times_s: Sequence[float]) -> float:
    """The estimate of `ratio_interval` alone, of any number of pairs."""
    return median((np.asarray(a_times_s, dtype=np.float64) / np.asarray(b_times_s, dtype=np.float64)).tolist())


def median_time(times_s: Sequence[float], confidence: float = 0.95, seed: int = 0) -> MedianTime:
    """The median of times with its percentile bootstrap interval, which is that of `ratio_interval`.

    Raises:
        RecordError: there are fewer than `MIN_PAIRS` times.
    """
    if len(times_s) < MIN_PAIRS:
        raise RecordError(f"an interval needs at least {MIN_PAIRS} times: {len(times_s)}")
    return MedianTime(*_median_interval(np.asarray(times_s, dtype=np.float64), confidence, seed))


def is_settled(a_times_s: Sequence[float], b_times_s: Sequence[float], min_gain: float = 0.01) -> bool:
    """Whether the pairs so far tell if b is faster than a by `min_gain` or not, so that more are not needed.

    Whoever asks after each few pairs gives chance several tries to answer. So the interval is a wider one than that of
    which wins are claimed (group-sequential testing; Pocock, Biometrika 64, 1977).

    Raises:
        RecordError: the two counts differ.
    """
    if len(a_times_s) == len(b_times_s) < MIN_PAIRS:
        return False
    speedup = ratio_interval(a_times_s, b_times_s, SETTLED_CONFIDENCE)
    return speedup.low > 1 + min_gain or speedup.high < 1 + min_gain


def is_win(speedup: Speedup, min_gain: float = 0.01) -> bool:
    """Whether a candidate is faster beyond doubt, and by enough to matter."""
    return speedup.low > 1 and speedup.estimate >= 1 + min_gain


def inverse(speedup: Speedup) -> Speedup:
    """How many times faster the baseline is than the candidate."""
    return Speedup(1 / speedup.estimate, 1 / speedup.high, 1 / speedup.low)


def _median_interval(values: npt.NDArray[np.float64], confidence: float, seed: int) -> tuple[float, float, float]:
    """The median, and the ends of its interval."""
    medians = _resampled_medians(values, seed)
    tail = (1 - confidence) / 2
    medians.sort()
    estimate = median(values.tolist())
    return estimate, min(_quantile(medians, tail), estimate), max(_quantile(medians, 1 - tail), estimate)


def _quantile(ordered: npt.NDArray[np.float64], share: float) -> float:
    """As `np.quantile` interpolates, to the same bits; that imports masked arrays first, and takes longer."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    low, high, part = float(ordered[below]), float(ordered[min(below + 1, len(ordered) - 1)]), place - below
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part


def _resampled_medians(values: npt.NDArray[np.float64], seed: int) -> npt.NDArray[np.float64]:
    """The median of each resample, [resamples].

    Found among the values in order, by how often each is in a resample: to select from each resample takes three times
    as long.
    """
    order = np.argsort(values)
    ordered = values[order]
    up_to = _counts(values.size, seed)[order].cumsum(axis=0, dtype=np.int32)
    middle = values.size // 2
    high: npt.NDArray[np.float64] = ordered[(up_to <= middle).sum(axis=0)]
    return high if values.size % 2 else (ordered[(up_to < middle).sum(axis=0)] + high) / 2


@lru_cache(maxsize=4)
def _counts(size: int, seed: int) -> npt.NDArray[np.int32]:
    """How often each resample has each value, [size, resamples]: the same for all with so many values."""
    drawn = np.random.default_rng(seed).integers(0, size, size=(RESAMPLES, size))
    counts = np.zeros((size, RESAMPLES), np.int32)
    np.add.at(counts, (drawn, np.arange(RESAMPLES)[:, None]), 1)
    return counts


def _filled(times_s: Sequence[float]) -> Sequence[float]:
    if not len(times_s):
        raise RecordError("statistics need at least one time")
    return times_s
