"""How fast a trial was, by its times or by its estimate."""

from __future__ import annotations

from dataclasses import replace

from int8tune.results.progress import rate_of
from int8tune.results.record import Estimate, Measurement
from tests.support.program.results_samples import failed, ok


def test_the_rate_is_that_of_the_median() -> None:
    trial = replace(ok(0), measurement=Measurement((1e-3, 4e-3, 2e-3), 1))
    assert rate_of(trial, 1_000_000) == 1e9


def test_estimates_are_by_the_cycle_and_failures_have_none() -> None:
    assert rate_of(replace(ok(0), measurement=None, estimate=Estimate(5e5)), 1_000_000) == 4
    assert rate_of(failed(0), 1_000_000) is None
