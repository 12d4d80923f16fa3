"""Times of trials that were measured minutes apart, made comparable.

A core's clock differs by several percent from one second to the next: with its heat, with what its neighbours do. The
probe, a loop of known work that is timed just before and after each trial, ran at the same clock as the trial.
"""

from __future__ import annotations

import math

from int8tune.results.record import Measurement, Trial

PROBES = ("probe_before_s", "probe_after_s")
# The exponent of the probe's time. All of it, 1, would add the probe's own noise to the kernel's (regression dilution):
# of 0, 0.5, 0.8, 0.9 and 1, this one made campaigns agree best, with and without another busy process beside them.
SHARE = 0.8


def relative_time(measurement: Measurement) -> float:
    """What a call takes beside what the probe took; in seconds where the probe was not timed.

    By the fastest repeat: others may have taken the core for a moment, nobody lends more than there is. It compares
    trials of one device and cache mode; what is told to people are medians in seconds.
    """
    seen = [measurement.observed.get(name, math.nan) for name in PROBES]
    probes_s = [probe_s for probe_s in seen if 0 < probe_s < math.inf]
    fastest_s = min(measurement.times_s)
    return fastest_s / (sum(probes_s) / len(probes_s)) ** SHARE if probes_s else fastest_s


def cost(trial: Trial) -> float:
    """What orders the exact trials of a task, the lower the better; all of a device are measured, or all estimated."""
    if trial.estimate is not None:
        return trial.estimate.cycles
    assert trial.measurement is not None
    return relative_time(trial.measurement)


def fastest_first(trial: Trial) -> tuple[float, int]:
    """The key that sorts exact trials of a task; of equal ones, such as twins of one binary, the first tried leads."""
    return cost(trial), trial.sequence
