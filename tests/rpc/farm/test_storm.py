"""A real campaign in a storm: killed, paused and cut while it runs. `make farm-storm` does it for long."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.results.record import Measurement, Outcome
from tests.storm import check, harbour_in, run_calm, weather

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(300), pytest.mark.promise(2, 6, 7, 11)]

CONFIGS = 40


def test_a_storm_changes_no_result(tmp_path: Path) -> None:
    assert weather(tmp_path, CONFIGS, [1], every_s=0.25, longest_s=1.0, limit_s=120.0) == []


@pytest.mark.timeout(1800)
def test_storms_change_no_result(tmp_path: Path) -> None:
    assert weather(tmp_path, 200, range(3), every_s=0.5, longest_s=13.0, limit_s=300.0) == []


def test_the_checker_finds_what_was_tampered_with(tmp_path: Path) -> None:
    """A trial that is gone, one that is there twice, another outcome, and times that are slow or too good."""
    configs = 16
    with harbour_in(tmp_path / "calm", configs) as harbour:
        calm = run_calm(harbour, 100.0)
    assert check("calm", calm, configs) == []
    first = next(trial for trial in calm if trial.outcome is Outcome.OK)
    assert first.measurement is not None
    slow, fast = (
        replace(first, measurement=Measurement(tuple(factor * time_s for time_s in first.measurement.times_s), 1))
        for factor in (4.0, 0.01)
    )
    failed = replace(first, outcome=Outcome.RUN_TIMEOUT, measurement=None, error="late")
    others = [trial for trial in calm if trial is not first]
    for changed in (others, [*calm, first], [*others, failed], [*others, slow], [*others, fast]):
        assert check("changed", changed, configs)
