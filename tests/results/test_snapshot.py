"""A campaign as its records are now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from int8tune.results.memory import MemoryStore
from int8tune.results.record import Outcome
from int8tune.results.snapshot import CampaignSnapshot, snapshot
from int8tune.results.summary import summarize
from tests.support.program.results_samples import LAYER, campaign, candidate, duel, estimated, failed, fill, ok

OTHER = "dense-u8s8-1x64-o10-s32"
FIRST = campaign(layers={LAYER: 4, OTHER: 1})


def seen(*entries: object) -> CampaignSnapshot:
    store = MemoryStore()
    store.append([FIRST, *entries])  # type: ignore[list-item]
    return snapshot(store, FIRST)


def test_a_campaign_without_trials() -> None:
    found = seen()
    assert (found.runs, found.tried, found.trials, found.failed) == (5, 0, 0, 0)
    assert (found.last_at, found.per_minute, found.failures, found.cost) == (None, None, (), None)


def test_a_whole_campaign_has_the_times_of_its_report() -> None:
    store = MemoryStore()
    totals = summarize(store, "resnet-night", fill(store)).totals
    stored = next(iter(store.query(type(FIRST))))
    found = snapshot(store, stored)
    assert found.cost is not None
    assert (found.trials, found.failed) == (totals.trials, totals.trials - totals.outcomes[Outcome.OK])
    assert (found.cost.runs, found.cost.default) == (totals.compared_layers, pytest.approx(totals.default_s))
    assert found.cost.confirmed == pytest.approx(totals.best_s)


def test_what_is_not_confirmed_is_told_from_what_is() -> None:
    found = seen(ok(0, 2e-3), ok(1, 1e-3))
    assert found.cost is not None
    assert (found.cost.runs, found.cost.default, found.cost.so_far, found.cost.confirmed) == (4, 8e-3, 4e-3, 8e-3)
    lost = duel(candidate(0), candidate(1), 1.0, default_s=2e-3)
    found = seen(ok(0, 2e-3), ok(1, 1e-3), lost)
    assert found.cost is not None
    assert found.cost.so_far == found.cost.confirmed == found.cost.default
    won = duel(candidate(0), candidate(1), 2.0, default_s=2e-3, noise=0)
    found = seen(ok(0, 2e-3), ok(1, 1e-3), won)
    assert found.cost is not None
    assert found.cost.so_far == found.cost.confirmed == pytest.approx(4e-3)


def test_a_layer_whose_default_failed_is_not_counted() -> None:
    found = seen(failed(0), ok(1))
    assert (found.tried, found.trials, found.failed, found.cost) == (1, 2, 1, None)


def test_estimates_are_cycles() -> None:
    found = seen(estimated(0, 3e6), estimated(1, 2e6))
    assert found.cost is not None
    assert found.cost.is_estimate
    assert (found.cost.default, found.cost.confirmed) == (12e6, 8e6)


def test_the_last_failures_and_the_pace() -> None:
    moments = ["2026-03-01T11:00:00", *(f"2026-03-01T12:00:{second:02}" for second in range(0, 60, 10)), "nonsense"]
    trials = [replace(failed(number), started_at=moment) for number, moment in enumerate(moments)]
    found = seen(*trials)
    assert [trial.sequence for trial in found.failures] == [7, 6, 5, 4, 3]
    assert found.per_minute == pytest.approx(6.0)
