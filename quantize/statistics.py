"""What is known of one tensor's values after some batches: first its extremes and moments, then its histogram."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.quantize.ranges import BINS, TensorRange
from int8tune.quantize.tensors import Producer

Array = npt.NDArray[Any]
# Values whose bins are found at once: they and their numbers stay in a core's cache.
_PIECE = 1 << 15
# A core adds to one counter after the other faster than twice to the same one, and many values are 0: neighbours have
# counters of their own.
_NEIGHBOURS = 2
_OFFSETS = np.arange(_PIECE, dtype=np.int32) % _NEIGHBOURS * np.int32(BINS)
# Positions of a channel whose extremes are kept apart until the end: to reduce short rows is slow.
_SHORT_ROW = 256
# The largest value falls into the last bin.
_BELOW_ONE = 1 - 2**-20
# Of ranges so narrow that a float32 can't number their bins, all values are in the first one.
_LARGEST_SCALE = 1e30


class UnsteadyError(Exception):
    """Values are not what they were in the pass before: a model that draws numbers, or has state."""


class Extremes:
    """What is known of a tensor, batch by batch: minimum and maximum of each channel, sums, what is not finite."""

    def __init__(self) -> None:
        self.shape: tuple[int, ...] = ()
        self._has_channels = True
        self.values = self.nan = self.infinite = 0
        self._sum = self._squares = 0.0
        self._minimum: Array = np.empty(0)
        self._maximum: Array = np.empty(0)

    def add(self, array: Array) -> None:
        """Take a batch [samples, channels, ...] into account."""
        self.shape = array.shape
        flat = array.reshape(-1)
        if not flat.size:
            return
        total = float(flat.sum(dtype=np.float32))
        if not np.isfinite(total):
            array, flat = self._finite(array)
            total = float(flat.sum(dtype=np.float32))
        by_channel = array.reshape(*array.shape[:2], -1) if array.ndim > 1 else array.reshape(1, -1, 1)
        axes = 0 if by_channel.shape[2] <= _SHORT_ROW else (0, 2)
        lows, highs = by_channel.min(axis=axes), by_channel.max(axis=axes)
        if not self.values:
            self._minimum, self._maximum = lows, highs
        else:
            self._minimum = self._together(np.minimum, self._minimum, lows)
            self._maximum = self._together(np.maximum, self._maximum, highs)
        self.values += flat.size
        self._sum += total
        self._squares += float(np.dot(flat, flat))

    @property
    def minimum(self) -> float:
        """The smallest finite value; 0 where there is none."""
        return float(self._minimum.min()) if self.values else 0.0

    @property
    def maximum(self) -> float:
        """The largest finite value; 0 where there is none."""
        return float(self._maximum.max()) if self.values else 0.0

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation of the finite values."""
        finite = self.values - self.nan - self.infinite
        if not finite:
            return 0.0, 0.0
        mean = self._sum / finite
        return mean, float(np.sqrt(max(0.0, self._squares / finite - mean * mean)))

    @property
    def channels(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Minimum and maximum of each channel; nothing without values or a second axis, or where axis 1 varies."""
        if not self.values or len(self.shape) < 2 or not self._has_channels:
            return (), ()
        lows, highs = _of_channels(self._minimum).min(axis=1), _of_channels(self._maximum).max(axis=1)
        return tuple(map(float, lows)), tuple(map(float, highs))

    def _together(self, extreme: np.ufunc, before: Array, now: Array) -> Array:
        """The extreme at each position; of each channel where positions differ from batch to batch; else of all."""
        if before.shape != now.shape:
            before, now = (extreme.reduce(_of_channels(each), axis=1) for each in (before, now))
        if before.shape != now.shape:
            # Axis 1 counts samples here: a last batch that is smaller has fewer.
            before, now = (extreme.reduce(each, keepdims=True) for each in (before, now))
            self._has_channels = False
        return np.asarray(extreme(before, now))

    def _finite(self, array: Array) -> tuple[Array, Array]:
        """The values with a finite one in place of each that is none, which are counted."""
        is_nan, is_infinite = np.isnan(array), np.isinf(array)
        self.nan += int(is_nan.sum())
        self.infinite += int(is_infinite.sum())
        is_finite = ~(is_nan | is_infinite)
        filling = array[is_finite][0] if is_finite.any() else np.float32(0)
        array = np.where(is_finite, array, filling)
        return array, array.reshape(-1)


class Histogram:
    """Counts of `BINS` equal parts of a tensor's range, batch by batch, and how many values are 0."""

    def __init__(self, extremes: Extremes) -> None:
        self.counts = np.zeros(BINS, np.int64)
        self.zeros = 0
        self._is_finite = not (extremes.nan or extremes.infinite)
        self._minimum = np.float32(extremes.minimum)
        span = np.float32(extremes.maximum - extremes.minimum)
        scale = BINS * _BELOW_ONE / span if span > 0 else 0.0
        self._scale = np.float32(scale if scale < _LARGEST_SCALE else 0)

    def add(self, array: Array) -> None:
        """Take a batch into account; values that are not finite are left out.

        Raises:
            UnsteadyError: a value is outside of the extremes.
        """
        flat = array.reshape(-1)
        if not self._is_finite:
            flat = flat[np.isfinite(flat)]
        most = min(flat.size, _PIECE)
        # NumPy makes whole numbers of 32 bits of floats, and long ones of these, faster than long ones at once.
        buffers = (np.empty(most, np.float32), np.empty(most, np.int32), np.empty(most, np.intp), _OFFSETS)
        for first in range(0, flat.size, _PIECE):
            piece = flat[first : first + _PIECE]
            scaled, short, bins, offsets = (each[: piece.size] for each in buffers)
            self.zeros += int(np.count_nonzero(piece == 0))
            np.subtract(piece, self._minimum, out=scaled)
            np.multiply(scaled, self._scale, out=scaled)
            with np.errstate(invalid="ignore"):
                np.copyto(short, scaled, casting="unsafe")
            # A negative number is a large one without its sign.
            if short.view(np.uint32).max() >= BINS:
                raise UnsteadyError("other values than before")
            np.add(short, offsets, out=short)
            np.copyto(bins, short)
            self.counts += np.bincount(bins, minlength=_NEIGHBOURS * BINS).reshape(_NEIGHBOURS, BINS).sum(axis=0)


def _of_channels(extremes: Array) -> Array:
    """Extremes [channels] or [channels, positions] as [channels, positions]."""
    return extremes.reshape(len(extremes), -1)


def tensor_range(name: str, producer: Producer, extremes: Extremes, histogram: Histogram) -> TensorRange:
    """Both together."""
    mean, deviation = extremes.moments
    lows, highs = extremes.channels
    return TensorRange(
        name,
        producer.operator,
        producer.node,
        extremes.shape,
        extremes.minimum,
        extremes.maximum,
        mean,
        deviation,
        lows,
        highs,
        tuple(map(int, histogram.counts)),
        extremes.values,
        histogram.zeros,
        extremes.nan,
        extremes.infinite,
    )
