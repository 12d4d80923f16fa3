"""What is said of a campaign agrees with itself: one best, one default, one rate, sums that are those of the parts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from int8tune.results.analysis.campaign import CampaignAnalysis, analyze
from int8tune.results.analysis.roofline import LayerSize
from int8tune.results.memory import MemoryStore
from int8tune.results.record import BenchResult, Entrant, Entry, Outcome
from int8tune.results.summary import Verdict
from tests.support.program.results_samples import (
    DEVICE,
    ENVIRONMENT,
    LAYER,
    STARTED,
    TARGET,
    at,
    campaign,
    candidate,
    check,
    duel,
    failed,
    fill,
    ok,
    sample_sizes,
)

OTHER = "dense-u8s8-1x64-o10-s32"
SIZES = {LAYER: LayerSize(1_000_000, 10_000, 5_000), OTHER: LayerSize(640, 100, 640)}


def analysis_of(*entries: Entry, layers: dict[str, int] | None = None) -> CampaignAnalysis:
    store = MemoryStore()
    store.append([campaign(layers=layers), *entries])
    return analyze(store, "c1", SIZES)


@pytest.fixture(scope="module")
def sample() -> CampaignAnalysis:
    store = MemoryStore()
    fill(store)
    return analyze(store, "resnet-night", sample_sizes())


def test_every_curve_begins_at_the_default_and_ends_at_the_best_of_the_table(sample: CampaignAnalysis) -> None:
    rows = {row.workload: row for row in sample.summary.layers}
    assert len(sample.course.layers) == 34
    for course in sample.course.layers:
        row = rows[course.workload]
        assert row.best is not None
        assert course.bests[-1].amount == row.best.median_s
        if row.default is not None:
            assert course.bests[0].amount == row.default.median_s
        amounts = [best.amount for best in course.bests]
        assert amounts == sorted(amounts, reverse=True)


def test_the_network_s_curve_ends_at_its_time(sample: CampaignAnalysis) -> None:
    assert sample.course.network[-1].amount == pytest.approx(sample.network.timed, rel=1e-12)
    assert sample.network.timed == pytest.approx(
        sum(row.count * (row.best.median_s or 0) for row in sample.summary.layers if row.best)
    )
    assert sample.time.trials_per_s == sample.summary.totals.trials_per_s
    assert sample.network.speedup is not None
    assert sample.network.speedup.estimate == pytest.approx(sample.summary.totals.speedup)


def test_shares_add_up_to_the_network(sample: CampaignAnalysis) -> None:
    assert sum(sample.network.share(row) or 0 for row in sample.summary.layers) == pytest.approx(1)


def test_what_noise_may_have_made_is_in_no_sum(sample: CampaignAnalysis) -> None:
    claimed = {gain.workload for gain in sample.network.gains if gain.claimed}
    assert claimed == {row.workload for row in sample.summary.layers if row.verdict is Verdict.FASTER}
    assert sum(gain.amount for gain in sample.network.gains if gain.claimed) == pytest.approx(
        sample.network.default - sample.network.best
    )


def test_two_steps_in_one_moment_end_at_the_best() -> None:
    """Records of a second: the default's, and that of the best."""
    other = candidate(0, OTHER)
    won = duel(candidate(0), candidate(1), 2.0, default_s=2e-3, noise=0)
    found = analysis_of(ok(0, 2e-3), ok(1, 1e-3), won, ok(2, 1e-4, chosen=other), layers={LAYER: 2, OTHER: 1})
    amounts = [best.amount for best in found.course.network]
    assert amounts == pytest.approx([2 * 2e-3 + 1e-4, 2 * 1e-3 + 1e-4])
    assert amounts[-1] == pytest.approx(found.network.timed)


def test_the_interval_of_a_network_is_narrower_than_those_of_its_layers() -> None:
    chosen = [candidate(tile, OTHER) for tile in (0, 1)]
    duels = [duel(candidate(0), candidate(1), 2.0, noise=0.05), duel(*chosen, 2.0, noise=0.05)]
    entries = [ok(0), ok(1, 5e-4), ok(2, chosen=chosen[0]), ok(3, 5e-4, chosen=chosen[1]), *duels]
    network = analysis_of(*entries, layers={LAYER: 1, OTHER: 1}).network
    assert network.speedup is not None
    layers = [row.speedup for row in analysis_of(*entries, layers={LAYER: 1, OTHER: 1}).summary.layers]
    width = network.speedup.high - network.speedup.low
    assert 0 < width < min(speedup.high - speedup.low for speedup in layers if speedup)


def test_time_is_split_into_what_a_device_did() -> None:
    entries = [replace(ok(place), started_at=at(10 * place), run_s=2.0) for place in range(1, 4)]
    twin = replace(ok(4), started_at=at(31), reused_from=candidate(3).id, run_s=0.0)
    lost = replace(failed(5), started_at=at(32), build_s=1.0)
    fought = replace(duel(candidate(1), candidate(2), 1.5), started_at=at(40))
    found = analysis_of(*entries, twin, lost, fought).time
    assert (found.wall_s, found.trials, found.builds, found.reused) == (40, 5, 5, 1)
    assert found.build_s == pytest.approx(4 * 0.2 + 1.0)
    (place,) = found.places
    assert (place.name, place.trials) == (DEVICE, 3)
    assert place.timing_s == pytest.approx(3 * 3 * 1e-3 * 10, rel=0.05)
    assert place.verify_s + place.timing_s == pytest.approx(6)
    assert place.duels_s == 10
    assert place.wait_s == pytest.approx(40 - 6 - 10)


def test_boards_are_told_apart() -> None:
    boards = [replace(ok(place), environment=ENVIRONMENT | {"board": f"b{place % 2}"}) for place in range(5)]
    assert [(place.name, place.trials) for place in analysis_of(*boards).time.places] == [("b0", 3), ("b1", 2)]


def test_health_is_of_the_probe_and_of_what_interrupted() -> None:
    entries = []
    for place, probe_s in enumerate((1e-5, 1e-5, 2e-5)):
        trial = replace(ok(place), started_at=at(place), attempts=1 + place)
        assert trial.measurement
        seen = {"probe_before_s": probe_s, "probe_after_s": probe_s, "interrupted": 2.0, "timings": 1.0 + place}
        entries.append(replace(trial, measurement=replace(trial.measurement, observed=seen)))
    (health,) = analysis_of(*entries).health
    assert [reading.relative for reading in health.readings] == pytest.approx([1, 1, 2])
    assert (health.interrupted, health.timed_again, health.attempts) == (6, 2, 3)
    assert health.noise == pytest.approx(0.5)


def test_choices_that_fail_more_often_than_their_template_are_named() -> None:
    entries: list[Entry] = [ok(place) for place in range(8)]
    for place in range(8, 12):
        bad = candidate(place)
        entries.append(failed(place, chosen=replace(bad, config={**bad.config, "unroll": False})))
    failures = analysis_of(*entries).failures
    (template,) = failures.templates
    assert (template.template, template.trials, template.failed) == ("direct", 12, 4)
    assert [(one.knob, one.choice, one.trials, one.failed) for one in failures.choices] == [("unroll", "False", 4, 4)]


def bench(name: str, ours_s: float, theirs_s: float, workload: str = LAYER, tile: int = 0) -> BenchResult:
    ours = Entrant("int8tune", "0.1.0", workload, Outcome.OK, (ours_s,) * 8)
    theirs = Entrant(name, "1.0", workload, Outcome.OK, (theirs_s,) * 8)
    chosen = candidate(tile, workload)
    return BenchResult("b1", chosen, True, DEVICE, 1, ours, (theirs,), (1e12,) * 8, ENVIRONMENT, STARTED)


def test_peers_are_summed_over_the_network() -> None:
    layers = {LAYER: 3, OTHER: 1}
    found = analysis_of(
        ok(0), bench("fast", 1e-3, 2e-3), bench("fast", 1e-3, 5e-4, OTHER), bench("slow", 1.0, 1.0), layers=layers
    )
    # The latest bench of a layer counts.
    assert [(one.name, one.runs, one.ratio) for one in found.peers.libraries] == [("fast", 1, 0.5), ("slow", 3, 1.0)]
    assert found.peers.best is not None
    assert found.peers.best.name == "slow"
    assert [layer.is_best for layer in found.peers.layers] == [True, False]


def test_benches_of_other_devices_and_of_more_threads_are_no_peers() -> None:
    other = replace(bench("fast", 1e-3, 2e-3), device="pi")
    assert analysis_of(ok(0), other, replace(bench("fast", 1e-3, 2e-3), threads=2)).peers.best is None


def test_roofs_need_a_check() -> None:
    assert analysis_of(ok(0)).network.roof_share is None
    found = analysis_of(check(1e12, target=TARGET), ok(0))
    # 2 million operations are 2 us at the peak, and 15 kB 71 ns from the first cache: 1 ms was taken.
    assert found.roofs[LAYER].bound_by == "peak"
    assert found.network.roof_share == pytest.approx(2e-6 / 1e-3)
