"""Trials that a device measured at different clocks."""

from __future__ import annotations

import math

import pytest

from int8tune.results.drift import SHARE, relative_time
from int8tune.results.record import Measurement


def measured(times_s: tuple[float, ...], **observed: float) -> Measurement:
    return Measurement(times_s, 10, observed)


def test_a_slower_clock_slows_the_probe_as_well() -> None:
    """What took a tenth longer while the probe did, too, is nearly as fast as before; alone it would not be."""
    fast = relative_time(measured((2e-5, 2.1e-5), probe_before_s=1e-5, probe_after_s=1e-5))
    slow = relative_time(measured((2.2e-5, 2.3e-5), probe_before_s=1.1e-5, probe_after_s=1.1e-5))
    assert slow / fast == pytest.approx(1.1 ** (1 - SHARE))
    assert slow / fast < 1.02


def test_both_probes_count() -> None:
    change = measured((3e-5,), probe_before_s=1e-5, probe_after_s=2e-5)
    assert relative_time(change) == relative_time(measured((3e-5,), probe_before_s=1.5e-5, probe_after_s=1.5e-5))


def test_a_repeat_that_was_disturbed_does_not_count() -> None:
    alone = measured((2e-5, 2e-5, 2e-5), probe_before_s=1e-5)
    beside_others = measured((9e-5, 8e-5, 2e-5), probe_before_s=1e-5)
    assert relative_time(alone) == relative_time(beside_others)


@pytest.mark.parametrize("probe_s", [0.0, -1e-5, math.inf, math.nan])
def test_a_probe_that_can_not_be_is_as_good_as_none(probe_s: float) -> None:
    """Records come from boards and from files."""
    assert relative_time(measured((2e-5,), probe_before_s=probe_s)) == 2e-5
    both = measured((2e-5,), probe_before_s=probe_s, probe_after_s=1e-5)
    assert relative_time(both) == relative_time(measured((2e-5,), probe_after_s=1e-5))
    assert relative_time(measured((2e-5,))) == 2e-5
