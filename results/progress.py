"""How fast a trial was."""

from __future__ import annotations

from int8tune.results.record import Trial
from int8tune.results.stats import median


def rate_of(trial: Trial, macs: int) -> float | None:
    """Operations per second, or per cycle where these are estimated; None of a trial that failed."""
    if trial.measurement is not None:
        return 2 * macs / median(trial.measurement.times_s)
    return 2 * macs / trial.estimate.cycles if trial.estimate is not None else None
