"""Search guided by a cost model: what it asks the model, and whether it pays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.schedules.space import ConfigSpace, Knob, Value
from int8tune.tuner.cost_model.base import Sample, Scorer
from int8tune.tuner.cost_model.kriging import KrigedCostModel
from int8tune.tuner.cost_model.xgboost import XGBoostCostModel
from int8tune.tuner.search.improvement import USUAL_ERROR, Error, error_of, expected_improvement, saved_share
from int8tune.tuner.search.pool import optimistic, spread
from int8tune.tuner.search.xgboost import WARM_UP, WHOLE_GRID, ModelGuidedSearch
from tests.support.program.search_landscapes import (
    CONV,
    Landscape,
    always_fails,
    bowl,
    bowl_of_sum,
    broken_in_half,
    broken_where_large,
    conv_space,
    exhaust,
    flat,
    large_space,
    search,
    small_space,
    smooth,
    strategy_of,
    trials_of,
)
from tests.support.run.thinned import one_in


class ListedScores:
    """A cost model that knows the scores of all configs; it remembers what it was fitted to."""

    def __init__(self, score: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]) -> None:
        self.score = score
        self.samples: Sequence[Sample] = ()

    def fit(self, samples: Sequence[Sample], margin: Scorer | None = None) -> None:  # noqa: ARG002
        self.samples = samples

    def predict(self, features: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return self.score(features)


LANDSCAPES = one_in(3, [(smooth, 1.0), (broken_where_large, 1.0), (broken_in_half, 1.2)])


class TestModelGuidedSearch:
    def warm(self, space: ConfigSpace, model: ListedScores, landscape: Landscape = smooth) -> ModelGuidedSearch:
        strategy = ModelGuidedSearch(space, np.random.default_rng(0), model)
        search(strategy, landscape, batches=1, n=WARM_UP)
        return strategy

    def by_tile(self) -> ListedScores:
        """Prefers wide tiles: the first column is the knob `tile_columns`."""
        return ListedScores(lambda features: features[:, 0])

    def tile(self, config: Mapping[str, Value]) -> int:
        return int(config["tile_columns"])

    def test_seven_of_eight_are_the_ones_that_the_model_ranks_first(self) -> None:
        strategy = self.warm(conv_space(), self.by_tile())
        batch = strategy.propose(8)
        widest_left = max(map(self.tile, exhaust(strategy)))
        assert min(map(self.tile, batch[:7])) >= widest_left > self.tile(batch[7])

    def test_the_share_of_random_configs_holds_for_single_proposals(self) -> None:
        strategy = self.warm(conv_space(), self.by_tile())
        proposed = [self.tile(strategy.propose(1)[0]) for _ in range(8)]
        widest_left = max(map(self.tile, exhaust(strategy)))
        assert [tile >= widest_left for tile in proposed] == [*[True] * 7, False]

    def test_the_model_learns_from_all_results_and_failures_are_the_slowest(self) -> None:
        model = self.by_tile()
        strategy = self.warm(conv_space(), model, broken_in_half)
        batch = strategy.propose(8)
        strategy.observe(trials_of(batch, always_fails))
        strategy.propose(8)
        speeds = [sample.speed for sample in model.samples]
        assert len(speeds) == 16
        assert 8 <= speeds.count(0) < 16
        assert {sample.workload for sample in model.samples} == {CONV}

    def test_the_model_sees_the_same_samples_in_whichever_order_they_arrived(self) -> None:
        models = self.by_tile(), self.by_tile()
        for model, step in zip(models, (1, -1), strict=True):
            strategy = ModelGuidedSearch(conv_space(), np.random.default_rng(0), model)
            strategy.observe(trials_of(list(conv_space())[:20][::step], smooth))
            strategy.propose(1)
        assert len(models[0].samples) == 20
        assert models[0].samples == models[1].samples

    def test_the_speed_is_that_of_the_fastest_repeat(self) -> None:
        model = self.by_tile()
        self.warm(conv_space(), model, lambda _: 0.5).propose(1)
        assert {sample.speed for sample in model.samples} == {2.0}

    def test_the_last_result_of_a_config_counts(self) -> None:
        model = self.by_tile()
        strategy = self.warm(conv_space(), model, lambda _: 0.5)
        strategy.observe(trials_of([conv_space().default], lambda _: 0.25))
        strategy.observe(trials_of([conv_space().default], lambda _: 0.125))
        strategy.propose(1)
        assert sorted({sample.speed for sample in model.samples}) == [2.0, 8.0]

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
        gaps: dict[str, list[float]] = {"spread": [], "random": []}
        for seed in range(20):
            rng = np.random.default_rng(seed)
            gaps["spread"].append(smallest_gap(np.vstack([anchors, rows[spread(rows, anchors, 8, rng)]])))
            gaps["random"].append(smallest_gap(np.vstack([anchors, rows[rng.permutation(300)[:8]]])))
        assert np.median(gaps["spread"]) > 2 * np.median(gaps["random"])

    def estimated_space(self) -> ConfigSpace:
        """A space of 15 by 15 points, whose estimate is least at 7, 7; the default is far from it."""
        knobs = (Knob("a", tuple(range(15))), Knob("b", tuple(range(15))))

        def cycles(config: Mapping[str, Value]) -> dict[str, float]:
            return {"estimated_cycles": 1000.0 + 100 * (abs(int(config["a"]) - 7) + abs(int(config["b"]) - 7))}

        return ConfigSpace(knobs, {"a": 0, "b": 0}, (), cycles)

    def test_from_nothing_it_begins_with_what_the_estimate_ranks_first(self) -> None:
        space = self.estimated_space()
        batch = ModelGuidedSearch(space, np.random.default_rng(0), self.by_tile()).propose(8)
        cycles = [space.features(config)["estimated_cycles"] for config in batch]
        assert min(cycles) == 1000
        assert max(cycles[:7]) < np.median([space.features(config)["estimated_cycles"] for config in space])

    def test_lessons_and_the_estimate_have_a_say_each(self) -> None:
        """What was taught likes large `a`, the estimate 7 and 7: in the middle between them is what both like."""
        space = self.estimated_space()
        firsts = []
        for weight in (0.0, 0.05, 10.0):
            strategy = ModelGuidedSearch(
                space, np.random.default_rng(0), self.by_tile(), lambda weight=weight: lambda rows: weight * rows[:, 0]
            )
            firsts.append(strategy.propose(1)[0])
        assert firsts[0] == {"a": 7, "b": 7}
        assert firsts[2] == {"a": 14, "b": 7}

    def test_configs_by_the_estimate_alone_are_unlike_each_other(self) -> None:
        rows = np.array([[0.0, 0.0], [0.01, 0.0], [0.0, 0.01], [2.0, 0.0], [0.0, 2.0], [9.0, 9.0]])
        scores, spans = np.array([0.0, -0.01, -0.01, -0.02, -0.02, -5.0]), np.ones(2)
        nobody = np.zeros((0, 2))
        assert optimistic(scores, rows, nobody, spans, 0.16, 3).tolist() == [0, 3, 4]
        assert optimistic(scores, rows, nobody, spans, 0.0, 3).tolist() == [0, 1, 2]
        assert optimistic(scores, rows, rows[:1], spans, 0.16, 2).tolist() == [3, 4]
        assert sorted(optimistic(scores, rows, nobody, spans, 0.16, 9).tolist()) == [0, 1, 2, 3, 4, 5]

    def test_the_model_is_not_asked_while_everything_failed(self) -> None:
        model = self.by_tile()
        self.warm(conv_space(), model, always_fails).propose(8)
        assert model.samples == ()

    @pytest.mark.parametrize(("landscape", "slack"), LANDSCAPES)
    def test_it_finds_better_configs_than_random_search(self, landscape: Landscape, slack: float) -> None:
        guided, drawn = (
            np.median([best_of(name, conv_space(), landscape, seed) for seed in range(20)])
            for name in ("xgboost", "random")
        )
        best = min(time_s for config in conv_space() if (time_s := landscape(config)) is not None)
        assert guided < drawn
        assert guided <= slack * best

    def test_in_a_space_too_large_to_rank_it_goes_on_from_the_fastest_configs(self) -> None:
        space = large_space()
        wanted = np.log2(1 + 4.0)
        perfect = ListedScores(lambda features: -np.abs(features[:, : len(space.knobs)] - wanted).sum(axis=1))
        strategy = ModelGuidedSearch(space, np.random.default_rng(0), perfect)
        proposed = flat(search(strategy, bowl, batches=8))
        assert min(map(bowl, proposed)) == bowl(dict.fromkeys(space.default, 4))

    def test_it_finds_better_configs_in_a_space_too_large_to_rank(self) -> None:
        space = large_space()
        assert space.grid_size > 10 * WHOLE_GRID
        guided, drawn = (
            np.median([best_of(name, space, bowl, seed) for seed in range(5)]) for name in ("xgboost", "random")
        )
        assert guided < 0.8 * drawn


@pytest.mark.parametrize(
    ("side", "model"), [(WHOLE_GRID // 100, KrigedCostModel), (WHOLE_GRID // 100 + 1, XGBoostCostModel)]
)
def test_neighbours_help_the_trees_where_all_configs_are_ranked(side: int, model: type) -> None:
    knobs = (Knob("a", tuple(range(100))), Knob("b", tuple(range(side))))
    strategy = strategy_of("xgboost", ConfigSpace(knobs, {"a": 0, "b": 0}))
    assert isinstance(strategy, ModelGuidedSearch)
    assert type(strategy._model) is model


def best_of(name: str, space: ConfigSpace, landscape: Landscape, seed: int) -> float:
    """The best time of the default and 32 trials in batches of 8."""
    strategy = strategy_of(name, space, seed)
    strategy.observe(trials_of([space.default], landscape))
    tried = [dict(space.default), *flat(search(strategy, landscape, batches=4))]
    return min(time_s for config in tried if (time_s := landscape(config)) is not None)


def smallest_gap(points: npt.NDArray[np.float64]) -> float:
    gaps = np.linalg.norm(points[:, None] - points, axis=2)
    return float(gaps[np.triu_indices(len(points), 1)].min())


class TestForecast:
    def searched(self, batches: int, landscape: Landscape = smooth) -> ModelGuidedSearch:
        strategy = ModelGuidedSearch(conv_space(), np.random.default_rng(0), XGBoostCostModel())
        search(strategy, landscape, batches)
        return strategy

    def test_it_can_not_tell_at_first_nor_where_nothing_works(self) -> None:
        assert self.searched(0).forecast() is None
        assert self.searched(3, always_fails).forecast() is None

    def test_less_is_expected_of_a_space_that_is_known_better(self) -> None:
        early, late = self.searched(1).forecast(), self.searched(12).forecast()
        assert early is not None
        assert late is not None
        assert 0 <= late < 0.01 < early < 1

    def test_nothing_is_expected_of_a_space_that_is_measured_whole(self) -> None:
        strategy = ModelGuidedSearch(small_space(), np.random.default_rng(0), XGBoostCostModel())
        strategy.observe(trials_of(exhaust(strategy), lambda config: 1e-4 + 1e-6 * len(str(config))))
        assert strategy.forecast() == 0.0

    def test_asking_changes_no_proposal(self) -> None:
        for space, landscape in ((conv_space(), smooth), (large_space(), bowl)):
            asked, silent = (ModelGuidedSearch(space, np.random.default_rng(0), XGBoostCostModel()) for _ in range(2))
            for _ in range(3):
                asked.forecast()
                (batch,) = search(asked, landscape, batches=1)
                assert search(silent, landscape, batches=1) == [batch]

    def test_what_came_of_earlier_forecasts_corrects_the_next(self) -> None:
        assert error_of([0.1, 0.2, 0.3]) == USUAL_ERROR
        error = error_of([-0.2, -0.2, -0.1, -0.3, -5.0])
        assert error.bias == pytest.approx(-0.2)
        assert error.spread == pytest.approx(0.1 / 0.6745)
        assert expected_improvement(0.2, error) < expected_improvement(0.2, USUAL_ERROR)

    @pytest.mark.parametrize("error", [Error(0.0, 0.3), Error(-0.2, 0.1), Error(0.1, 0.0)])
    def test_expected_improvement_is_the_mean_of_what_is_gained(self, error: Error) -> None:
        outcomes = np.random.default_rng(0).normal(0.15 + error.bias, error.spread, 200_000)
        assert expected_improvement(0.15, error) == pytest.approx(np.maximum(outcomes, 0).mean(), abs=1e-3)
        assert saved_share(1.0) == 0.5
