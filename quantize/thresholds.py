"""Which part of a tensor's range its 256 levels stand for: what lies outside is clipped, what is inside is rounded.

All work on the histogram of a `TensorRange`, whose bins are taken as their middles. Zero is always inside.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from int8tune.quantize.options import Calibration, Method
from int8tune.quantize.ranges import BINS, TensorRange

Array = npt.NDArray[Any]

LEVELS = 256
# Of the search for the least error: shares of the extremes, as fine as the error is flat around its minimum.
CANDIDATES = 96
SMALLEST_SHARE = 0.05
# Migacz 2017: levels of the positive half of s8, which are compared with the histogram.
KL_LEVELS = 128


class Threshold(NamedTuple):
    """The lowest and the highest value that is not clipped."""

    low: float
    high: float


def threshold(values: TensorRange, calibration: Calibration, symmetric: bool = False) -> Threshold:
    """The range that a calibration method chooses; with `symmetric`, as far below zero as above."""
    found = _chosen(values, calibration, symmetric)
    low, high = min(0.0, found.low), max(0.0, found.high)
    if symmetric:
        low, high = -max(-low, high), max(-low, high)
    return Threshold(low, high)


def _chosen(values: TensorRange, calibration: Calibration, symmetric: bool) -> Threshold:
    if values.is_constant or calibration.method is Method.MAX:
        return Threshold(values.minimum, values.maximum)
    if calibration.method is Method.PERCENTILE:
        return percentile_threshold(values, calibration.percentile)
    if calibration.method is Method.KL:
        return kl_threshold(values)
    return mse_threshold(values, symmetric)


def percentile_threshold(values: TensorRange, percent: float) -> Threshold:
    """The range that has so many percent of the values, with as many below as above it."""
    below = np.concatenate([[0], np.cumsum(values.counts)]) / values.counts.sum()
    outside = (1 - percent / 100) / 2
    low = int(np.searchsorted(below, outside, side="right")) - 1
    high = int(np.searchsorted(below, 1 - outside, side="left"))
    return Threshold(float(values.edges[max(low, 0)]), float(values.edges[min(high, BINS)]))


def mse_threshold(values: TensorRange, symmetric: bool = False) -> Threshold:
    """The range of the least mean squared error: of clipping, and of rounding, a twelfth of a step's square.

    A value that is exactly zero has no error. Shares of the minimum and of the maximum are tried, all pairs.
    """
    shares = np.linspace(1.0, SMALLEST_SHARE, CANDIDATES)
    lowest, highest = min(0.0, values.minimum), max(0.0, values.maximum)
    if symmetric:
        highest = max(-lowest, highest)
        lowest = -highest
    lows = lowest * shares if lowest < 0 else np.zeros(1)
    highs = highest * shares if highest > 0 else np.zeros(1)
    clipped_low, clipped_high, below, above = _clipping(values, lows, highs)
    rounded = values.counts.sum() - values.zeros - below[:, None] - above[None, :]
    steps = (highs[None, :] - lows[:, None]) / (LEVELS - 1)
    errors = clipped_low[:, None] + clipped_high[None, :] + np.maximum(rounded, 0) * steps**2 / 12
    if symmetric:
        number = int(np.argmin(np.diagonal(errors)))
        return Threshold(float(lows[number]), float(highs[number]))
    row, column = np.unravel_index(int(np.argmin(errors)), errors.shape)
    return Threshold(float(lows[row]), float(highs[column]))


def _clipping(values: TensorRange, lows: Array, highs: Array) -> tuple[Array, Array, Array, Array]:
    """For each candidate, the squared error of what is clipped, below and above; then how many values that are."""
    middles = (values.edges[:-1] + values.edges[1:]) / 2
    counts = values.counts.astype(np.float64)
    under = np.maximum(lows[:, None] - middles[None, :], 0)
    over = np.maximum(middles[None, :] - highs[:, None], 0)
    return under**2 @ counts, over**2 @ counts, (under > 0) @ counts, (over > 0) @ counts


def kl_threshold(values: TensorRange) -> Threshold:
    """The range of the least Kullback-Leibler divergence between the magnitudes and 128 levels of them.

    Source: S. Migacz, 8-bit inference with TensorRT, GTC 2017. Zeros are left out: a Relu makes so many of them that
    their bin alone would decide, and they are exact in any range. Of a tensor with both signs, the histogram is that
    of magnitudes; the range is the threshold on each side, as far as there are values.
    """
    counts, width = _magnitudes(values)
    least, best = np.inf, BINS
    for bins in range(KL_LEVELS, BINS + 1):
        divergence = kl_divergence(counts, bins)
        if divergence < least:
            least, best = divergence, bins
    limit = best * width
    return Threshold(max(values.minimum, -limit), min(values.maximum, limit))


def kl_divergence(counts: Array, bins: int) -> float:
    """How much is lost if the first bins of a histogram become 128 levels, and all values beyond the last of them.

    The reference has what lies beyond in its last bin; what is compared with it is made without.
    """
    kept = counts[:bins].astype(np.float64)
    reference = kept.copy()
    reference[-1] += counts[bins:].sum()
    # Each level is the sum of its bins, spread evenly over those that are not empty.
    level = np.arange(bins) * KL_LEVELS // bins
    occupied = kept > 0
    sums = np.bincount(level, kept, KL_LEVELS)
    sizes = np.bincount(level, occupied, KL_LEVELS)
    candidate = np.where(occupied, (sums / np.maximum(sizes, 1))[level], 0.0)
    return _divergence(reference, candidate)


def _divergence(reference: Array, candidate: Array) -> float:
    total, candidate_total = reference.sum(), candidate.sum()
    if not candidate_total:
        return float(np.inf)
    is_there = reference > 0
    if (candidate[is_there] == 0).any():
        # Only the last bin can be so: it has values from beyond it, and none of its own.
        return float(np.inf)
    p, q = reference[is_there] / total, candidate[is_there] / candidate_total
    return float((p * np.log(p / q)).sum())


def _magnitudes(values: TensorRange) -> tuple[Array, float]:
    """The histogram of magnitudes, `BINS` from 0 to the largest, and how wide a bin is; counts are spread evenly."""
    largest = max(abs(values.minimum), abs(values.maximum))
    borders = np.linspace(0, largest, BINS + 1)
    below = np.concatenate([[0], np.cumsum(values.counts)]).astype(np.float64)
    positive = np.interp(borders, values.edges, below)
    negative = np.interp(-borders, values.edges, below)
    counts = np.rint(np.diff(positive) - np.diff(negative))
    counts[0] -= values.zeros
    return np.maximum(counts, 0), largest / BINS
