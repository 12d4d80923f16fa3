"""Trials that were verified but not timed: a model's estimate stands in their place, and is never mixed with times."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.results.analysis.campaign import analyze
from int8tune.results.analysis.roofline import LayerSize
from int8tune.results.base import Store
from int8tune.results.best import best_schedules
from int8tune.results.best_log import read_best_log, write_best_log
from int8tune.results.contest import contests
from int8tune.results.errors import BestLogError, RecordError
from int8tune.results.memory import MemoryStore
from int8tune.results.record import Entry, Estimate, Outcome, Trial
from int8tune.results.report.html import render_html
from int8tune.results.report.text import as_dict, render_table
from int8tune.results.stats import Speedup
from int8tune.results.store import SqliteStore
from int8tune.results.summary import CampaignSummary, Verdict, summarize
from tests.support.program.results_samples import (
    DEVICE,
    LAYER,
    MODEL,
    TARGET,
    campaign,
    candidate,
    estimated,
    failed,
    ok,
)

MACS = 1_000_000


def store_of(*entries: Entry) -> Store:
    store = MemoryStore()
    store.append([campaign(), *entries])
    return store


def summary_of(store: Store) -> CampaignSummary:
    return summarize(store, "c1", {LAYER: MACS})


@pytest.mark.parametrize("cycles", [0.0, -1.0, float("inf"), float("nan")])
def test_cycles_are_a_number_over_0(cycles: float) -> None:
    with pytest.raises(RecordError, match="finite and positive"):
        Estimate(cycles)


def test_a_trial_is_measured_or_estimated() -> None:
    with pytest.raises(RecordError, match="times, or else an estimate"):
        replace(ok(0), estimate=Estimate(1e6))
    with pytest.raises(RecordError, match="times, or else an estimate"):
        replace(failed(0), estimate=Estimate(1e6))
    with pytest.raises(RecordError, match="times, or else an estimate"):
        replace(estimated(0), estimate=None)


def test_a_store_keeps_estimates(tmp_path: Path) -> None:
    entries = [estimated(0), failed(1), estimated(2, 1234567.5)]
    with SqliteStore(tmp_path / "r.db") as store:
        store.append([campaign(), *entries])
    with SqliteStore(tmp_path / "r.db", readonly=True) as store:
        assert list(store.query(Trial)) == entries


def test_the_lowest_estimate_wins_without_duels() -> None:
    store = store_of(estimated(0, 2e6), estimated(1, 1e6), estimated(2, 3e6))
    (contest,) = contests(store)
    winner = contest.winner(0.01)
    assert winner is not None
    assert (winner.trial.sequence, winner.speedup, winner.times_s) == (1, Speedup(2.0, 2.0, 2.0), ())
    row = summary_of(store).layers[0]
    assert row.verdict is Verdict.FASTER


def test_a_gain_that_does_not_matter_leaves_the_default() -> None:
    store = store_of(estimated(0, 2e6), estimated(1, 1.99e6))
    (best,) = best_schedules(store)
    assert best.is_default
    row = summary_of(store).layers[0]
    assert (row.verdict, row.speedup) == (Verdict.DEFAULT, None)


def test_where_the_default_failed_the_lowest_estimate_is_best() -> None:
    (best,) = best_schedules(store_of(failed(0), estimated(1, 2e6), estimated(2, 1e6)))
    assert (best.sequence, best.estimated_cycles, best.median_s, best.speedup) == (2, 1e6, None, None)


def test_what_was_measured_goes_before_what_was_estimated() -> None:
    """Whatever came first, and whichever of them proved a gain."""
    measured = [ok(0, name="m")]
    guesses = [estimated(0, 2e6), estimated(1, 1e6)]
    for first, second in ((measured, guesses), (guesses, measured)):
        store = MemoryStore()
        store.append([campaign("m"), campaign("c1"), *first, *second])
        (best,) = best_schedules(store)
        assert (best.campaign, best.median_s, best.estimated_cycles) == ("m", 1e-3, None)


def test_a_best_log_says_what_is_an_estimate(tmp_path: Path) -> None:
    store = store_of(estimated(0, 2e6), estimated(1, 1e6))
    write_best_log(tmp_path / "best.jsonl", best_schedules(store))
    line = json.loads((tmp_path / "best.jsonl").read_text().splitlines()[1])
    assert line["estimated_cycles"] == 1e6
    assert "median_s" not in line
    assert read_best_log(tmp_path / "best.jsonl") == best_schedules(store)


@pytest.mark.parametrize("cycles", [0, -1, True, "many", None])
def test_a_best_log_with_a_bad_estimate_is_refused(tmp_path: Path, cycles: object) -> None:
    path = tmp_path / "best.jsonl"
    write_best_log(path, best_schedules(store_of(estimated(0))))
    header, line = path.read_text().splitlines()
    path.write_text(f"{header}\n{json.dumps(json.loads(line) | {'estimated_cycles': cycles})}\n")
    with pytest.raises(BestLogError, match=r"estimated_cycles: must be cycles, a finite number over 0: "):
        read_best_log(path)


def test_a_line_is_not_both(tmp_path: Path) -> None:
    path = tmp_path / "best.jsonl"
    write_best_log(path, best_schedules(store_of(estimated(0))))
    header, line = path.read_text().splitlines()
    path.write_text(f"{header}\n{json.dumps(json.loads(line) | {'median_s': 1e-3})}\n")
    with pytest.raises(BestLogError, match="median_s: unknown field"):
        read_best_log(path)


def test_a_table_says_that_nothing_was_measured() -> None:
    summary = summary_of(store_of(estimated(0, 2e6), estimated(1, 1e6), failed(2)))
    assert summary.estimated_by == MODEL
    text = render_table(summary)
    head = " ".join(text.split("\n\n")[0].split())
    assert head == (
        f"c1: resnet18 on {DEVICE} ({TARGET}), exact there, but not measured: thousands of cycles as estimated by "
        + MODEL
    )
    assert "GOP/s" not in text
    assert "peak" not in text
    (row,) = [line for line in text.splitlines() if line.startswith("  1 ")]
    assert row.split()[4:9] == ["4", "2,000", "1,000", "2.00", "2.00"]
    assert "in duels" not in text
    assert "network  8,000 thousand cycles by default, 4,000 thousand cycles with the best: 2.00 times faster" in text


def test_json_has_cycles_in_place_of_times() -> None:
    found = as_dict(summary_of(store_of(estimated(0, 2e6), estimated(1, 1e6))))
    assert found["estimated_by"] == MODEL
    best = found["layers"][0]["best"]
    assert (best["median_s"], best["ops_per_s"], best["estimated_cycles"], best["ops_per_cycle"]) == (
        None,
        None,
        1e6,
        2,
    )
    totals = found["totals"]
    assert (totals["default_s"], totals["default_cycles"], totals["best_cycles"]) == (0, 8e6, 4e6)


def test_a_page_says_that_nothing_was_measured() -> None:
    store = store_of(estimated(0, 2e6), estimated(1, 1e6), failed(2))
    page = render_html(analyze(store, "c1", {LAYER: LayerSize(MACS, 1000, 100)}))
    assert f"as estimated by {MODEL}, 8,000 kilocycles by default" in page
    assert '<dd class="figure">4,000 kilocycles</dd>' in page
    assert "2,000 &rarr; 1,000 kilocycles, 2.00" in page
    for word in ("GOP/s", "µs", "Peak", "repeats", "in duels"):
        assert word not in page


def test_what_failed_is_no_estimate() -> None:
    summary = summary_of(store_of(failed(0, Outcome.WRONG_ANSWER, chosen=candidate(0)), estimated(1)))
    assert summary.layers[0].verdict is Verdict.DEFAULT_FAILED
