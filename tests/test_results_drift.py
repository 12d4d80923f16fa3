"""Trials that a device measured at different clocks."""

from __future__ import annotations

import math

import pytest

from results.drift import relative_time
from results.record import Measurement


def measured(times_s: tuple[float, ...], **observed: float) -> Measurement:
    return Measurement(times_s, 10, observed)


def test_a_slower_clock_slows_the_probe_as_well() -> None:
    fast = measured((2e-5, 2.1e-5), probe_before_s=1e-5, probe_after_s=1e-5)
    slow = measured((2.2e-5, 2.3e-5), probe_before_s=1.1e-5, probe_after_s=1.1e-5)
    assert relative_time(fast) == pytest.approx(2.0)
    assert relative_time(slow) == pytest.approx(2.0)


def test_a_clock_that_changes_meanwhile_counts_by_half() -> None:
    assert relative_time(measured((3e-5,), probe_before_s=1e-5, probe_after_s=2e-5)) == pytest.approx(2.0)


def test_a_repeat_that_was_disturbed_does_not_count() -> None:
    alone = measured((2e-5, 2e-5, 2e-5), probe_before_s=1e-5)
    beside_others = measured((9e-5, 8e-5, 2e-5), probe_before_s=1e-5)
    assert relative_time(alone) == relative_time(beside_others)


@pytest.mark.parametrize("probe_s", [0.0, -1e-5, math.inf, math.nan])
def test_a_probe_that_can_not_be_is_as_good_as_none(probe_s: float) -> None:
    """Records come from boards and from files."""
    assert relative_time(measured((2e-5,), probe_before_s=probe_s)) == 2e-5
    assert relative_time(measured((2e-5,), probe_before_s=probe_s, probe_after_s=1e-5)) == pytest.approx(2.0)
    assert relative_time(measured((2e-5,))) == 2e-5
