"""How fast measured configs are."""

from __future__ import annotations

from int8tune.results.record import Candidate, Estimate, Outcome, Trial
from int8tune.tuner.cost_model.speeds import fastest_of, speed_of


def trial(outcome: Outcome, estimate: Estimate | None) -> Trial:
    candidate = Candidate("dense-u8s8-1x64-o64-float.c-u8", "arm-neon", "arm.conv", 1, {})
    return Trial("c", 0, candidate, outcome, None, "a53", {}, "2026-01-01T00:00:00Z", estimate=estimate)


def test_a_speed_is_one_over_the_cost() -> None:
    assert speed_of(trial(Outcome.OK, Estimate(4.0))) == 0.25


def test_what_failed_has_no_speed() -> None:
    assert speed_of(trial(Outcome.WRONG_ANSWER, None)) == 0.0


def test_the_fastest_come_first_and_failures_not_at_all() -> None:
    assert fastest_of({7: 1.0, 3: 2.0, 2: 0.0, 5: 1.0}) == [3, 5, 7]
