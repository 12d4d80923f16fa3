"""Medians, spreads and the interval of a speedup."""

from __future__ import annotations

import math

import numpy as np
import pytest

from int8tune.results.errors import RecordError
from int8tune.results.stats import (
    MIN_PAIRS,
    RESAMPLES,
    Speedup,
    is_settled,
    is_win,
    median,
    median_time,
    ratio_interval,
    spread,
)


def test_median_and_spread() -> None:
    assert median((3.0, 1.0, 2.0)) == 2.0
    assert median((1.0, 2.0)) == 1.5
    assert spread((2.0, 2.0, 2.0)) == 0.0
    assert spread((1.0, 2.0, 3.0, 4.0, 5.0)) == pytest.approx(2 / 3)
    for statistic in (median, spread):
        with pytest.raises(RecordError, match="at least one time"):
            statistic(())


def test_a_spread_is_that_of_numpys_quantiles() -> None:
    rng = np.random.default_rng(1)
    for count in (*range(1, 60), 2000) * 20:
        times_s = rng.gamma(2, 1e-3, count)
        first, middle, third = np.quantile(times_s, (0.25, 0.5, 0.75))
        assert spread(times_s.tolist()) == (third - first) / middle


def test_a_speedup_is_baseline_over_candidate() -> None:
    baseline = [2.0, 2.2, 2.1, 2.4, 2.0, 2.3]
    half = [time_s / 2 for time_s in baseline]
    assert ratio_interval(baseline, half) == Speedup(2.0, 2.0, 2.0)
    assert ratio_interval(half, baseline) == Speedup(0.5, 0.5, 0.5)


def test_pairs_cancel_what_slows_the_device_down() -> None:
    rng = np.random.default_rng(1)
    drift = np.linspace(1.0, 3.0, 30)
    a_times_s = drift * np.exp(rng.normal(0, 0.005, 30))
    b_times_s = drift / 1.05 * np.exp(rng.normal(0, 0.005, 30))
    found = ratio_interval(a_times_s.tolist(), b_times_s.tolist())
    assert 1.04 < found.low < 1.05 < found.high < 1.06


def test_equal_input_gives_an_equal_interval() -> None:
    rng = np.random.default_rng(4)
    a_times_s, b_times_s = rng.uniform(1, 2, (2, 60)).tolist()
    assert ratio_interval(a_times_s, b_times_s) == ratio_interval(a_times_s, b_times_s)
    assert ratio_interval(a_times_s, b_times_s, seed=1) != ratio_interval(a_times_s, b_times_s, seed=2)


def test_more_confidence_needs_a_wider_interval() -> None:
    rng = np.random.default_rng(4)
    a_times_s, b_times_s = rng.uniform(1, 2, (2, 25)).tolist()
    narrow, wide = (ratio_interval(a_times_s, b_times_s, confidence) for confidence in (0.5, 0.99))
    assert wide.low < narrow.low <= narrow.estimate <= narrow.high < wide.high


@pytest.mark.parametrize("pairs", [MIN_PAIRS, 10, 20, 40])
def test_equal_kernels_seldom_win(pairs: int) -> None:
    """The one-sided error is 2.5 % in theory; the bootstrap of few pairs is somewhat bolder."""
    rng = np.random.default_rng(pairs)
    wins = 0
    for _ in range(300):
        a_times_s, b_times_s = np.exp(rng.normal(0, 0.03, (2, pairs))).tolist()
        wins += is_win(ratio_interval(a_times_s, b_times_s))
    assert wins / 300 <= 0.06


def test_a_real_gain_wins() -> None:
    rng = np.random.default_rng(0)
    wins = 0
    for _ in range(100):
        noise = np.exp(rng.normal(0, 0.02, (2, 20)))
        wins += is_win(ratio_interval((1.06 * noise[0]).tolist(), noise[1].tolist()))
    assert wins >= 98


def test_too_few_pairs_say_nothing() -> None:
    with pytest.raises(RecordError, match="an interval needs at least 5 pairs of times: 4 and 4"):
        ratio_interval([2.0] * 4, [1.0] * 4)
    with pytest.raises(RecordError, match="at least 5 pairs of times: 6 and 5"):
        ratio_interval([2.0] * 6, [1.0] * 5)


def test_a_win_needs_certainty_and_size() -> None:
    assert is_win(Speedup(1.02, 1.01, 1.03))
    assert not is_win(Speedup(1.02, 0.99, 1.05))
    assert not is_win(Speedup(1.02, 1.0, 1.05))
    assert not is_win(Speedup(1.005, 1.004, 1.006))
    assert is_win(Speedup(1.005, 1.004, 1.006), min_gain=0.0)
    assert not is_win(Speedup(1.02, 1.01, 1.03), min_gain=0.05)


@pytest.mark.parametrize(
    "values", [(1.0, 1.1, 1.2), (1.0, 0.9, 0.95), (1.0, 0.0, 2.0), (1.0, 1.0, math.inf), (math.nan,) * 3]
)
def test_a_speedup_that_contradicts_itself_is_refused(values: tuple[float, float, float]) -> None:
    with pytest.raises(RecordError, match="0 < low <= estimate <= high"):
        Speedup(*values)


def test_a_clear_order_is_settled_either_way_and_a_close_one_is_not() -> None:
    slow, fast = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 1.01], [0.9] * 8
    assert is_settled(slow, fast)
    assert is_settled(fast, slow)
    assert is_settled(slow, slow)
    close = [0.99 * time_s for time_s in reversed(slow)]
    assert not is_settled(slow, close)
    assert not is_settled(slow[:4], fast[:4])


@pytest.mark.thorough
def test_looking_often_hardly_ever_makes_equal_kernels_win() -> None:
    """Timing that ends when the order looks settled must not turn chance into wins."""
    rng = np.random.default_rng(7)
    wins = 0
    for _ in range(300):
        a_times_s, b_times_s = np.exp(rng.normal(0, 0.03, (2, 20))).tolist()
        looks = (n for n in (8, 12, 16) if is_settled(a_times_s[:n], b_times_s[:n]))
        pairs = next(looks, 20)
        wins += is_win(ratio_interval(a_times_s[:pairs], b_times_s[:pairs]))
    assert wins / 300 <= 0.06


def test_a_median_has_the_interval_of_its_ratio_to_a_second() -> None:
    times_s = [2.0, 2.2, 2.1, 2.4, 2.0, 2.3]
    found, ratio = median_time(times_s), ratio_interval(times_s, [1.0] * 6)
    assert (found.estimate_s, found.low_s, found.high_s) == (ratio.estimate, ratio.low, ratio.high)
    assert found.low_s < found.estimate_s < found.high_s
    with pytest.raises(RecordError, match="at least 5 times: 4"):
        median_time(times_s[:4])


@pytest.mark.parametrize("count", [5, 6, 7, 16, 17, 40, 101])
@pytest.mark.parametrize("has_ties", [False, True])
def test_an_interval_is_that_of_the_resamples_medians(count: int, has_ties: bool) -> None:
    """As the method is written down: medians of values that are drawn with replacement, bit for bit."""
    rng = np.random.default_rng(count)
    values = np.round(rng.gamma(2, 2, count), 1) + 0.1 if has_ties else rng.gamma(1, 1, count)
    drawn = np.random.default_rng(3).integers(0, count, size=(RESAMPLES, count))
    low, high = np.quantile(np.median(values[drawn], axis=1), (0.025, 0.975))
    found = median_time(values.tolist(), seed=3)
    middle = float(np.median(values))
    assert (found.low_s, found.estimate_s, found.high_s) == (min(low, middle), middle, max(high, middle))
