"""Records, best logs, lessons and recordings of earlier versions apply to the templates of this one."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from int8tune.compiler.best_log import schedule_faults
from int8tune.compiler.schedule_choice import Schedules, Source
from int8tune.results.best import BestSchedule, best_schedules
from int8tune.results.best_log import read_best_log, write_best_log
from int8tune.results.memory import MemoryStore
from int8tune.results.record import Campaign, Candidate, Duel, Outcome, Trial
from int8tune.results.stats import ITSELF
from int8tune.schedules.errors import UnknownTemplateError
from int8tune.schedules.registry import template_for, template_named
from int8tune.schedules.space import Value
from int8tune.schedules.target import Target, gpu_target, named_target, targets_named
from int8tune.schedules.template import Template
from int8tune.schedules.upgrades import UPGRADES, upgraded, with_same_kernel
from int8tune.schedules.workload import parse_workload
from int8tune.schedules.x86.conv import ConvX86
from int8tune.tuner.campaign.loop import Ending
from int8tune.tuner.campaign.plan import make_plan
from int8tune.tuner.campaign.search import make_search
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.campaign.teaching import Teacher
from int8tune.tuner.cost_model.experience import experience_of
from int8tune.tuner.lab.lessons import Classroom
from int8tune.tuner.lab.losses import replayable
from int8tune.tuner.lab.race import race
from int8tune.tuner.lab.recorded_layer import RecordedLayer, canonical
from int8tune.tuner.lab.recording import bundled, read_recording, record_layers, write_recording
from int8tune.tuner.suggest import recorded_best, suggest
from tests.support.places import TESTS
from tests.support.program.campaigns import campaign_loop, network_of, trials_of
from tests.support.program.cli_program import int8tune
from tests.support.program.results_samples import ok
from tests.support.run.probes import any_target, host_target
from tests.support.stand_ins.changed_templates import RENAMING, ConvWithKnob, NewKernelsConv, RenamedConv, with_conv

RECORDINGS = sorted([*(TESTS / "data").glob("*.parquet"), *(TESTS.parent / "tuner" / "lab").glob("*.parquet")])
# Of each best log some templates. The second one is of a campaign on an H200, whose kernels have changed since.
KEPT = {
    "best_log_v1.jsonl": {"x86.amx", "arm.conv"},
    "best_log_v1_gpu.jsonl": {"cuda.first", "cuda.wgmma", "cuda.mma", "cuda.dp4a", "cuda.depthwise"},
}
OF_OTHER_KERNELS = "best_log_v1_gpu.jsonl"
BEST_LOGS = sorted((TESTS / "data").glob("best_log_*.jsonl"))
KEYS = ("conv2d-u8s8-1x8x8x64-k1x1x32-s1-p0-float.c-u8", "conv2d-u8s8-1x6x9x48-k1x1x48-s1-p0-float.c-u8")
PER_LAYER = 6


def needs_parquet() -> None:
    pytest.importorskip("pyarrow", reason="needs the extra `lab`: recordings are Parquet files")


class TestKept:
    """Every best log and recording of this repository."""

    def test_there_are_some(self) -> None:
        assert {path.name for path in RECORDINGS} >= {"amx.parquet", "vnni.parquet", "recording_x86_1.parquet"}
        assert {path.name for path in BEST_LOGS} == set(KEPT)

    @pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
    def test_recordings_are_replayed_whole(self, path: Path) -> None:
        needs_parquet()
        for layer in read_recording(path):
            assert layer.loss is None
            assert layer.missing_configs == 0
            assert len(list(layer.space)) == len(layer.times_s)
            assert layer.space.features(layer.space.default)

    @pytest.mark.thorough
    def test_the_bundled_ones_teach(self) -> None:
        needs_parquet()
        layers = bundled()
        assert replayable(layers) == (layers, [])
        classroom = Classroom(layers)
        for index, layer in enumerate(layers):
            assert [len(each.rows) for each in classroom.experience(index)] == [len(layer.times_s)]

    @pytest.mark.thorough
    @pytest.mark.parametrize("path", [path for path in BEST_LOGS if path.name != OF_OTHER_KERNELS], ids=str)
    def test_best_logs_are_used_whole(self, path: Path) -> None:
        schedules = read_best_log(path, schedule_faults)
        assert {best.candidate.template for best in schedules} >= KEPT[path.name]
        for best in schedules:
            (choice,) = {used(best, target) for target in targets_named(best.target)[:1]}
            assert choice is Source.LOG

    def test_a_log_of_other_kernels_says_so_and_has_configs_of_today(self) -> None:
        found = read_best_log(TESTS / "data" / OF_OTHER_KERNELS)
        assert {best.candidate.template for best in found} >= KEPT[OF_OTHER_KERNELS]
        for best in found:
            candidate, (target, *_) = best.candidate, targets_named(best.target)
            now = template_named(candidate.template)
            assert schedule_faults(best) == [
                f"template: template `{now.name}` has version {now.version}, not {candidate.template_version}"
            ]
            config = upgraded(candidate.template, candidate.template_version, candidate.config).config
            assert now.space(parse_workload(best.workload), target).fault(config) is None
            assert used(best, target) is Source.DEFAULT

    @pytest.mark.parametrize("path", BEST_LOGS, ids=lambda path: path.name)
    def test_their_candidates_keep_their_ids(self, path: Path) -> None:
        lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
        for line, best in zip(lines, read_best_log(path), strict=True):
            assert best.candidate.id == line["candidate"]


def test_configs_from_before_roles_are_still_configs_but_of_other_kernels() -> None:
    workload = parse_workload("conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8")
    config: dict[str, Value] = {"block_rows": 64, "block_channels": 32, "block_depth": 128, "thread_rows": 2}
    config |= {"thread_channels": 8, "stages": 6, "splits": 1, "outer": "weights"}
    for version in (1, 2, 3, 4, 5):
        found = upgraded("cuda.wgmma", version, config)
        assert not found.same_kernels
        space = found.template.space(workload, gpu_target("cuda-sm90"))
        assert space.completed(found.config) == {**config, "roles": "uniform", "added": "kernel"}
        assert space.fault(found.config) is None
        with pytest.raises(UnknownTemplateError, match=f"`cuda.wgmma` has version 6, not {version}"):
            with_same_kernel("cuda.wgmma", version, config)


def test_what_was_measured_of_other_kernels_does_not_apply() -> None:
    """Version 1 of these templates had the configs of today, and other kernels."""
    needs_parquet()
    for layer in read_recording(TESTS / "data" / "recording_x86_1.parquet"):
        assert layer.kernels_version == 1
        assert not layer.has_present_kernels
        old = Candidate(layer.workload, layer.target, layer.template, 1, json.loads(next(iter(layer.times_s))))
        best = BestSchedule(layer.workload, layer.target, "local", old, 1e-6, old.id, ITSELF, "c", 0)
        now = template_named(layer.template).version
        assert schedule_faults(best) == [f"template: template `{layer.template}` has version {now}, not 1"]
        assert used(best, any_target(layer.target)) is Source.DEFAULT
        assert experience_of([ok(0, chosen=old)], layer.template, named_target(layer.target)) == []


def used(best: BestSchedule, target: Target) -> Source:
    return Schedules(target, [best]).choose(parse_workload(best.workload)).source


def test_versions_before_the_present_one_lead_to_it() -> None:
    """Each template says of each earlier version what became of its configs."""
    for name, version in UPGRADES:
        assert 1 <= version < template_named(name).version
    for name in {name for name, _ in UPGRADES}:
        for version in range(1, template_named(name).version):
            assert upgraded(name, version, {}).template is template_named(name)


def test_records_of_several_threads_from_before_the_knob_apply() -> None:
    """They used all threads; those of `x86.amx` were slower then."""
    for key, profile, applies in (
        (KEYS[0], "x86-avx512vnni", True),
        ("dwconv2d-u8s8-1x8x8x32-k3x3x1-s1-p1-float.c-u8", "x86-avx2", True),
        ("conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8", "x86-amx", False),
    ):
        workload, target = parse_workload(key), named_target(f"{profile}-t2")
        space = template_for(workload, target).space(workload, target)
        old = {name: value for name, value in space.default.items() if name != "threads"}
        assert (space.fault(old) is None) is applies
        if applies:
            assert space.check(old)["threads"] == 2
            assert space.written(space.check(old)) == {**old, "threads": 2}


@dataclass(frozen=True)
class Before:
    """What was kept before a template changed."""

    spec: CampaignSpec
    target: Target
    store: MemoryStore
    log: Path
    recording: Path

    @property
    def trials(self) -> list[Trial]:
        return trials_of(self.store, self.spec)

    def copy(self) -> MemoryStore:
        store = MemoryStore()
        for kind in (Campaign, Trial, Duel):
            store.append(list(self.store.query(kind)))
        return store

    def fresh(self, trial: Trial) -> Candidate:
        """What this version calls the config of a trial."""
        workload = parse_workload(trial.candidate.workload)
        template = template_for(workload, self.target)
        space = template.space(workload, self.target)
        found = upgraded("x86.conv", trial.candidate.template_version, trial.candidate.config)
        written = space.written(space.check(found.config))
        return replace(trial.candidate, template_version=template.version, config=written)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Before:
    """A campaign of two layers with the template of today."""
    needs_parquet()
    target, folder = host_target("x86-avx2"), tmp_path_factory.mktemp("before")
    spec = CampaignSpec("kept", network_of(*KEYS), strategy="grid", trials_per_task=PER_LAYER)
    store = MemoryStore()
    with campaign_loop(spec, make_plan(spec.network, target), store, folder) as loop:
        assert loop.run() is Ending.FINISHED
    trials = trials_of(store, spec)
    assert [trial.outcome for trial in trials] == [Outcome.OK] * PER_LAYER * len(KEYS)
    write_best_log(folder / "best.jsonl", best_schedules(store))
    write_recording(record_layers(trials), folder / "kept.parquet")
    return Before(spec, target, store, folder / "best.jsonl", folder / "kept.parquet")


def change(monkeypatch: pytest.MonkeyPatch, template: Template) -> None:
    monkeypatch.setattr("int8tune.schedules.registry.TEMPLATES", with_conv(template))


@pytest.mark.alone
class TestKeptByAChangedTemplate:
    """A template gets another knob, or other names in a new version: what was kept before still applies."""

    @pytest.fixture(autouse=True, params=[ConvWithKnob, RenamedConv], ids=["knob", "version"])
    def changed(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, before: Before) -> None:
        del before  # it is made by the template of today
        change(monkeypatch, request.param())
        if request.param is RenamedConv:
            for place, upgrade in RENAMING.items():
                monkeypatch.setitem(UPGRADES, place, upgrade)  # type: ignore[arg-type]

    @pytest.mark.thorough
    def test_best_logs(self, before: Before) -> None:
        schedules = read_best_log(before.log, schedule_faults)
        assert len(schedules) == len(KEYS)
        for best in schedules:
            workload = parse_workload(best.workload)
            choice = Schedules(before.target, schedules).choose(workload)
            assert choice.source is Source.LOG
            was = ConvX86().apply(workload, before.target, best.candidate.config)
            now = choice.template.apply(workload, before.target, choice.config)
            assert now.function.script() == was.function.script()

    @pytest.mark.matrix(at_most=1)
    def test_records_are_the_best_of_their_layers(self, before: Before) -> None:
        for key in KEYS:
            (best,) = best_schedules(before.store, workload=key)
            assert recorded_best(before.store, parse_workload(key), before.target, "local") == best.candidate

    def test_lessons(self, before: Before) -> None:
        told: list[str] = []
        teacher = Teacher(lambda: before.trials, notice=told.append)
        prior = teacher.prior("x86.conv", before.target)
        assert prior is not None
        assert prior.layers == len(KEYS)
        experience = experience_of(before.trials, "x86.conv", before.target)
        assert [len(layer.rows) for layer in experience] == [PER_LAYER] * len(KEYS)
        assert told == []

    def test_a_layer_that_nobody_tuned_is_taught(self, before: Before) -> None:
        other = parse_workload("conv2d-u8s8-1x8x8x32-k1x1x32-s1-p0-float.c-u8")
        assert suggest(before.store, other, before.target, "local").layers == len(KEYS)

    def test_recordings(self, before: Before) -> None:
        layers = read_recording(before.recording)
        assert replayable(layers) == (layers, [])
        classroom = Classroom(layers)
        for index, layer in enumerate(layers):
            assert layer.missing_configs == 0
            assert len(list(layer.space)) == PER_LAYER
            times = [layer.time_s(config) for config in layer.space]
            assert sorted(times) == sorted(layer.times_s.values())  # type: ignore[type-var]
            assert layer.space.features(layer.space.default)["estimated_cycles"] > 0
            assert [len(each.rows) for each in classroom.experience(index)] == [PER_LAYER]
        assert all(run.shares[-1] == 1.0 for run in race(classroom, ["xgboost+others", "grid"], 1, PER_LAYER))

    def test_a_proposal_of_a_recorded_config_is_recognised(self, before: Before) -> None:
        search = make_search(before.spec, make_plan(before.spec.network, before.target), before.store)
        for run in search.runs:
            for trial in before.trials:
                if trial.candidate.workload == run.task.workload.key:
                    found = upgraded("x86.conv", trial.candidate.template_version, trial.candidate.config)
                    assert run.task.candidate(run.task.space.check(found.config)) == trial.candidate


@pytest.mark.alone
def test_candidates_keep_their_ids_when_a_knob_comes(before: Before, monkeypatch: pytest.MonkeyPatch) -> None:
    change(monkeypatch, ConvWithKnob())
    for trial in before.trials:
        assert before.fresh(trial).id == trial.candidate.id


@pytest.mark.alone
@pytest.mark.thorough
def test_nothing_is_measured_twice_when_a_knob_comes(
    before: Before, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The campaign goes on with the new knob: the grid counts the recorded configs again, and new ones in between."""
    change(monkeypatch, ConvWithKnob())
    store, spec = before.copy(), replace(before.spec, trials_per_task=2 * PER_LAYER)
    tasks = make_plan(spec.network, before.target)
    with campaign_loop(spec, tasks, store, tmp_path, server="tests.support.stand_ins.changed_build_server") as loop:
        assert loop.run() is Ending.FINISHED
    new = [trial for trial in trials_of(store, spec) if trial not in before.trials]
    assert len(trials_of(store, spec)) == len(before.trials) + len(new)
    assert 0 < len(new) <= len(KEYS) * PER_LAYER
    assert {trial.outcome for trial in new} == {Outcome.OK}
    assert {trial.candidate.config.get("doubled", False) for trial in new} == {False, True}
    kernels = [
        (trial.candidate.workload, canonical({"doubled": False, **trial.candidate.config}))
        for trial in trials_of(store, spec)
    ]
    assert len(set(kernels)) == len(kernels)
    # The template's default is another one now; the campaign's is not.
    firsts = {trial.candidate.id for trial in before.trials if trial.sequence < len(KEYS)}
    assert {run.task.default.id for run in make_search(spec, tasks, store).runs} == firsts
    assert {duel.a for duel in store.query(Duel)} == firsts


@pytest.mark.alone
def test_nothing_is_measured_again_when_a_version_has_the_same_kernels(
    before: Before, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(monkeypatch, RenamedConv())
    for place, upgrade in RENAMING.items():
        monkeypatch.setitem(UPGRADES, place, upgrade)  # type: ignore[arg-type]
    assert make_search(before.spec, make_plan(before.spec.network, before.target), before.store).nothing_left()


LOST = f"template `x86.conv` has version {NewKernelsConv.version}, not {ConvX86.version}"


@pytest.mark.alone
class TestLost:
    """A new version says nothing of the one before: what was kept is left out, and that is said."""

    @pytest.fixture(autouse=True)
    def changed(self, monkeypatch: pytest.MonkeyPatch, before: Before) -> None:
        del before
        change(monkeypatch, NewKernelsConv())

    def test_best_logs(self, before: Before) -> None:
        (best, *_) = read_best_log(before.log)
        assert schedule_faults(best) == [f"template: {LOST}"]
        assert used(best, before.target) is Source.DEFAULT

    def test_lessons_say_so_once(self, before: Before) -> None:
        told: list[str] = []
        teacher = Teacher(lambda: before.trials, notice=told.append)
        for _ in range(3):
            assert teacher.prior("x86.conv", before.target) is None
        assert told == [f"12 earlier trials of x86.conv teach nothing any more: {LOST}"]

    def test_recordings_that_are_bundled(self) -> None:
        layers = bundled()
        kept, notices = replayable(layers)
        (recorded,) = {layer.version for layer in layers if layer.template == "x86.conv"}
        lost = f"template `x86.conv` has version {NewKernelsConv.version}, not {recorded}"
        assert notices == [f"left out, 11 of 28 recordings have lost their template: {lost}"]
        assert [layer for layer in layers if layer not in kept] == [
            layer for layer in layers if layer.template == "x86.conv"
        ]
        assert Classroom(kept).prior_without(0) is not None


def small_recording(path: Path, *, versions: tuple[int, ...], configs: int = 40) -> None:
    """Layers of which every config takes another time, as templates of these versions recorded them."""
    target, layers = any_target("x86-avx512vnni"), []
    for number, version in enumerate(versions):
        workload = parse_workload(KEYS[number])
        space = template_for(workload, target).space(workload, target)
        some = [dict(space.default), *(space.sample(np.random.default_rng(seed)) for seed in range(configs))]
        times_s = {canonical(config): 1e-5 * (1 + at) for at, config in enumerate(some)}
        layers.append(RecordedLayer(target.name, workload.key, "x86.conv", version, times_s))
    write_recording(layers, path)


class TestProgram:
    """What `int8tune lab` says."""

    ARGUMENTS = ("--seeds", 1, "--trials", 4, "--strategies", "random")

    @pytest.mark.thorough
    def test_it_goes_on_with_the_recordings_that_are_left(self, tmp_path: Path) -> None:
        needs_parquet()
        small_recording(tmp_path / "two.parquet", versions=(2, 99))
        ended = int8tune("lab", "--data", tmp_path / "two.parquet", *self.ARGUMENTS)
        assert ended.code == 0, ended.err
        assert ended.err.splitlines()[0] == (
            "left out, 1 of 2 recordings have lost their template: "
            f"template `x86.conv` has version {ConvX86.version}, not 99"
        )
        assert "1 layers" in ended.err

    @pytest.mark.thorough
    def test_none_is_left(self, tmp_path: Path) -> None:
        needs_parquet()
        small_recording(tmp_path / "two.parquet", versions=(98, 99))
        ended = int8tune("lab", "--data", tmp_path / "two.parquet", *self.ARGUMENTS)
        assert ended.code == 1
        assert ended.errors == [
            "error: 2 of 2 recordings have lost their template: "
            f"template `x86.conv` has version {ConvX86.version}, not 98; "
            f"template `x86.conv` has version {ConvX86.version}, not 99"
        ]

    def test_configs_that_are_gone_and_old_kernels_are_said(self, tmp_path: Path) -> None:
        needs_parquet()
        small_recording(tmp_path / "one.parquet", versions=(1,))
        (layer,) = read_recording(tmp_path / "one.parquet")
        write_recording(
            [replace(layer, times_s={**layer.times_s, canonical({"unroll": 3}): 1e-9})], tmp_path / "one.parquet"
        )
        (layer,) = read_recording(tmp_path / "one.parquet")
        assert layer.best_s > 1e-9
        assert replayable([layer])[1] == [
            "left out, 1 configs of 1 recordings are no longer in the space of: x86.conv",
            "1 of 1 recordings are of kernels that are no longer made: x86.conv version 1",
        ]
