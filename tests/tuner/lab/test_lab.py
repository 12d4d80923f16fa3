"""The lab: recordings as files, races on them, and what other layers teach."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from int8tune.results.metaschedule import RECORDS, WORKLOADS
from int8tune.results.record import Candidate, Outcome, Trial
from int8tune.schedules.registry import template_for
from int8tune.schedules.target import named_target
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.cost_model import prior as priors
from int8tune.tuner.cost_model.experience import LayerExperience, aligned, experience_of
from int8tune.tuner.cost_model.prior import Prior, learn_prior, load_prior, save_prior
from int8tune.tuner.errors import CostModelError, RecordingError
from int8tune.tuner.lab.explain import explain
from int8tune.tuner.lab.leaderboard import leaderboard
from int8tune.tuner.lab.lessons import Classroom
from int8tune.tuner.lab.metaschedule import read_database
from int8tune.tuner.lab.race import default_share, race, zero_trial_share
from int8tune.tuner.lab.recorded_layer import RecordedLayer, canonical
from int8tune.tuner.lab.recording import bundled, read_recording, record_layers, write_recording
from tests.support.program.cli_program import int8tune
from tests.support.program.results_samples import duel, estimated, ok
from tests.support.run.probes import any_target

pytest.importorskip("pyarrow", reason="needs the extra `lab`: recordings are Parquet files")

TARGET = "x86-avx512vnni"
KNOWN = named_target(TARGET)
SMALL = (
    "conv2d-u8s8-1x7x7x64-k1x1x48-s1-p0-float.c-u8",
    "conv2d-u8s8-1x9x9x32-k1x1x64-s1-p0-float.c-u8",
    "conv2d-u8s8-1x8x8x48-k1x1x32-s1-p0-float.c-u8",
)


def trials_of(key: str) -> list[Trial]:
    """Trials of a layer's whole space: far tiles take longer than their template expects, every fortieth fails."""
    workload, target = parse_workload(key), any_target(TARGET)
    template = template_for(workload, target)
    space = template.space(workload, target)
    trials = []
    for index, config in enumerate(space):
        candidate = Candidate(key, TARGET, template.name, template.version, config)
        features = space.features(config)
        penalty = 1 + 0.1 * abs(features["accumulators"] - 12) * (1 + features["weights_outer"])
        fine = ok(index, features["estimated_cycles"] * penalty * 1e-9, chosen=candidate)
        failed = replace(fine, outcome=Outcome.RUN_FAILED, measurement=None)
        trials.append(failed if index % 40 == 39 and config != space.default else fine)
    return trials


@pytest.fixture(scope="module")
def layers() -> list[RecordedLayer]:
    return record_layers(trial for key in SMALL for trial in trials_of(key))


@pytest.fixture(scope="module")
def prior() -> Prior:
    prior = learn_prior(experience_of((trial for key in SMALL for trial in trials_of(key)), "x86.conv", KNOWN))
    assert prior is not None
    return prior


class TestRecording:
    def test_a_file_gives_back_what_was_written(self, layers: list[RecordedLayer], tmp_path: Path) -> None:
        path = tmp_path / "small.parquet"
        assert write_recording(layers, path) == sum(len(layer.times_s) for layer in layers)
        back = read_recording(path)
        assert [layer.name for layer in back] == [layer.name for layer in layers]
        for before, after in zip(layers, back, strict=True):
            assert list(after.times_s) == list(before.times_s)
            assert [time is None for time in after.times_s.values()] == [t is None for t in before.times_s.values()]
            np.testing.assert_allclose(
                [time or 0 for time in after.times_s.values()], [t or 0 for t in before.times_s.values()], rtol=1e-6
            )

    def test_a_space_has_what_was_recorded_and_nothing_else(self, layers: list[RecordedLayer]) -> None:
        for layer in layers:
            assert {canonical(config) for config in layer.space} == set(layer.times_s)
            assert layer.space.features(layer.space.default)["estimated_cycles"] > 0
        half = dict(list(layers[0].times_s.items())[::2])
        default = canonical(layers[0].space.default)
        part = replace(layers[0], times_s=half | {default: layers[0].times_s[default]})
        assert {canonical(config) for config in part.space} == set(part.times_s)

    def test_drift_of_the_machine_is_taken_out(self) -> None:
        """For an hour everything takes twice as long; a loop that was disturbed once says nothing."""
        trials = []
        for index in range(400):
            slow = 2.0 if index >= 200 else 1.0
            probe_s = 4e-5 * slow * (5 if index == 50 else 1)
            trial = ok(index, 1e-3 * slow, chosen=Candidate(SMALL[0], TARGET, "x86.conv", 1, {"a": index}))
            assert trial.measurement is not None
            measured = replace(trial.measurement, observed={"probe_before_s": probe_s, "probe_after_s": probe_s})
            started_at = f"2026-03-01T12:{index // 60:02}:{index % 60:02}.000+00:00"
            trials.append(replace(trial, measurement=measured, started_at=started_at))
        (layer,) = record_layers(reversed(trials))
        times = [layer.times_s[canonical({"a": index})] or 0.0 for index in range(400)]
        settled = [time for index, time in enumerate(times) if abs(index - 200) > 25]
        assert max(settled) == pytest.approx(min(settled))
        assert max(times) <= 2.001 * min(times)

    def test_where_the_machine_was_not_watched_times_stay_as_they_are(self) -> None:
        chosen = [Candidate(SMALL[0], TARGET, "x86.conv", 1, {"a": index}) for index in range(2)]
        trials = [ok(index, 1e-3 * (1 + index), chosen=each) for index, each in enumerate(chosen)]
        (layer,) = record_layers(trials)
        assert list(layer.times_s.values()) == [1e-3, 2e-3]

    def test_duels_tell_how_much_of_the_drift_kernels_have(self) -> None:
        """The loop of the peak takes four times as long from trial 200 on, kernels twice as long."""
        trials = []
        for index in range(400):
            slow = index >= 200
            trial = ok(index, 2e-3 if slow else 1e-3, chosen=Candidate(SMALL[0], TARGET, "x86.conv", 1, {"a": index}))
            assert trial.measurement is not None
            measured = replace(trial.measurement, observed={"probe_before_s": 1.6e-4 if slow else 4e-5})
            started_at = f"2026-03-01T12:{index // 60:02}:{index % 60:02}.000+00:00"
            trials.append(replace(trial, measurement=measured, started_at=started_at))
        pairs = [(trials[0], trials[300]), (trials[50], trials[350]), (trials[10], trials[20])]
        duels = [duel(first.candidate, second.candidate, 1.0, noise=0.0) for first, second in pairs]
        (layer,) = record_layers(trials, duels)
        assert layer.times_s[canonical({"a": 0})] == pytest.approx(layer.times_s[canonical({"a": 399})], rel=1e-3)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "is no recording: "),
            (b"PAR1 but not really PAR1", "is no recording: "),
            ({"target": ["a"]}, "it lacks the columns workload, template, version, config, outcome, time_s"),
            ({"config": ["{"]}, "a config is not JSON: {"),
            ({"config": ["[1]"]}, "this is not a config: "),
            ({"config": ['{"a": 1.5}']}, "this is not a config: "),
            ({"time_s": [-1.0]}, "a time must be positive: -1"),
            ({"time_s": [float("inf")]}, "a time must be positive: inf"),
            ({"time_s": [float("nan")]}, "has no layer with a config that works"),
        ],
    )
    def test_other_files_are_refused(self, content: Any, message: str, tmp_path: Path) -> None:
        import pandas

        path = tmp_path / "bad.parquet"
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            good = {"target": [TARGET], "workload": [SMALL[0]], "template": ["x86.conv"], "version": [1]}
            good |= {"config": ['{"a": 1}'], "outcome": ["ok"], "time_s": [1e-3]}
            pandas.DataFrame(content if "target" in content else good | content).to_parquet(path)
        with pytest.raises(RecordingError) as raised:
            read_recording(path)
        assert message in str(raised.value)

    @pytest.mark.slow
    def test_a_campaign_is_exported(self, tmp_path: Path) -> None:
        table = tmp_path / "one.json"
        layer = {"name": "a", "count": 1, "workload": SMALL[0]}
        table.write_text(json.dumps({"format": 1, "name": "one", "description": "one layer", "layers": [layer]}))
        results, out = tmp_path / "results", tmp_path / "one.parquet"
        tuned = int8tune("tune", table, "--results", results, "--trials", 5, "--target", "generic")
        assert tuned.code == 0, tuned.err
        assert int8tune("results", "export", out, "--results", results).out == "5 configs of 1 layers\n"
        assert int8tune("lab", "--data", out, "--seeds", 1, "--trials", 4).code == 0

    def test_estimates_are_not_recorded(self) -> None:
        with pytest.raises(RecordingError, match="estimated, not measured"):
            record_layers([ok(0), estimated(1)])


class TestRace:
    @pytest.mark.thorough
    def test_equal_seeds_give_equal_runs(self, layers: list[RecordedLayer]) -> None:
        names = ["xgboost+others", "xgboost", "random"]
        assert list(race(Classroom(layers[:2]), names, 2, 20)) == list(race(Classroom(layers[:2]), names, 2, 20))

    @pytest.mark.thorough
    def test_no_strategy_has_more_trials_than_its_budget_and_all_begin_with_the_default(
        self, layers: list[RecordedLayer]
    ) -> None:
        runs = list(
            race(Classroom(layers), ["xgboost+others", "xgboost", "evolution", "descent", "random", "grid"], 1, 20)
        )
        assert {len(run.shares) for run in runs} == {20}
        defaults = {layer.name: default_share(layer) for layer in layers}
        assert all(run.shares[0] == defaults[run.layer] for run in runs)
        assert all(list(run.shares) == sorted(run.shares) for run in runs)

    def test_a_budget_of_the_whole_space_finds_the_best(self, layers: list[RecordedLayer]) -> None:
        size = len(layers[0].times_s)
        for run in race(Classroom(layers[:1]), ["random", "grid"], 1, size + 50):
            assert len(run.shares) == size
            assert run.shares[-1] == 1.0

    @pytest.mark.thorough
    def test_the_leaderboard_counts_trials(self, layers: list[RecordedLayer]) -> None:
        standings = leaderboard(race(Classroom(layers), ["random", "xgboost"], 3, 40), 40)
        assert {standing.strategy for standing in standings} == {"random", "xgboost"}
        for standing in standings:
            assert list(standing.shares) == [4, 8, 16, 32]
            assert list(standing.shares.values()) == sorted(standing.shares.values())
            assert list(standing.good_layers.values()) == sorted(standing.good_layers.values())
            assert 1 <= standing.trials_to_good <= 40
        assert standings[0].shares[16] >= standings[1].shares[16]

    def test_a_layer_that_is_raced_does_not_teach(self, layers: list[RecordedLayer]) -> None:
        assert Classroom(layers[:1]).prior_without(0) is None
        assert zero_trial_share(Classroom(layers[:1]), 0) is None
        prior = Classroom(layers).prior_without(0)
        assert prior is not None
        assert prior.layers == len(layers) - 1

    def test_a_layer_is_encoded_once_and_a_model_learned_once(self, layers: list[RecordedLayer]) -> None:
        classroom = Classroom(layers)
        assert classroom.prior_without(0) is classroom.prior_without(0)
        assert classroom.experience(1) is classroom.experience(1)
        assert [len(each.rows) for each in classroom.experience(1)] == [len(layers[1].times_s)]

    def test_layers_of_other_targets_do_not_teach(self, layers: list[RecordedLayer]) -> None:
        assert Classroom([layers[0], replace(layers[1], target="x86-avx2")]).prior_without(0) is None

    def test_other_layers_know_a_good_config_before_any_trial(self, layers: list[RecordedLayer]) -> None:
        for index in range(len(layers)):
            share, layer = zero_trial_share(Classroom(layers), index), layers[index]
            assert share is not None
            others = [layer.best_s / time if time else 0.0 for time in layer.times_s.values()]
            assert np.mean([share >= other for other in others]) > 0.85


class TestExplain:
    def test_columns_and_calibration(self, layers: list[RecordedLayer]) -> None:
        """One layer's kernels take seconds."""
        slow = {config: time and 1e6 * time for config, time in layers[0].times_s.items()}
        (found,) = explain(Classroom([replace(layers[0], times_s=slow), *layers[1:]]))
        assert (found.template, found.layers) == ("x86.conv", len(layers))
        assert 0 < sum(found.importance.values()) <= 1
        assert sum(bin.count for bin in found.bins) == sum(
            1 for layer in layers for time in layer.times_s.values() if time is not None
        )
        # A model that were no better than chance would have the same mean in every bin.
        assert found.bins[-1].measured > found.bins[0].measured

    def test_one_layer_teaches_nobody(self, layers: list[RecordedLayer]) -> None:
        assert explain(Classroom(layers[:1])) == []


class TestBundled:
    """The recordings that come with the program."""

    @pytest.mark.thorough
    def test_there_are_at_least_twelve_layers_of_different_classes(self) -> None:
        layers = bundled()
        assert len({layer.workload for layer in layers}) >= 12
        assert {layer.template for layer in layers} >= {"x86.conv", "x86.depthwise", "x86.grouped", "x86.amx"}
        for layer in layers:
            recorded = {canonical(layer.space.completed(json.loads(text))) for text in layer.times_s}
            assert {canonical(config) for config in layer.space} == recorded
            assert len(recorded) == len(layer.times_s)

    def test_defaults_are_those_of_the_templates_but_for_knobs_that_came_later(self) -> None:
        for layer in (each for each in bundled() if each.template in ("x86.conv", "x86.grouped")):
            workload, target = parse_workload(layer.workload), named_target(layer.target)
            own = template_for(workload, target).space(workload, target)
            assert layer.space.default in (own.default, own.as_before(own.default)), layer.workload

    @pytest.mark.thorough
    def test_the_guided_strategies_do_not_lose_to_random(self) -> None:
        layers = [layer for layer in bundled() if layer.target == TARGET and "conv2d" in layer.workload][:4]
        standings = leaderboard(race(Classroom(layers), ["xgboost+others", "xgboost", "random"], 4, 16), 16)
        shares = {standing.strategy: standing.shares for standing in standings}
        assert shares["xgboost"][8] >= shares["random"][8] + 0.01
        assert shares["xgboost"][16] >= shares["random"][16]
        assert shares["xgboost+others"][8] >= shares["random"][8] + 0.01

    @pytest.mark.thorough
    def test_few_trials_reach_what_docs_say(self) -> None:
        """From nothing, taught by a campaign's own layers, and by others: a little below the figures of the docs."""
        strategies = ["xgboost", "xgboost+campaign", "xgboost+others"]
        standings = leaderboard(race(Classroom(bundled()), strategies, 2, 16), 16)
        shares = {standing.strategy: (standing.shares[8], standing.shares[16]) for standing in standings}
        for strategy, least in zip(strategies, ((0.97, 0.985), (0.97, 0.988), (0.98, 0.991)), strict=True):
            assert min(np.subtract(shares[strategy], least)) >= 0, (strategy, shares[strategy])
        assert min(np.subtract(shares["xgboost+others"], shares["xgboost"])) > 0


class TestPrior:
    def test_the_same_trials_give_the_same_scores_in_any_order(self, prior: Prior) -> None:
        trials = [trial for key in reversed(SMALL) for trial in trials_of(key)]
        experience = experience_of(trials, "x86.conv", KNOWN)
        again = learn_prior(experience)
        assert again is not None
        rows = experience[0].rows
        assert (again.scores(experience[0].names, rows) == prior.scores(experience[0].names, rows)).all()

    def test_it_says_which_columns_matter(self, prior: Prior) -> None:
        importance = prior.importance()
        assert sum(importance.values()) == pytest.approx(1)
        assert {"estimated_cycles", "accumulators"} & set(list(importance)[:3])

    def test_nothing_is_learned_from_nothing(self) -> None:
        assert learn_prior([]) is None
        assert learn_prior(experience_of(trials_of(SMALL[0])[:1], "x86.conv", KNOWN)) is None
        failed = [replace(trial, outcome=Outcome.RUN_FAILED, measurement=None) for trial in trials_of(SMALL[0])]
        assert learn_prior(experience_of(failed, "x86.conv", KNOWN)) is None

    def test_of_many_rows_each_layer_gives_as_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two layers give every third of their 40 rows, from end to end: what the others say changes nothing."""
        monkeypatch.setattr(priors, "MOST_ROWS", 28)
        rows, kept = np.arange(40.0)[:, None], np.arange(40) % 3 == 0
        scores = []
        for others in (1.0, 40.0):
            speeds = np.where(kept, 1.0 + np.arange(40), others)
            prior = learn_prior([LayerExperience(key, ("tile",), rows, speeds) for key in SMALL[:2]])
            assert prior is not None
            scores.append(prior.scores(("tile",), rows).tolist())
        assert scores[0] == scores[1]
        assert len(set(scores[0])) > 1

    def test_trials_of_another_template_target_or_version_are_left_out(self) -> None:
        trials = trials_of(SMALL[0])
        assert experience_of(trials, "x86.amx", KNOWN) == []
        assert experience_of(trials, "x86.conv", named_target("x86-avx2")) == []
        old = [replace(trial, candidate=replace(trial.candidate, template_version=0)) for trial in trials]
        assert experience_of(old, "x86.conv", KNOWN) == []

    def test_columns_that_a_layer_lacks_are_missing(self) -> None:
        rows = aligned(("a", "b"), np.array([[1.0, 2.0]]), ("b", "knob.x=copy", "c"))
        assert rows[0, :2].tolist() == [2.0, 0.0]
        assert np.isnan(rows[0, 2])

    @pytest.mark.thorough
    def test_speed_of_learning(self, benchmark: BenchmarkFixture) -> None:
        """From the trials of all recorded convolutions on AVX512-VNNI."""
        recorded = [layer for layer in bundled() if (layer.template, layer.target) == ("x86.conv", TARGET)]
        experience = [each for index in range(len(recorded)) for each in Classroom(recorded).experience(index)]
        assert benchmark(learn_prior, experience) is not None

    def test_a_saved_model_gives_the_same_scores(self, prior: Prior, tmp_path: Path) -> None:
        save_prior(prior, tmp_path / "model.json")
        again = load_prior(tmp_path / "model.json")
        rows = np.random.default_rng(0).random((50, len(prior.names)))
        assert again.layers == prior.layers
        assert (again.scores(prior.names, rows) == prior.scores(prior.names, rows)).all()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda text: text[: len(text) // 2], "it is not JSON"),
            (lambda _text: "[1, 2]", "its version is: None"),
            (lambda text: text.replace('"int8tune_cost_model": 1', '"int8tune_cost_model": 2'), "its version is: 2"),
            (lambda text: text.replace('"columns"', '"rows"'), "its columns or layers are missing"),
            (lambda text: json.dumps({**json.loads(text), "model": {}}), "is damaged: "),
            (lambda text: json.dumps({**json.loads(text), "columns": ["a"]}), "columns, 1 are named"),
        ],
    )
    def test_a_damaged_model_is_refused(self, prior: Prior, change: Any, message: str, tmp_path: Path) -> None:
        path = tmp_path / "model.json"
        save_prior(prior, path)
        path.write_text(change(path.read_text()))
        with pytest.raises(CostModelError) as raised:
            load_prior(path)
        assert message in str(raised.value)

    def test_a_model_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(CostModelError, match="No such file"):
            load_prior(tmp_path / "none.json")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that TVM itself wrote: sixteen ways to split one loop."""
    import tvm
    from tvm.s_tir.meta_schedule.database import JSONDatabase, TuningRecord
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def scale(a: T.Buffer((64,), "int32"), b: T.Buffer((64,), "int32")):
        for i in T.serial(64):
            with T.sblock("scale"):
                vi = T.axis.spatial(64, i)
                b[vi] = a[vi] * 3

    folder = tmp_path_factory.mktemp("metaschedule")
    module = tvm.IRModule({"main": scale})
    database = JSONDatabase(work_dir=str(folder))
    workload = database.commit_workload(module)
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v4"})
    for seed in range(1, 17):
        schedule = tvm.s_tir.Schedule(module, seed=seed)
        (loop,) = schedule.get_loops(schedule.get_sblock("scale"))
        schedule.split(loop, schedule.sample_perfect_tile(loop, 2))
        run_s = [seed * 1e-6] if seed % 4 else [1e10]
        database.commit_tuning_record(TuningRecord(schedule.trace, workload, run_s, target))
    return folder


class TestMetaSchedule:
    def test_its_candidates_are_configs(self, database: Path) -> None:
        (layer,) = read_database(database)
        assert (layer.target, layer.template) == ("x86-64-v4", "metaschedule")
        assert {canonical(config) for config in layer.space} == set(layer.times_s)
        assert 1 < len(layer.times_s) <= 7  # 64 has seven divisors
        assert all(time is None or time < 1 for time in layer.times_s.values())

    @pytest.mark.thorough
    def test_strategies_race_on_them(self, database: Path) -> None:
        shown = int8tune("lab", "--data", database, "--seeds", 2, "--trials", 7, "--strategies", "xgboost,random")
        assert shown.code == 0, shown.err
        assert "100.0%" in shown.out

    @pytest.mark.parametrize(
        ("records", "message"),
        [
            ("{", "line 1: not JSON"),
            ("[0]\n", "line 1: not a record of MetaSchedule"),
            ("", "has no candidate that works"),
        ],
    )
    def test_other_files_are_refused(self, records: str, message: str, tmp_path: Path) -> None:
        (tmp_path / WORKLOADS).write_text('["1", "x"]\n')
        (tmp_path / RECORDS).write_text(records)
        with pytest.raises(RecordingError) as raised:
            read_database(tmp_path)
        assert message in str(raised.value)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--strategies", "xgboost,magic"), 2, "unknown search strategy `magic`, known: xgboost+others, "),
        (("--seeds", "0"), 2, "seeds must be 1 to 1000: 0"),
        (("--trials", "1000000"), 2, "trials must be 1 to 10000: 1000000"),
        (("--only", "("), 2, "`only` is not a regular expression: (: "),
        (("--only", "conv9d"), 2, "layers matches `only`: conv9d"),
        (("--data", "none.parquet"), 1, "no recording is there: none.parquet"),
        (("--data", "."), 1, "no database of MetaSchedule is there: "),
    ],
)
def test_errors_are_one_line(arguments: Sequence[str], code: int, message: str, tmp_path: Path) -> None:
    ended = int8tune("lab", *arguments, cwd=tmp_path)
    assert ended.code == code
    error, hint = ended.err.splitlines()
    assert message in error
    assert hint.startswith("hint: ")
