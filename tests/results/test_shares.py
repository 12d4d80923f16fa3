"""Intervals of shares, and the paired test of two models."""

from __future__ import annotations

import numpy as np
import pytest

from int8tune.results.shares import PairedTest, Share, in_top, paired_test, share_of


def test_wilsons_interval() -> None:
    """Values of statsmodels' `proportion_confint(8, 10, method="wilson")` and for 0 of 20."""
    some, none = Share(8, 10), Share(0, 20)
    assert (some.low, some.high) == pytest.approx((0.49016, 0.94332), abs=1e-5)
    assert (none.low, none.high) == pytest.approx((0.0, 0.16113), abs=1e-5)
    assert some.half_width == pytest.approx((some.high - some.low) / 2)


def test_mcnemars_exact_test() -> None:
    """SciPy's `binomtest(3, 13).pvalue` is 0.0923; a great many samples are no overflow."""
    assert PairedTest(3, 10).p_value == pytest.approx(0.09228515625)
    assert PairedTest(10, 3).p_value == PairedTest(3, 10).p_value
    assert PairedTest(0, 0).p_value == PairedTest(4, 4).p_value == 1.0
    assert 0 < PairedTest(2000, 2200).p_value < 0.01
    first, second = np.array([True, True, False, False]), np.array([True, False, True, True])
    assert paired_test(first, second) == PairedTest(1, 2)


def test_top_answers_are_those_of_argmax_where_values_are_equal() -> None:
    rng = np.random.default_rng(0)
    outputs, labels = rng.integers(0, 4, (200, 6)).astype(np.int8), rng.integers(0, 6, 200)
    assert (in_top(outputs, labels, 1) == (outputs.argmax(axis=1) == labels)).all()
    order = np.argsort(-outputs.astype(int), axis=1, kind="stable")
    assert (in_top(outputs, labels, 3) == (order[:, :3] == labels[:, None]).any(axis=1)).all()
    assert share_of(in_top(outputs, labels, 6)) == Share(200, 200)
