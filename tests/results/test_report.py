"""The summary of a campaign, and how it is drawn."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from int8tune.results.base import Store
from int8tune.results.errors import StoreError
from int8tune.results.label import layer_label
from int8tune.results.memory import MemoryStore
from int8tune.results.record import Outcome, Trial
from int8tune.results.report.format import factor, giga, interval, microseconds, milliseconds, percent
from int8tune.results.report.text import as_dict, render_table
from int8tune.results.stats import Speedup
from int8tune.results.store import SqliteStore
from int8tune.results.summary import CampaignSummary, Verdict, summarize
from tests.support.program.results_samples import (
    DEVICE,
    ENVIRONMENT,
    LAYER,
    TARGET,
    at,
    campaign,
    candidate,
    check,
    duel,
    failed,
    fill,
    ok,
    sample_layers,
)

OTHER = "dense-u8s8-1x64-o10-s32"
MACS = {LAYER: 1_000_000, OTHER: 640}


@pytest.fixture
def store() -> Store:
    return MemoryStore()


@pytest.fixture(scope="module")
def whole() -> CampaignSummary:
    """The sample campaign's summary."""
    store = MemoryStore()
    macs = fill(store)
    return summarize(store, "resnet-night", macs)


def test_a_row_says_what_was_measured_and_where_it_is_from(store: Store) -> None:
    store.append([campaign(layers={LAYER: 4}), check(1e12), ok(0, 1e-5), ok(1, 5e-6), failed(2)])
    store.append([duel(candidate(0), candidate(1), 1.9, default_s=2e-5, noise=0)])
    (row,) = summarize(store, "c1", MACS).layers
    assert (row.workload, row.label, row.count) == (LAYER, "conv2d 3x3 56x56x64->64", 4)
    assert row.default is not None
    assert row.best is not None
    assert (row.default.candidate, row.default.sequence) == (candidate(0), 0)
    assert (row.best.candidate, row.best.sequence) == (candidate(1), 1)
    # The times are those of the duel, which were taken in one session, not those of the trials.
    assert row.default.median_s == pytest.approx(2e-5)
    assert row.best.median_s == pytest.approx(2e-5 / 1.9)
    assert row.default.ops_per_s == pytest.approx(1e11)
    assert row.default.peak_share == pytest.approx(0.1)
    assert row.best.peak_share == pytest.approx(0.19)
    assert row.best.repeats == 20
    assert row.speedup is not None
    assert row.speedup.estimate == pytest.approx(1.9, rel=0.01)
    assert row.verdict is Verdict.FASTER
    assert not row.is_noise
    assert row.outcomes == {Outcome.OK: 2, Outcome.BUILD_FAILED: 1}
    assert row.trials == 3


@pytest.mark.parametrize(
    ("entries", "verdict", "best"),
    [
        ([ok(0), ok(1, 5e-4), duel(candidate(0), candidate(1), 1.5)], Verdict.FASTER, 1),
        ([ok(0), ok(1, 5e-4), duel(candidate(0), candidate(1), 0.98, noise=0.09)], Verdict.NOISE, 0),
        ([ok(0), ok(1, 5e-4), duel(candidate(0), candidate(1), 0.9, noise=0.001)], Verdict.DEFAULT, 0),
        ([ok(0), ok(1, 9.95e-4)], Verdict.DEFAULT, 0),
        ([ok(0), ok(1, 2e-3)], Verdict.DEFAULT, 0),
        ([ok(0), ok(1, 5e-4)], Verdict.NOT_COMPARED, 0),
        ([ok(0), ok(1, 5e-4), duel(candidate(0), candidate(1), 1.5, pairs=3)], Verdict.NOT_COMPARED, 0),
        ([failed(0), ok(1, 5e-4), ok(2, 4e-4)], Verdict.DEFAULT_FAILED, 2),
        ([failed(0), failed(1)], Verdict.NOTHING, None),
        ([], Verdict.NOTHING, None),
    ],
)
def test_verdicts(store: Store, entries: list[Any], verdict: Verdict, best: int | None) -> None:
    store.append([campaign(), *entries])
    (row,) = summarize(store, "c1", MACS).layers
    assert row.verdict is verdict
    assert (row.best.sequence if row.best else None) == best
    assert row.is_noise == (verdict is Verdict.NOISE)
    assert (row.speedup is not None) == (verdict in (Verdict.FASTER, Verdict.NOISE))


def test_totals_weigh_layers_by_their_runs(store: Store) -> None:
    other = [candidate(tile, OTHER) for tile in (0, 1)]
    store.append([campaign(layers={LAYER: 4, OTHER: 2, "dense-u8s8-1x8-o8-s32": 3})])
    won = duel(candidate(0), candidate(1), 3.0, default_s=3e-3, noise=0)
    last = replace(ok(2, 1e-3, chosen=other[0]), started_at=at(2))
    store.append([ok(0, 3e-3), ok(1, 1e-3), won, last])
    totals = summarize(store, "c1", MACS).totals
    assert (totals.layers, totals.compared_layers) == (9, 6)
    assert totals.default_s == pytest.approx(4 * 3e-3 + 2 * 1e-3)
    assert totals.best_s == pytest.approx(4 * 1e-3 + 2 * 1e-3)
    assert totals.speedup == pytest.approx(14 / 6)
    assert totals.trials == 3
    assert totals.trials_per_s == pytest.approx(3 / 2)


def test_an_empty_campaign_has_a_summary(store: Store) -> None:
    store.append([campaign()])
    summary = summarize(store, "c1", {})
    assert (summary.check, summary.environments, summary.failures) == (None, (), ())
    assert (summary.totals.speedup, summary.totals.trials_per_s) == (None, None)
    assert "none" in render_table(summary)


def test_a_layer_of_unknown_size_has_times_and_no_rates(store: Store) -> None:
    store.append([campaign(), check(), ok(0)])
    (row,) = summarize(store, "c1", {}).layers
    assert row.best is not None
    assert (row.best.ops_per_s, row.best.peak_share) == (None, None)


def test_the_latest_check_of_the_device_and_target_is_the_peak(store: Store) -> None:
    store.append([check(1e12), check(2e12), check(3e12, device="pi3"), check(4e12, target="a53"), campaign()])
    found = summarize(store, "c1", {}).check
    assert found is not None
    assert (found.peak_ops_per_s, found.device, found.target) == (2e12, DEVICE, TARGET)


def test_failures_are_grouped_with_the_first_as_example(store: Store) -> None:
    store.append([campaign(), failed(0), failed(1, Outcome.RUN_FAILED, "Signal", "first"), ok(2)])
    store.append([failed(3, Outcome.RUN_FAILED, "Signal", "second"), failed(4, Outcome.RUN_TIMEOUT, "Signal", "late")])
    found = [
        (group.outcome.value, group.count, group.example.sequence) for group in summarize(store, "c1", {}).failures
    ]
    assert found == [("run_failed", 2, 1), ("build_failed", 1, 0), ("run_timeout", 1, 4)]


def test_kernels_that_the_compiler_calls_slow_are_counted(store: Store) -> None:
    slow = [ok(place) for place in range(3)]
    for place in (0, 2):
        assert slow[place].measurement
        measurement = replace(slow[place].measurement, observed={"advice_C7515": 2.0, "load_1min": 0.5})
        slow[place] = replace(slow[place], measurement=measurement)
    store.append([campaign(), *slow])
    summary = summarize(store, "c1", {})
    assert summary.advised == {"C7515": 2}
    assert as_dict(summary)["advised"] == {"C7515": 2}
    assert "\ncompiler NVIDIA's says that kernels are slow: 2 with C7515\n" in render_table(summary)


def test_a_changed_environment_is_noticed(store: Store) -> None:
    store.append([campaign(), ok(0), ok(1), replace(ok(2), environment=ENVIRONMENT | {"governor": "powersave"})])
    summary = summarize(store, "c1", MACS)
    assert [environment["governor"] for environment in summary.environments] == ["performance", "powersave"]


def test_an_unknown_campaign_is_named(store: Store) -> None:
    with pytest.raises(StoreError, match="no such campaign in the store: c9"):
        summarize(store, "c9", {})


def test_a_file_gives_the_summary_that_memory_gives(tmp_path: Path) -> None:
    memory = MemoryStore()
    macs = fill(memory, trials_per_layer=6)
    with SqliteStore(tmp_path / "r.db") as file:
        fill(file, trials_per_layer=6)
        assert summarize(file, "resnet-night", macs) == summarize(memory, "resnet-night", macs)


@pytest.mark.parametrize(
    ("key", "label"),
    [
        ("conv2d-u8s8-1x56x56x64-k3x3x128-s1-p1-float.c-u8", "conv2d 3x3 56x56x64->128"),
        ("conv2d-u8s8-16x56x56x64-k3x3x128-s1-p1-float.c-u8", "conv2d 3x3 16x56x56x64->128"),
        ("conv2d-u8s8-1x17x17x768-k1x7x192-s2x1-p0.3.0.3-g2-float.c-u8", "conv2d 1x7 s2x1 17x17x768->192"),
        ("dwconv2d-u8u8-1x112x112x32-k3x3x1-s2-p0.0.1.1-wz-fixed.t-clamp-u8", "dwconv2d 3x3 s2 112x112x32"),
        ("dense-s8s8-128x768-o3072-s32", "dense 128x768->3072"),
        ("matmul-f32-8x8", "matmul-f32-8x8"),
    ],
)
def test_labels(key: str, label: str) -> None:
    assert layer_label(key) == label


def test_numbers_as_people_read_them() -> None:
    assert [microseconds(value) for value in (None, 1.234e-6, 12.34e-6, 1.2345e-3)] == ["-", "1.23", "12.3", "1,234"]
    assert [milliseconds(value) for value in (None, 26.5111e-3)] == ["-", "26.511"]
    assert [giga(value) for value in (None, 1.1521e12, 8.76e10)] == ["-", "1,152", "87.6"]
    assert [percent(value) for value in (None, 0.944, 0.0412)] == ["-", "94%", "4.1%"]
    assert factor(None) == "-"
    assert interval(Speedup(1.618, 1.5, 1.75)) == "1.62 [1.50, 1.75]"


def test_the_table_fits_a_terminal(whole: CampaignSummary) -> None:
    text = render_table(whole)
    assert max(len(line) for line in text.splitlines()) <= 100
    row = next(line for line in text.splitlines() if line.startswith("  2 "))
    assert " ".join(row.split()) == "2 conv2d 3x3 56x56x64->64 4 283 211 1,098 95% 1.34 [1.34, 1.34] faster 5"
    assert text.isascii()


def test_the_table_fits_a_narrow_terminal(whole: CampaignSummary) -> None:
    text = render_table(whole, 80)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "\n 2 conv 3x3 56x56x64->64          4     283     211 1,098  95%  1.34 faster\n" in text


def test_rows_name_the_layers(store: Store) -> None:
    names = ("block_1/conv", "block_2/conv; block_2/<b>add</b>")
    store.append([replace(campaign(layers={LAYER: 4, OTHER: 2}), names={LAYER: names})])
    summary = summarize(store, "c1", MACS)
    assert [row.names for row in summary.layers] == [names, ()]
    assert as_dict(summary)["layers"][0]["names"] == names


def test_the_summary_is_json(whole: CampaignSummary) -> None:
    found = json.loads(json.dumps(as_dict(whole), allow_nan=False))
    assert found["campaign"]["name"] == "resnet-night"
    assert len(found["layers"]) == 35
    layer = found["layers"][1]
    assert layer["best"]["candidate"]["id"] == candidate(42, layer["workload"]).id
    assert layer["best"]["candidate"]["config"] == {"tile": 42, "unroll": True, "order": "khw"}
    assert layer["verdict"] == "faster"
    assert found["totals"]["outcomes"]["ok"] == whole.totals.outcomes[Outcome.OK]
    assert found["failures"][0]["example"]["sequence"] == whole.failures[0].example.sequence


def test_the_sample_has_every_verdict_and_many_layers(whole: CampaignSummary) -> None:
    assert {row.verdict for row in whole.layers} == set(Verdict)
    assert len({layer.workload for layer in sample_layers()}) == 35


@pytest.mark.thorough
def test_a_store_is_summed_up_without_being_loaded(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "r.db") as store:
        store.append([campaign(), *(ok(number) for number in range(3000))])
        summed = _peak_bytes(lambda: summarize(store, "c1", MACS))
        loaded = _peak_bytes(lambda: list(store.query(Trial)))
    assert summed < loaded / 2


def _peak_bytes(action: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
