"""The contract of search strategies, and the fixed sequences of `random` and `grid`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_benchmark.fixture import BenchmarkFixture

from int8tune.schedules.errors import ConfigError
from int8tune.schedules.space import ConfigSpace, Constraint, Knob, Value
from int8tune.tuner.errors import UnknownStrategyError
from int8tune.tuner.search.registry import strategy_names
from tests.support.places import ROOT
from tests.support.program.search_landscapes import (
    Landscape,
    always_fails,
    bowl,
    bowl_of_sum,
    broken_in_half,
    conv_space,
    exhaust,
    flat,
    key_of,
    keys_of,
    large_space,
    point_space,
    search,
    small_space,
    smooth,
    sparse_space,
    strategy_of,
    trials_of,
)


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
        for _ in range(3):
            batch = once.propose(8)
            assert twice.propose(8) == batch
            once.observe(trials_of(batch))
            twice.observe(trials_of(batch + batch))

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

    @pytest.mark.thorough
    def test_proposals_are_the_same_in_another_process(self, name: str) -> None:
        code = f"""if True:
            import json
            from tests.support.program import search_landscapes as t
            strategy = t.strategy_of({name!r}, t.conv_space(), seed=11)
            print(json.dumps(t.search(strategy, t.broken_in_half, batches=4)))
        """
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "1"}
        output = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        assert json.loads(output.stdout) == search(strategy_of(name, conv_space(), 11), broken_in_half, batches=4)

    def test_a_batch_may_be_large(self, name: str) -> None:
        strategy = strategy_of(name, large_space())
        proposed = [*strategy.propose(700), *strategy.propose(100)]
        assert len(set(keys_of(proposed))) == 800

    @settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_each_config_of_any_space_is_known_once(self, name: str, data: st.DataObject) -> None:
        sides = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
        space = space_with_holes(sides, data.draw(st.sets(st.integers(1, 63))))
        strategy = strategy_of(name, space, data.draw(st.integers(0, 9)))
        landscape = data.draw(st.sampled_from([bowl, always_fails]))
        known: list[str] = []
        for n, foreign in data.draw(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(list(space))), max_size=6)):
            news = [config for config in [foreign] if key_of(config) not in known]
            strategy.observe(trials_of(news, landscape))
            proposed = strategy.propose(n)
            strategy.observe(trials_of(proposed, landscape))
            known += keys_of([*news, *proposed])
        assert sorted([*known, *keys_of(exhaust(strategy))]) == sorted(keys_of(space))


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
        space = small_space()
        firsts = [key_of(strategy_of("random", space, seed).propose(1)[0]) for seed in range(100 * space.size)]
        _, counts = np.unique(firsts, return_counts=True)
        assert len(counts) == space.size
        # 100 expected of each; six standard deviations.
        assert 40 < counts.min() <= counts.max() < 160

    @pytest.mark.parametrize("name", ["random", "xgboost"])
    def test_another_seed_gives_another_order(self, name: str) -> None:
        first, second = (keys_of(strategy_of(name, conv_space(), seed).propose(16)) for seed in (0, 1))
        assert set(first) != set(second)


def test_an_unknown_strategy_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(
        UnknownStrategyError,
        match="unknown search strategy `annealing`, known: xgboost, evolution, descent, random, grid",
    ):
        strategy_of("annealing", point_space())


@pytest.mark.parametrize("knobs", [4, 6], ids=["ranked as a whole", "sampled"])
@pytest.mark.parametrize("name", strategy_names())
def test_speed_of_propose(benchmark: BenchmarkFixture, name: str, knobs: int) -> None:
    space = large_space(11, knobs)
    assert space.grid_size >= 10_000
    strategy = strategy_of(name, space)
    search(strategy, bowl, batches=4)
    batch = benchmark.pedantic(strategy.propose, args=(16,), rounds=20)  # type: ignore[no-untyped-call]
    assert len(batch) == 16
