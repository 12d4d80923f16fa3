"""What a machine does to times between two sessions, and how sure a ratio of times from both is.

Repeats within one session don't show it: a clock that is slower that day, memory that lies elsewhere. So it is learned
from what both sides timed that is the same: the same binaries, or else the probe, a loop of known work.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from int8tune.results.comparison.side import LayerTime, Side
from int8tune.results.stats import MIN_PAIRS, Speedup, median_time, ratio_interval

# Fewer pairs of the same kernels say too little of how far sessions are apart.
LEAST_CONTROLS = 5
# Where nothing says how far two sessions are apart, as a standard deviation of the logarithm: 5 % of each. On one day,
# campaigns on one virtual machine measured peaks of 865 to 1,086 GOP/s (docs/measurements.md).
UNKNOWN_ERROR = 0.05 * math.sqrt(2)
# The same of a kernel's time over that of another one beside it, which a slower clock does not change.
UNKNOWN_GAIN_ERROR = 0.01
# Of what the probe, a loop in registers, is slower, memory is not: the standard deviation of that part.
NOT_OF_THE_CLOCK = 0.2
# Of a normal distribution; and how much more a median varies than a mean, as a variance.
_EXCESS_OF_MEDIAN = math.pi / 2
_DEVIATIONS_OF_MAD = 1.4826
_DEVIATIONS_OF_95 = 1.959964
_WHOLE = 0.95
# Degrees of freedom; and how often the interval of a quantile is halved.
_AS_GOOD_AS_NORMAL, _HALVINGS = 1000, 60


@dataclass(frozen=True, slots=True)
class Spread:
    """How far two sessions are apart.

    Attributes:
        shift: logarithm of A's time over B's, of the same work.
        error: standard deviation of that, from kernel to kernel.
        shared: standard deviation of the shift itself, which all layers share.
        count: of the pairs that it comes from; 0 where it is assumed.
    """

    shift: float = 0.0
    error: float = 0.0
    shared: float = 0.0
    count: int = 0


@dataclass(frozen=True, slots=True)
class LogRatio:
    """The logarithm of A's time over B's.

    Attributes:
        error: standard deviation, of this layer alone.
        shared: standard deviation of what it has in common with other layers.
        freedom: degrees of freedom of these deviations.
        reference: the kernel that both were timed in turn with; empty where there is none.
    """

    value: float
    error: float
    shared: float = 0.0
    freedom: float = math.inf
    reference: str = ""

    def interval(self, confidence: float) -> Speedup:
        """The ratio, with an interval."""
        error = math.hypot(self.error, self.shared)
        half = student_quantile((1 + confidence) / 2, self.freedom) * error if error else 0.0
        return Speedup(math.exp(self.value), math.exp(self.value - half), math.exp(self.value + half))


def spread_of(a: Mapping[str, float], b: Mapping[str, float]) -> Spread | None:
    """By what has the same name; None where that is too little to tell."""
    pairs = [math.log(a[name] / b[name]) for name in a.keys() & b.keys()]
    if len(pairs) < LEAST_CONTROLS:
        return None
    shift = float(np.median(pairs))
    error = _DEVIATIONS_OF_MAD * float(np.median(np.abs(np.asarray(pairs) - shift)))
    return Spread(shift, error, error * math.sqrt(_EXCESS_OF_MEDIAN / len(pairs)), len(pairs))


def spread_of_probes(a: Side, b: Side) -> Spread | None:
    """By the probes' medians, and how far each side's own are apart; None where they are other loops, or too few."""
    count = min(len(a.probe_s), len(b.probe_s))
    if count < LEAST_CONTROLS or a.environment.get("int8tune") != b.environment.get("int8tune"):
        return None
    logs = [np.log(np.asarray(side.probe_s)) for side in (a, b)]
    medians = [float(np.median(values)) for values in logs]
    errors = [
        _DEVIATIONS_OF_MAD * float(np.median(np.abs(values - middle)))
        for values, middle in zip(logs, medians, strict=True)
    ]
    shift, error = medians[0] - medians[1], math.hypot(*errors)
    of_medians = error * math.sqrt(_EXCESS_OF_MEDIAN / count)
    return Spread(shift, error, math.hypot(of_medians, NOT_OF_THE_CLOCK * shift), count)


def ratio_of(a: LayerTime, b: LayerTime, machine: Spread, beside: Spread) -> LogRatio:
    """A layer's time on side A over that on side B.

    Args:
        machine: how far times are apart; `beside`, how far those over a reference's are.
    """
    common = [name for name in a.references if name in b.references]
    if common and (by_reference := _by_reference(a, b, common[0], beside)):
        return by_reference
    error = math.hypot(median_error(a), median_error(b), machine.error)
    return LogRatio(math.log(a.time / b.time) - machine.shift, error, machine.shared, _freedom(machine.count))


def median_error(layer: LayerTime) -> float:
    """Standard deviation of the logarithm of a median, by its own repeats; 0 where only the median is known."""
    if layer.error is not None:
        return layer.error
    if len(layer.times_s) < MIN_PAIRS:  # all that can be said is that they were so far apart
        return math.log(max(layer.times_s) / min(layer.times_s)) / _DEVIATIONS_OF_95 if layer.times_s else 0.0
    found = median_time(layer.times_s)
    return math.log(found.high_s / found.low_s) / (2 * _DEVIATIONS_OF_95)


def student_quantile(probability: float, freedom: float) -> float:
    """A quantile over 0.5 of Student's distribution; degrees of freedom are rounded down."""
    if freedom > _AS_GOOD_AS_NORMAL:
        return NormalDist().inv_cdf(probability)
    low, high = 0.0, 1.0
    while _student_cdf(high, int(freedom)) < probability:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_cdf(middle, int(freedom)) < probability else (low, middle)
    return high


def _student_cdf(value: float, freedom: int) -> float:
    """Student's distribution function of a positive value, exact.

    Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 1964, 26.7.3 and 4.
    """
    angle = math.atan(value / math.sqrt(freedom))
    is_odd = freedom % 2
    term, total = (math.cos(angle) if is_odd else 1.0), 0.0
    for power in range(2 + is_odd, freedom + 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (power - 1) / power
    inside = 2 / math.pi * (angle + math.sin(angle) * total) if is_odd else math.sin(angle) * total
    return (1 + inside) / 2


def family_confidence(count: int, confidence: float = _WHOLE) -> float:
    """That of each of so many intervals of which all are to hold (Bonferroni)."""
    return 1 - (1 - confidence) / max(count, 1)


def _by_reference(a: LayerTime, b: LayerTime, name: str, beside: Spread) -> LogRatio | None:
    """Both times over that of one kernel, each beside it: what slowed the machine down cancels out."""
    gains = [_gain(layer.references[name], layer.times_s) for layer in (a, b)]
    if gains[0] is None or gains[1] is None:
        return None
    error = math.hypot(gains[0][1], gains[1][1], beside.error)
    return LogRatio(gains[1][0] - gains[0][0], error, 0.0, _freedom(beside.count), name)


def _gain(reference_s: Sequence[float], times_s: Sequence[float]) -> tuple[float, float] | None:
    """The logarithm of a reference's time over a kernel's, and its standard deviation."""
    if len(times_s) < MIN_PAIRS or len(times_s) != len(reference_s):
        return None
    found = ratio_interval(reference_s, times_s)
    return math.log(found.estimate), math.log(found.high / found.low) / (2 * _DEVIATIONS_OF_95)


def _freedom(count: int) -> float:
    """A median of deviations from a median tells as much as a third of its values (efficiency 0.37)."""
    return max(2.0, 0.37 * (count - 1)) if count else math.inf
