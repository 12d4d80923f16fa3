"""Features of configs, and the contract of cost models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from int8tune.schedules.registry import template_for
from int8tune.schedules.space import Config, ConfigSpace, Knob, Value
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.cost_model.base import CostModel, Sample
from int8tune.tuner.cost_model.features import SPAN_POINTS, FeatureEncoder, spans_of
from int8tune.tuner.cost_model.kriging import MOST_SAMPLES, TREES_SHARE, KrigedCostModel, densest_first
from int8tune.tuner.cost_model.xgboost import XGBoostCostModel, _start_from
from int8tune.tuner.errors import CostModelError
from tests.support.places import ROOT
from tests.support.run.probes import any_target

CONV = "conv2d-u8s8-1x28x28x192-k1x1x96-s1-p0-float.c-u8"


def conv_space() -> ConfigSpace:
    workload = parse_workload(CONV)
    target = any_target("x86-avx512vnni")
    return template_for(workload, target).space(workload, target)


def calls_per_s(config: Mapping[str, Value], space: ConfigSpace) -> float:
    """A smooth landscape: few loads and little waste are fast, long bodies are not."""
    features = space.features(config)
    return 1e4 / (features["loads_per_dot"] + features["waste"] + features["unrolled_dots"] / 100)


def split(configs: list[Config], share: float) -> tuple[list[Config], list[Config]]:
    order = np.random.default_rng(0).permutation(len(configs))
    first = int(share * len(configs))
    return [configs[at] for at in order[:first]], [configs[at] for at in order[first:]]


def samples_of(space: ConfigSpace, configs: list[Config], workload: str = CONV, scale: float = 1.0) -> list[Sample]:
    rows = FeatureEncoder(space).matrix(configs)
    speeds = [scale * calls_per_s(config, space) for config in configs]
    return [Sample(tuple(row), speed, workload) for row, speed in zip(rows, speeds, strict=True)]


def spearman(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Rank correlation; equal values share their mean rank."""

    def ranks(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
        ends = np.cumsum(counts)
        return np.asarray((ends - (counts - 1) / 2)[where])

    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


MODELS: dict[str, Callable[[], CostModel]] = {
    "trees": XGBoostCostModel,
    "kriged": lambda: KrigedCostModel(XGBoostCostModel()),
}


def scores_of_landscape(name: str) -> list[float]:
    space = conv_space()
    seen, others = split(list(space), 0.4)
    model = MODELS[name]()
    model.fit(samples_of(space, seen))
    return [float(score) for score in model.predict(FeatureEncoder(space).matrix(others))]


class TestFeatureEncoder:
    def space(self) -> ConfigSpace:
        knobs = (Knob("tile", (1, 3, 7)), Knob("outer", ("rows", "columns")), Knob("pack", (False, True)))

        def features(config: Mapping[str, Value]) -> dict[str, float]:
            pairs = [("weight_bytes", 255.0 * int(config["tile"])), ("offset", -3.0), ("bytes", 0.0)]
            return dict(reversed(pairs) if config["pack"] else pairs)

        return ConfigSpace(knobs, {"tile": 1, "outer": "rows", "pack": False}, features=features)

    def test_columns_are_knobs_in_order_and_then_features_by_name(self) -> None:
        encoder = FeatureEncoder(self.space())
        assert encoder.names == (
            *("knob.tile", "knob.outer=rows", "knob.outer=columns", "knob.pack=False", "knob.pack=True"),
            *("bytes", "offset", "weight_bytes"),
        )
        assert encoder.knob_columns == 5

    def test_values_are_logarithms_and_the_order_of_keys_does_not_matter(self) -> None:
        rows = FeatureEncoder(self.space()).matrix(
            [{"tile": 1, "outer": "rows", "pack": True}, {"pack": False, "outer": "columns", "tile": 3}]
        )
        assert rows.tolist() == [[1, 1, 0, 0, 1, 0, -2, 8], [2, 0, 1, 1, 0, 0, -2, np.log2(766)]]

    def test_no_configs_give_no_rows(self) -> None:
        assert FeatureEncoder(self.space()).matrix([]).shape == (0, 8)

    def test_all_configs_of_a_real_space_differ(self) -> None:
        space = conv_space()
        rows = FeatureEncoder(space).matrix(list(space))
        assert len(np.unique(rows, axis=0)) == space.size

    def test_a_feature_that_is_no_number_is_refused_by_name(self) -> None:
        waste = {1: 1.0, 2: float("nan")}
        space = ConfigSpace((Knob("tile", (1, 2)),), {"tile": 1}, features=lambda c: {"waste": waste[int(c["tile"])]})
        with pytest.raises(CostModelError, match=r"feature `waste` of \{'tile': 2\} is not finite: nan"):
            FeatureEncoder(space).matrix([{"tile": 1}, {"tile": 2}])


class TestCostModelContract:
    """What every cost model must do; a new one is another parameter."""

    @pytest.fixture(params=MODELS)
    def name(self, request: pytest.FixtureRequest) -> str:
        name: str = request.param
        return name

    @pytest.fixture
    def model(self, name: str) -> CostModel:
        return MODELS[name]()

    def test_ranks_configs_it_has_not_seen(self, model: CostModel) -> None:
        space = conv_space()
        seen, others = split(list(space), 0.4)
        model.fit(samples_of(space, seen))
        scores = model.predict(FeatureEncoder(space).matrix(others))
        assert scores.shape == (len(others),)
        assert spearman(scores, [calls_per_s(config, space) for config in others]) > 0.9

    def test_compares_configs_within_their_workload(self, model: CostModel) -> None:
        space = conv_space()
        seen, others = split(list(space), 0.6)
        fast, slow = samples_of(space, seen[::2], "a", 1000.0), samples_of(space, seen[1::2], "b")
        model.fit([sample for pair in zip(fast, slow, strict=False) for sample in pair])
        scores = model.predict(FeatureEncoder(space).matrix(others))
        assert spearman(scores, [calls_per_s(config, space) for config in others]) > 0.9

    def test_expects_what_looks_like_a_failure_to_be_slow(self, model: CostModel) -> None:
        space = conv_space()
        fails = [config for config in space if int(config["tile_registers"]) > 3]
        works = [config for config in space if int(config["tile_registers"]) <= 3]
        broken = [Sample(sample.features, 0.0, CONV) for sample in samples_of(space, fails[::3])]
        model.fit([*broken, *samples_of(space, works[::3])])
        encoder = FeatureEncoder(space)
        assert model.predict(encoder.matrix(fails)).max() < model.predict(encoder.matrix(works)).min()

    def test_a_workload_that_only_failed_does_not_look_fast(self, model: CostModel) -> None:
        a = [Sample((float(tile), 0.0), 100.0 + tile, "a") for tile in range(20)]
        b = [Sample((float(tile), 1.0), 0.0, "b") for tile in range(20)]
        model.fit([*b, *a])
        assert model.predict(np.array([[19.0, 0.0]])) >= model.predict(np.array([[19.0, 1.0]]))

    @pytest.mark.parametrize(
        "speeds", [[5.0] * 12, [0.0] * 12, [5.0], [0.0]], ids=["equal", "failed", "one", "one failed"]
    )
    def test_scores_are_equal_where_there_is_nothing_to_learn(self, model: CostModel, speeds: list[float]) -> None:
        model.fit([Sample((float(at), float(at % 3)), speed, CONV) for at, speed in enumerate(speeds)])
        scores = model.predict(np.random.default_rng(0).random((7, 2)) * 12)
        assert np.isfinite(scores).all()
        assert len(set(scores)) == 1

    def test_a_fit_forgets_the_one_before(self, model: CostModel, name: str) -> None:
        space = conv_space()
        first, second = split(list(space), 0.3)
        model.fit(samples_of(space, first))
        model.fit(samples_of(space, second))
        fresh = MODELS[name]()
        fresh.fit(samples_of(space, second))
        rows = FeatureEncoder(space).matrix(first)
        assert model.predict(rows).tolist() == fresh.predict(rows).tolist()

    @pytest.mark.thorough
    def test_scores_are_the_same_in_another_process(self, name: str) -> None:
        measure = f"print(json.dumps(t.scores_of_landscape({name!r})))"
        code = f"import json; from tests.tuner.cost_model import test_cost_model as t; {measure}"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "1"}
        output = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        assert json.loads(output.stdout) == scores_of_landscape(name)

    def test_no_rows_have_no_scores(self, model: CostModel) -> None:
        model.fit([Sample((1.0, 2.0), 3.0, CONV)])
        assert model.predict(np.empty((0, 2))).shape == (0,)

    def test_a_question_before_the_first_fit_is_an_error(self, model: CostModel) -> None:
        with pytest.raises(CostModelError, match="a cost model must be fitted before it predicts"):
            model.predict(np.zeros((1, 2)))

    def test_rows_of_another_length_are_an_error(self, model: CostModel) -> None:
        model.fit([Sample((1.0, 2.0), 3.0, CONV)])
        with pytest.raises(CostModelError, match=r"rows of 2 columns, not of shape: \(1, 3\)"):
            model.predict(np.zeros((1, 3)))

    def test_no_samples_are_an_error(self, model: CostModel) -> None:
        with pytest.raises(CostModelError, match="at least one sample"):
            model.fit([])

    def test_samples_of_different_lengths_are_an_error(self, model: CostModel) -> None:
        with pytest.raises(CostModelError, match="the same columns, these have: 1, 2"):
            model.fit([Sample((1.0, 2.0), 3.0, CONV), Sample((1.0,), 3.0, CONV)])


class TestKrigedCostModel:
    def test_a_surprise_is_passed_on_to_those_alike(self) -> None:
        """Eight configs are as fast as expected, but for one that is twice as fast."""
        rows = [(float(at), 1.0) for at in range(8)]
        samples = [Sample(row, 2.0 if row[0] == 6 else 1.0, CONV) for row in rows]
        model = KrigedCostModel(XGBoostCostModel(), np.array([1.0, np.inf]))
        model.fit(samples, lambda rows: np.zeros(len(rows)))
        near, far = model.predict(np.array([[6.5, 1.0], [2.0, 1.0]]))
        assert near > far + 0.2
        # A column of which nothing is known makes no distance.
        assert model.predict(np.array([[6.5, 9.0]])) == near

    def test_of_many_samples_the_fastest_are_remembered_most(self) -> None:
        speeds = np.random.default_rng(0).permutation(4000.0 + np.arange(4000))
        ranks = 7999 - speeds[densest_first(speeds)]
        assert len(ranks) <= MOST_SAMPLES
        assert (ranks[0], ranks[-1]) == (0, 3999)
        assert sum(ranks < 100) > 5 * sum(ranks >= 3900) > 0

    def test_spans_are_those_of_the_space(self) -> None:
        space = conv_space()
        encoder = FeatureEncoder(space)
        whole = spans_of(encoder.matrix(list(space)))
        constant = np.isinf(whole)
        assert (np.isinf(encoder.spans) == constant).all()
        np.testing.assert_allclose(encoder.spans[~constant], whole[~constant], rtol=0.25)


@pytest.mark.parametrize("speed", [-1.0, float("nan"), float("inf")])
def test_a_sample_needs_a_speed(speed: float) -> None:
    with pytest.raises(CostModelError, match="finite and at least 0"):
        Sample((1.0,), speed, CONV)


def test_the_library_is_imported_by_the_first_fit_only() -> None:
    code = "import sys, tuner.cost_model.xgboost; sys.exit('xgboost' in sys.modules)"
    root = ROOT
    subprocess.run([sys.executable, "-c", code], cwd=root, timeout=60, check=True)


@pytest.mark.parametrize("name", MODELS)
def test_speed_of_fit(benchmark: BenchmarkFixture, name: str) -> None:
    space = conv_space()
    samples = samples_of(space, list(space)[:300])
    model = MODELS[name]()
    benchmark(model.fit, samples)
    assert model.predict(np.array([samples[0].features])).shape == (1,)


def test_trees_begin_with_scores_and_learn_what_these_leave() -> None:
    import xgboost

    matrix = xgboost.DMatrix(np.zeros((3, 1)), label=[1.0, 2.0, 4.0])
    _start_from(np.array([0.0, 1.0, 2.0]), matrix, np.array([True, True, False]))
    assert matrix.get_base_margin().tolist() == [0, 1, 2]
    assert matrix.get_label().tolist() == [0, 1, 3]


def test_spans_are_those_of_all_points_or_of_some(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    at = ConfigSpace.at
    monkeypatch.setattr(ConfigSpace, "at", lambda space, place: (seen.append(place), at(space, place))[1])
    large, small = conv_space(), ConfigSpace((Knob("tile", (1, 2, 4)),), {"tile": 1})
    assert large.grid_size > SPAN_POINTS > small.grid_size
    assert len(FeatureEncoder(large).spans) > 0
    assert len(seen) <= SPAN_POINTS
    seen.clear()
    assert FeatureEncoder(small).spans.tolist() == spans_of(np.log2([[2.0], [2.0], [3.0], [5.0]])).tolist()
    assert seen == [0, 1, 2]


class Silent:
    """A model that finds all configs alike."""

    def fit(self, samples: Sequence[Sample], margin: object = None) -> None:
        pass

    def predict(self, features: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.zeros(len(features))


def test_trees_and_process_have_a_whole_share_together() -> None:
    model = KrigedCostModel(Silent(), np.array([0.5, 0.5]))  # so that no config is like another
    samples = [Sample((float(at % 7) * 9, float(at // 7) * 9), 2.0 ** (at * 5 % 11), CONV) for at in range(28)]
    model.fit(samples)
    scores = model.predict(np.array([sample.features for sample in samples]))
    slope = np.polyfit([np.log2(sample.speed) for sample in samples], scores, 1)[0]
    assert 0.5 < slope <= 1 - TREES_SHARE + 0.01
