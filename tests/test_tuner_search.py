"""The contract of search strategies, and what each adds to it."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_benchmark.fixture import BenchmarkFixture

from results.record import Candidate, Measurement, Outcome, Trial
from schedules.errors import ConfigError
from schedules.registry import template_for
from schedules.space import Config, ConfigSpace, Constraint, Knob, Value
from schedules.target import target_for
from schedules.workload import parse_workload
from tuner.cost_model.base import Sample
from tuner.errors import UnknownStrategyError
from tuner.search.base import Strategy
from tuner.search.pool import spread
from tuner.search.registry import make_strategy, strategy_names
from tuner.search.xgboost import WARM_UP, WHOLE_GRID, ModelGuidedSearch

CONV = "conv2d-u8s8-1x56x56x64-k3x3x64-s1-p1-float.c-u8"
FAILURES = [outcome for outcome in Outcome if outcome not in (Outcome.OK, Outcome.DEVICE_LOST)]

# Seconds of a config's kernel, or None where it fails.
Landscape = Callable[[Mapping[str, Value]], float | None]


@cache
def conv_space() -> ConfigSpace:
    workload = parse_workload(CONV)
    target = target_for(
        {"avx512f", "avx512bw", "avx512vl", "avx512_vnni"}, "cascadelake", "x86_64-linux-gnu", "x86-avx512vnni"
    )
    return template_for(workload, target).space(workload, target)


def small_space(holds: Callable[[Mapping[str, Value]], bool] = lambda c: int(c["a"]) + int(c["b"]) <= 5) -> ConfigSpace:
    knobs = (Knob("a", (0, 1, 2, 3)), Knob("b", (0, 1, 2, 3)), Knob("order", ("rows", "columns")))
    default: Config = {"a": 0, "b": 0, "order": "rows"}
    return ConfigSpace(
        knobs, default, (Constraint("small", holds),), lambda c: {"sum": float(int(c["a"]) + int(c["b"]))}
    )


def point_space() -> ConfigSpace:
    return ConfigSpace((Knob("a", (4,)),), {"a": 4})


def sparse_space() -> ConfigSpace:
    """Eleven configs in a grid that is too large to be ranked as a whole."""
    side = int(WHOLE_GRID**0.5) + 1
    knobs = (Knob("a", tuple(range(side))), Knob("b", tuple(range(side))))
    return ConfigSpace(
        knobs, {"a": 0, "b": 0}, (Constraint("diagonal", lambda c: c["a"] == c["b"] and int(c["a"]) < 11),)
    )


def large_space(side: int = 40, knobs: int = 4) -> ConfigSpace:
    names = [f"tile_{axis}" for axis in range(knobs)]
    return ConfigSpace(
        tuple(Knob(name, tuple(range(1, side + 1))) for name in names),
        dict.fromkeys(names, 1),
        (Constraint("not all large", lambda c: sum(map(int, c.values())) <= side * knobs * 3 // 4),),
        lambda c: {f"{name}_bytes": 64.0 * int(c[name]) for name in names},
    )


def bowl(config: Mapping[str, Value]) -> float:
    return 1e-4 * (1 + sum(abs(int(value) - 15) for value in config.values()))


def smooth(config: Mapping[str, Value]) -> float:
    """Of `conv_space`: few loads, little waste and a body of medium length are fast."""
    features = conv_space().features(config)
    body = abs(np.log2(features["unrolled_dots"] / 24))
    return float(
        1e-4 * (2 * features["loads_per_dot"] + features["waste"] + 0.3 * body + 0.15 * features["weights_outer"])
    )


def broken_in_half(config: Mapping[str, Value]) -> float | None:
    """`smooth`, but half of the configs fail, without a rule that could be learned."""
    return None if hashlib.sha256(key_of(config).encode()).digest()[0] % 2 else smooth(config)


def broken_where_large(config: Mapping[str, Value]) -> float | None:
    """`smooth`, but the larger half of the bodies fails."""
    return None if conv_space().features(config)["unrolled_dots"] > 28 else smooth(config)


def always_fails(config: Mapping[str, Value]) -> None:
    del config


def key_of(config: Mapping[str, Value]) -> str:
    return json.dumps(config, sort_keys=True)


def keys_of(configs: Iterable[Mapping[str, Value]]) -> list[str]:
    return [key_of(config) for config in configs]


def trials_of(configs: Sequence[Mapping[str, Value]], landscape: Landscape = smooth) -> list[Trial]:
    trials = []
    for at, config in enumerate(configs):
        time_s = landscape(config)
        outcome = FAILURES[at % len(FAILURES)] if time_s is None else Outcome.OK
        measurement = None if time_s is None else Measurement((time_s, 0.9 * time_s, 5 * time_s), 10)
        candidate = Candidate(CONV, "x86-avx512vnni", "x86.direct_vnni", 1, config)
        trials.append(Trial("campaign", at, candidate, outcome, measurement, "local", {}, "2026-01-01T00:00:00Z"))
    return trials


def strategy_of(name: str, space: ConfigSpace, seed: int = 0) -> Strategy:
    return make_strategy(name, space, np.random.default_rng(seed))


def search(strategy: Strategy, landscape: Landscape, batches: int, n: int = 8) -> list[list[Config]]:
    """The batches of a campaign in which each is observed before the next is proposed."""
    history = []
    for _ in range(batches):
        history.append(strategy.propose(n))
        strategy.observe(trials_of(history[-1], landscape))
    return history


def flat(batches: Iterable[Iterable[Config]]) -> list[Config]:
    return list(itertools.chain.from_iterable(batches))


def exhaust(strategy: Strategy, n: int = 5) -> list[Config]:
    configs: list[Config] = []
    while batch := strategy.propose(n):
        assert len(batch) <= n
        configs += batch
    return configs


class TestStrategyContract:
    """What every strategy must do; a new one is tested from the moment it is registered."""

    @pytest.fixture(params=strategy_names())
    def name(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.mark.parametrize("landscape", [smooth, broken_in_half, always_fails])
    def test_proposals_are_distinct_configs_of_the_space(self, name: str, landscape: Landscape) -> None:
        history = search(strategy_of(name, conv_space()), landscape, batches=6)
        proposed = [config for batch in history for config in batch]
        assert [len(batch) for batch in history] == [8] * 6
        assert len(set(keys_of(proposed))) == 48
        assert [conv_space().fault(config) for config in proposed] == [None] * 48

    def test_proposals_need_no_observation(self, name: str) -> None:
        strategy = strategy_of(name, conv_space())
        proposed = [config for _ in range(6) for config in strategy.propose(8)]
        assert len(set(keys_of(proposed))) == 48

    def test_proposals_are_at_most_n(self, name: str) -> None:
        strategy = strategy_of(name, small_space())
        assert [len(strategy.propose(n)) for n in (0, 1, 3, 8, 100, 1)] == [0, 1, 3, 8, small_space().size - 12, 0]

    @pytest.mark.parametrize("make_space", [small_space, point_space, sparse_space])
    def test_a_space_is_exhausted_with_each_config_once(self, name: str, make_space: Callable[[], ConfigSpace]) -> None:
        strategy = strategy_of(name, make_space())
        assert sorted(keys_of(exhaust(strategy))) == sorted(keys_of(make_space()))
        assert strategy.propose(8) == []

    @pytest.mark.parametrize("landscape", [bowl, always_fails])
    def test_a_space_is_exhausted_while_results_arrive(self, name: str, landscape: Landscape) -> None:
        space = ConfigSpace(small_space().knobs[:2], {"a": 0, "b": 0})
        history = search(strategy_of(name, space), landscape, batches=7, n=3)
        assert [len(batch) for batch in history] == [3, 3, 3, 3, 3, 1, 0]
        assert sorted(keys_of(flat(history))) == sorted(keys_of(space))

    def test_what_was_observed_is_never_proposed(self, name: str) -> None:
        space = conv_space()
        observed = [dict(space.default), *list(space)[10:60:5]]
        strategy = strategy_of(name, space)
        strategy.observe(trials_of(observed))
        rest = [key for key in keys_of(space) if key not in keys_of(observed)]
        assert sorted(keys_of(exhaust(strategy, n=50))) == sorted(rest)

    def test_observing_a_proposal_twice_changes_nothing(self, name: str) -> None:
        once, twice = strategy_of(name, conv_space()), strategy_of(name, conv_space())
        for config in search(once, smooth, batches=2)[0]:
            assert config in conv_space()
        for batch in search(twice, smooth, batches=2):
            twice.observe(trials_of(batch))
        assert once.propose(8) == twice.propose(8)

    def test_a_config_from_elsewhere_is_an_error_and_nothing_is_taken_in(self, name: str) -> None:
        space = small_space()
        strategy = strategy_of(name, space)
        with pytest.raises(ConfigError, match="constraint broken: small"):
            strategy.observe(trials_of([space.default, {"a": 3, "b": 3, "order": "rows"}], bowl_of_sum))
        assert sorted(keys_of(exhaust(strategy))) == sorted(keys_of(space))

    def test_the_space_may_be_one_point(self, name: str) -> None:
        strategy = strategy_of(name, point_space())
        strategy.observe(trials_of([{"a": 4}], bowl))
        assert strategy.propose(8) == []

    def test_a_resumed_campaign_goes_on_as_if_it_had_never_stopped(self, name: str) -> None:
        whole = search(strategy_of(name, conv_space(), seed=3), broken_in_half, batches=7)
        resumed = strategy_of(name, conv_space(), seed=3)
        assert search(resumed, broken_in_half, batches=4) == whole[:4]
        assert search(resumed, broken_in_half, batches=3) == whole[4:]

    def test_the_order_in_which_results_arrive_does_not_matter(self, name: str) -> None:
        whole = search(strategy_of(name, conv_space()), broken_in_half, batches=4)
        other = strategy_of(name, conv_space())
        for batch in whole:
            assert other.propose(8) == batch
            trials = trials_of(batch, broken_in_half)
            other.observe(trials[5:])
            other.observe(trials[4::-1])

    def test_proposals_are_the_same_in_another_process(self, name: str) -> None:
        code = f"""if True:
            import json
            import test_tuner_search as t
            strategy = t.strategy_of({name!r}, t.conv_space(), seed=11)
            print(json.dumps(t.search(strategy, t.broken_in_half, batches=4)))
        """
        tests = Path(__file__).parent
        environment = {**os.environ, "PYTHONPATH": f"{tests.parent}{os.pathsep}{tests}", "PYTHONHASHSEED": "1"}
        output = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        assert json.loads(output.stdout) == search(strategy_of(name, conv_space(), 11), broken_in_half, batches=4)

    @settings(max_examples=30, deadline=None)
    @given(data=st.data())
    def test_each_config_of_any_space_is_known_once(self, name: str, data: st.DataObject) -> None:
        sides = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
        holes = data.draw(st.sets(st.integers(1, 63)))
        space = space_with_holes(sides, holes)
        strategy = strategy_of(name, space, data.draw(st.integers(0, 9)))
        known: list[str] = []
        foreign = data.draw(st.lists(st.sampled_from(list(space)), max_size=5, unique_by=key_of))
        for n in data.draw(st.lists(st.integers(0, 9), max_size=6)):
            proposed = strategy.propose(n)
            known += keys_of(proposed)
            news = [config for config in foreign[:1] if key_of(config) not in known]
            strategy.observe(trials_of([*proposed, *news], lambda config: None if len(known) % 3 else bowl(config)))
            known += keys_of(news)
            foreign = foreign[1:]
        assert sorted([*known, *keys_of(exhaust(strategy))]) == sorted(keys_of(space))


def bowl_of_sum(config: Mapping[str, Value]) -> float:
    return 1e-4 * (1 + int(config["a"]) + int(config["b"]))


def space_with_holes(sides: Sequence[int], holes: set[int]) -> ConfigSpace:
    """A space without the configs whose values, read as digits of base 4, are one of the holes."""
    knobs = tuple(Knob(f"k{at}", tuple(range(side))) for at, side in enumerate(sides))

    def holds(config: Mapping[str, Value]) -> bool:
        return sum(int(value) * 4**at for at, value in enumerate(config.values())) not in holes

    return ConfigSpace(knobs, {knob.name: 0 for knob in knobs}, (Constraint("no hole", holds),))


class TestFixedSequences:
    """`random` and `grid`: no observation changes the order, known configs are skipped."""

    @pytest.mark.parametrize("name", ["random", "grid"])
    def test_results_do_not_change_the_order(self, name: str) -> None:
        quiet = exhaust(strategy_of(name, conv_space()), n=8)
        told = search(strategy_of(name, conv_space()), broken_in_half, batches=len(quiet) // 8 + 1)
        assert flat(told) == quiet

    @pytest.mark.parametrize("name", ["random", "grid"])
    def test_known_configs_are_left_out_of_the_order(self, name: str) -> None:
        sequence = exhaust(strategy_of(name, conv_space()))
        foreign = sequence[3:40:4]
        strategy = strategy_of(name, conv_space())
        strategy.observe(trials_of(foreign))
        assert exhaust(strategy) == [config for config in sequence if config not in foreign]

    @pytest.mark.parametrize("name", ["random", "grid"])
    def test_a_campaign_resumed_without_replay_ends_with_the_same_set(self, name: str) -> None:
        sequence = exhaust(strategy_of(name, conv_space()))
        resumed = strategy_of(name, conv_space())
        resumed.observe(trials_of(sequence[:21]))
        assert resumed.propose(11) == sequence[21:32]

    def test_grid_counts_through_the_space(self) -> None:
        assert exhaust(strategy_of("grid", small_space())) == list(small_space())

    def test_random_draws_every_config_equally_often_as_first(self) -> None:
        firsts = [key_of(strategy_of("random", small_space(), seed).propose(1)[0]) for seed in range(2600)]
        _, counts = np.unique(firsts, return_counts=True)
        assert len(counts) == small_space().size == 26
        # 100 expected of each; six standard deviations.
        assert 40 < counts.min() <= counts.max() < 160

    @pytest.mark.parametrize("name", ["random", "xgboost"])
    def test_another_seed_gives_another_order(self, name: str) -> None:
        first, second = (keys_of(strategy_of(name, conv_space(), seed).propose(16)) for seed in (0, 1))
        assert set(first) != set(second)


class ListedScores:
    """A cost model that knows the scores of all configs; it remembers what it was fitted to."""

    def __init__(self, score: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]) -> None:
        self.score = score
        self.samples: Sequence[Sample] = ()

    def fit(self, samples: Sequence[Sample]) -> None:
        self.samples = samples

    def predict(self, features: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return self.score(features)


class TestModelGuidedSearch:
    def warm(self, space: ConfigSpace, model: ListedScores, landscape: Landscape = smooth) -> ModelGuidedSearch:
        strategy = ModelGuidedSearch(space, np.random.default_rng(0), model)
        search(strategy, landscape, batches=1, n=WARM_UP)
        return strategy

    def by_tile(self) -> ListedScores:
        """Prefers wide tiles: the first column is the knob `tile_columns`."""
        return ListedScores(lambda features: features[:, 0])

    def test_three_of_four_are_the_ones_that_the_model_ranks_first(self) -> None:
        strategy = self.warm(conv_space(), self.by_tile())
        batch = strategy.propose(8)
        widest = max(int(config["tile_columns"]) for config in conv_space())
        assert [config["tile_columns"] for config in batch[:6]] == [widest] * 6
        assert {config["tile_columns"] for config in batch[6:]} != {widest}

    def test_the_share_of_random_configs_holds_for_single_proposals(self) -> None:
        strategy = self.warm(conv_space(), self.by_tile())
        widest = max(int(config["tile_columns"]) for config in conv_space())
        proposed = [strategy.propose(1)[0]["tile_columns"] for _ in range(8)]
        assert [tile == widest for tile in proposed] == [True, True, True, False] * 2

    def test_the_model_learns_from_all_results_and_failures_are_the_slowest(self) -> None:
        model = self.by_tile()
        strategy = self.warm(conv_space(), model, broken_in_half)
        batch = strategy.propose(8)
        strategy.observe(trials_of(batch, always_fails))
        strategy.propose(8)
        speeds = [sample.calls_per_s for sample in model.samples]
        assert len(speeds) == 16
        assert 8 <= speeds.count(0) < 16
        assert {sample.workload for sample in model.samples} == {CONV}

    def test_the_speed_is_that_of_the_median_time(self) -> None:
        model = self.by_tile()
        self.warm(conv_space(), model, lambda _: 0.5).propose(1)
        assert {sample.calls_per_s for sample in model.samples} == {2.0}

    def test_the_last_result_of_a_config_counts(self) -> None:
        model = self.by_tile()
        strategy = self.warm(conv_space(), model, lambda _: 0.5)
        strategy.observe(trials_of([conv_space().at(conv_space().index(conv_space().default))], lambda _: 0.25))
        strategy.observe(trials_of([conv_space().default], lambda _: 0.125))
        strategy.propose(1)
        assert sorted({sample.calls_per_s for sample in model.samples}) == [2.0, 8.0]

    def test_a_batch_holds_no_two_configs_with_the_same_features(self) -> None:
        space = small_space()
        strategy = ModelGuidedSearch(space, np.random.default_rng(0), ListedScores(lambda features: features[:, -1]))
        sums = [[space.features(config)["sum"] for config in strategy.propose(6)]]
        strategy.observe(trials_of([config for config in space if config["b"] == 0], bowl_of_sum))
        sums += [[space.features(config)["sum"] for config in strategy.propose(4)]]
        assert [len(set(batch)) for batch in sums] == [6, 4]

    def test_the_first_configs_are_spread_over_the_space(self) -> None:
        rows = np.random.default_rng(0).random((300, 2))
        anchors = np.array([[0.5, 0.5]])
        gaps = {"spread": [], "random": []}
        for seed in range(20):
            rng = np.random.default_rng(seed)
            gaps["spread"].append(smallest_gap(np.vstack([anchors, rows[spread(rows, anchors, 8, rng)]])))
            gaps["random"].append(smallest_gap(np.vstack([anchors, rows[rng.permutation(300)[:8]]])))
        assert np.median(gaps["spread"]) > 2 * np.median(gaps["random"])

    def test_the_model_is_not_asked_while_everything_failed(self) -> None:
        model = self.by_tile()
        self.warm(conv_space(), model, always_fails).propose(8)
        assert model.samples == ()

    @pytest.mark.parametrize("landscape", [smooth, broken_in_half])
    def test_it_finds_better_configs_than_random_search(self, landscape: Landscape) -> None:
        guided, drawn = (
            [best_of(name, conv_space(), landscape, seed) for seed in range(20)] for name in ("xgboost", "random")
        )
        optimum = min(time_s for config in conv_space() if (time_s := landscape(config)) is not None)
        assert np.median(guided) < np.median(drawn)
        assert np.median(guided) < 1.02 * optimum

    def test_it_finds_better_configs_in_a_space_too_large_to_rank(self) -> None:
        guided, drawn = (
            [best_of(name, large_space(), bowl, seed) for seed in range(5)] for name in ("xgboost", "random")
        )
        assert large_space().grid_size > 100 * WHOLE_GRID
        assert np.median(guided) < 0.7 * np.median(drawn)


def best_of(name: str, space: ConfigSpace, landscape: Landscape, seed: int, trials: int = 32) -> float:
    """The best time of the default and so many trials in batches of 8."""
    strategy = strategy_of(name, space, seed)
    strategy.observe(trials_of([space.default], landscape))
    tried = [dict(space.default), *flat(search(strategy, landscape, batches=trials // 8))]
    return min(time_s for config in tried if (time_s := landscape(config)) is not None)


def smallest_gap(points: npt.NDArray[np.float64]) -> float:
    gaps = np.linalg.norm(points[:, None] - points, axis=2)
    return float(gaps[np.triu_indices(len(points), 1)].min())


def test_an_unknown_strategy_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(UnknownStrategyError, match="unknown search strategy `annealing`, known: xgboost, random, grid"):
        strategy_of("annealing", point_space())


@pytest.mark.parametrize("side", [11, 40], ids=["ranked as a whole", "sampled"])
@pytest.mark.parametrize("name", strategy_names())
def test_speed_of_propose(benchmark: BenchmarkFixture, name: str, side: int) -> None:
    space = large_space(side)
    assert space.grid_size >= 10_000
    strategy = strategy_of(name, space)
    search(strategy, bowl, batches=4)
    batch = benchmark.pedantic(strategy.propose, args=(8,), rounds=20)
    assert len(batch) == 8
