"""MetaSchedule as a peer: what it is given, its process, and a race from end to end."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from int8tune.results.record import BenchResult, Campaign, DeviceCheck, Outcome, Trial
from int8tune.results.search import RaceLayer
from int8tune.results.store import SqliteStore
from int8tune.rpc.request import Timing
from int8tune.schedules.target import Target
from int8tune.schedules.template import Rejection
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.cli.program import run
from int8tune.tuner.errors import BenchSpecError, NoMetaScheduleError
from int8tune.tuner.lab.metaschedule import read_database
from int8tune.tuner.metaschedule import process
from int8tune.tuner.metaschedule.form import peer_form
from int8tune.tuner.metaschedule.job import SearchJob
from int8tune.tuner.metaschedule.process import MARK, SearchFailedError, require_metaschedule, run_search
from int8tune.tuner.metaschedule.race import run_race
from int8tune.tuner.metaschedule.spec import RaceSpec
from tests.support.kernels.kernels import Built, compile_kernel
from tests.support.program.cli_program import CONV, DEPTHWISE, end, int8tune, start
from tests.support.run.probes import VECTOR_PROFILES, any_target, host_target
from tests.support.run.thinned import one_in
from tests.support.stand_ins.faulty_metaschedule import (
    CRASHES,
    FINDS_NOTHING,
    HANGS,
    LIES,
    RAISES,
    SATURATING,
    load_intrinsics_of_tvm,
)

pytestmark = pytest.mark.promise(16)

FAULTY = "tests.support.stand_ins.faulty_metaschedule"
BRIEF = Timing(5, 0.001)
LAYERS = (
    CONV,
    DEPTHWISE,
    "conv2d-u8s8-1x9x9x3-k3x3x32-s2-p1-float.c-u8",
    "conv2d-u8s8-1x7x7x16-k3x3x40-s1-p2-d2-fixed.c-s8",
    "conv2d-u8s8-2x5x5x20-k1x1x32-s1-p0-fixed.t-u8",
    "conv2d-u8s8-1x6x6x16-k1x1x16-s1-p0-float.c-addu8-u8",
    "conv2d-u8s8-1x6x6x16-k1x1x16-s1-p0-float.c-addu8.first-u8",
    "conv2d-u8s8-1x6x6x16-k1x1x16-s1-p0-fused.cx-adds8-u8",
    "dense-u8s8-3x64-o24-s32",
    "dwconv2d-u8s8-1x9x9x24-k3x3x1-s2-p1-fixed.c-u8",
)


def definition(key: str, target: Target) -> Built:
    """The layer as MetaSchedule gets it, without a schedule."""
    from int8tune.tuner.metaschedule.definition import kernel_of, layer_function

    workload = parse_workload(key)
    form = peer_form(workload, target)
    assert not isinstance(form, Rejection)
    return compile_kernel(workload, target, kernel_of(form, layer_function(form)))


def tensorized_layer(key: str, target: Target, intrinsic: str) -> Any:
    """The function of a layer, with an intrinsic in its innermost loops."""
    from tvm import s_tir

    from int8tune.tuner.metaschedule.definition import layer_function

    workload = parse_workload(key)
    form = peer_form(workload, target)
    assert not isinstance(form, Rejection)
    schedule = s_tir.Schedule(layer_function(form))
    dot = schedule.get_sblock("dot")
    *_, lane, row, column, word, tap = schedule.get_loops(dot)
    schedule.reorder(row, column, word, lane, tap)
    schedule.decompose_reduction(dot, row)
    schedule.tensorize(schedule.blockize(lane), intrinsic)
    return schedule.mod["main"]


def tensorized(key: str, target: Target, intrinsic: str) -> Built:
    from int8tune.tuner.metaschedule.definition import kernel_of

    workload = parse_workload(key)
    form = peer_form(workload, target)
    assert not isinstance(form, Rejection)
    return compile_kernel(workload, target, kernel_of(form, tensorized_layer(key, target, intrinsic)))


class TestDefinition:
    @pytest.mark.parametrize("key", one_in(2, LAYERS))
    def test_it_is_what_the_oracle_computes(self, key: str, generic: Target) -> None:
        assert definition(key, generic).wrong_cases() == []

    @pytest.mark.thorough
    @pytest.mark.parametrize("profile", VECTOR_PROFILES)
    def test_the_intrinsic_is_exact(self, profile: str) -> None:
        from int8tune.tuner.metaschedule.intrinsic import register_dot

        target = host_target(profile)
        name = register_dot(target)
        assert name is not None
        assert register_dot(target) == name
        for key in (CONV, LAYERS[2]):
            built = tensorized(key, target, name)
            assert built.wrong_cases() == []
            assert ("vpdpbusd" if "vnni" in profile else "vpmaddwd") in built.assembly

    @pytest.mark.parametrize("profile", VECTOR_PROFILES)
    def test_the_intrinsic_takes_the_place_of_the_loops_that_it_describes(self, profile: str) -> None:
        from int8tune.tuner.metaschedule.intrinsic import register_dot

        name = register_dot(any_target(profile))
        assert name is not None
        assert "reinterpret" in tensorized_layer(CONV, any_target(profile), name).script()

    def test_a_target_without_vectors_has_no_intrinsic(self, generic: Target) -> None:
        from int8tune.tuner.metaschedule.intrinsic import register_dot

        assert register_dot(generic) is None

    def test_tvms_own_intrinsics_are_wrong_or_do_not_compile(self, vnni: Target) -> None:
        """If this fails, TVM has mended them: then MetaSchedule needs no intrinsic of ours."""
        load_intrinsics_of_tvm()
        assert tensorized(CONV, vnni, SATURATING).wrong_cases() != []
        with pytest.raises(RuntimeError, match=r"vpdpbusd"):
            tensorized(CONV, vnni, "dot_16x4_vnni")

    @pytest.mark.parametrize(
        ("key", "reason"),
        [
            ("conv2d-s8s8-1x8x8x16-k1x1x32-s1-p0-float.c-s8", "data must be u8, weights s8 without a zero point"),
            ("conv2d-u8u8-1x8x8x16-k1x1x32-s1-p0-wz-float.c-u8", "data must be u8, weights s8 without a zero point"),
            ("conv2d-u8s8-1x8x8x16-k3x3x32-s1-p1-g2-float.c-u8", "convolutions in groups are not defined: 2 groups"),
            (
                "dwconv2d-u8s8-1x8x8x16-k3x3x2-s1-p1-float.c-u8",
                "depthwise layers must have one output for each channel: 2",
            ),
        ],
    )
    def test_what_is_not_taken_has_a_reason(self, key: str, reason: str, generic: Target) -> None:
        assert peer_form(parse_workload(key), generic) == Rejection(reason)


class TestProcess:
    """A search that goes wrong is one line, and nothing of it is left."""

    @pytest.fixture
    def job(self, tmp_path: Path, generic: Target) -> SearchJob:
        return SearchJob(CONV, generic, 4, 0, str(tmp_path), "", tuple(os.sched_getaffinity(0)), FINDS_NOTHING)

    @pytest.mark.parametrize(
        ("fault", "limit_s", "message"),
        [
            (HANGS, 3.0, "did not end within 3 s"),
            (CRASHES, 30.0, "killed by SIGSEGV"),
            (RAISES, 30.0, "exited with status 1 (ValueError: no candidates today: all are ill)"),
            (LIES, 30.0, "left no result that can be read: missing field: `failed`"),
        ],
    )
    def test_faults(self, job: SearchJob, fault: str, limit_s: float, message: str, tmp_path: Path) -> None:
        with pytest.raises(SearchFailedError) as raised:
            run_search(replace(job, intrinsic=fault), limit_s, lambda: False, FAULTY)
        assert str(raised.value) == message
        assert searches(tmp_path) == []

    def test_a_stop_ends_it(self, job: SearchJob, tmp_path: Path) -> None:
        started = time.monotonic()
        stop = iter([False] * 15 + [True])
        assert run_search(replace(job, intrinsic=HANGS), 60.0, lambda: next(stop), FAULTY) is None
        assert time.monotonic() - started < 20
        assert searches(tmp_path) == []

    def test_what_is_missing_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        require_metaschedule()
        monkeypatch.setattr(process, "_MODULES", ("tvm", "no_such_module"))
        with pytest.raises(NoMetaScheduleError, match=r"^MetaSchedule needs modules .* not installed: no_such_module$"):
            require_metaschedule()


def searches(folder: Path) -> list[int]:
    """Processes of searches below a folder that still run."""
    found = []
    for known in psutil.process_iter():
        try:
            environment = known.environ()
            if MARK in environment and environment["TMPDIR"].startswith(str(folder)):
                found.append(known.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


@pytest.mark.timeout(300)
class TestRace:
    """MetaSchedule itself, with small budgets; most of the time TVM loads."""

    @pytest.mark.slow
    def test_both_search_the_same_layer_and_both_are_exact(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["lab", "--against", "metaschedule", CONV, "--trials", "4", "--results", str(tmp_path)]) == 0
        shown = capsys.readouterr()
        row = next(line.split() for line in shown.out.splitlines() if line.startswith("conv 1x1 8x8x16->32"))
        assert row[5] == "exact"
        assert row[-2] == "4/4"
        assert shown.err.startswith("1/1  conv2d 1x1 8x8x16->32  ")
        with SqliteStore(tmp_path / "records.db", readonly=True) as store:
            (result,) = store.query(BenchResult)
            (campaign,) = store.query(Campaign)
            assert len(list(store.query(Trial, campaign=campaign.name))) == 4
            assert len(list(store.query(DeviceCheck))) == 1
        assert [entrant.outcome for entrant in result.entrants] == [Outcome.OK, Outcome.OK]
        assert len(result.ours.times_s) == len(result.peers[0].times_s) == len(result.peak_ops_per_s)
        (recorded,) = read_database(tmp_path / result.bench / "0")
        assert 1 <= len(recorded.times_s) <= 4
        assert not (tmp_path / ".work").exists()

    @pytest.mark.slow
    def test_a_wrong_kernel_is_reported_and_does_not_count(self, tmp_path: Path, vnni: Target) -> None:
        """TVM's own intrinsic saturates."""
        race_layers: list[RaceLayer] = []
        spec = RaceSpec((parse_workload(CONV),), 2, BRIEF, vnni.profile, intrinsic=SATURATING, worker=FAULTY)
        run_race(spec, tmp_path, race_layers.append, lambda: False)
        (theirs,) = race_layers[0].result.peers
        assert theirs.outcome is Outcome.WRONG_ANSWER
        assert theirs.times_s == ()
        assert theirs.error

    @pytest.mark.slow
    def test_a_search_that_crashes_costs_its_layer_alone(self, tmp_path: Path) -> None:
        race_layers: list[RaceLayer] = []
        layers = tuple(map(parse_workload, (CONV, "conv2d-s8s8-1x8x8x16-k1x1x32-s1-p0-float.c-s8")))
        spec = RaceSpec(layers, 1, BRIEF, "generic", intrinsic=CRASHES, worker=FAULTY)
        run_race(spec, tmp_path, race_layers.append, lambda: False)
        crashed, refused = (race_layer.result for race_layer in race_layers)
        assert [entrant.outcome for entrant in crashed.entrants] == [Outcome.OK, Outcome.RUN_FAILED]
        assert crashed.peers[0].error == "its search failed: killed by SIGSEGV"
        assert [entrant.outcome for entrant in refused.entrants] == [Outcome.OK, Outcome.REJECTED]

    @pytest.mark.parametrize("trials", [0, 10_001])
    def test_a_budget_has_a_range(self, trials: int) -> None:
        with pytest.raises(BenchSpecError, match=f"^trials must be 1 to 10000: {trials}$"):
            RaceSpec((), trials)


class TestCommand:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--against", "autotvm", CONV), "unknown tuner `autotvm`, known: metaschedule"),
            (
                ("--against", "metaschedule"),
                "--against needs the layers to race on, such as resnet18 or a workload key",
            ),
            (("--against", "metaschedule", CONV, "--trials", "0"), "trials must be 1 to 10000: 0"),
            (("--against", "metaschedule", CONV, "--only", "amx"), "not with --against: --only"),
            (
                ("--against", "metaschedule", CONV, "--seeds", "5", "--explain"),
                "not with --against: --seeds, --explain",
            ),
            (("--against", "metaschedule", "resnet19"), "unknown network `resnet19`, did you mean `resnet18`"),
            ((CONV,), "not without --against: layers"),
            (("--target", "generic", "--results", "x"), "not without --against: --target, --results"),
        ],
    )
    def test_bad_arguments_are_one_line(
        self, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["lab", *arguments]) == 2
        first = capsys.readouterr().err.splitlines()[0]
        assert first.startswith(f"error: {message}")

    @pytest.mark.thorough
    def test_a_target_that_nobody_knows_is_refused(self, tmp_path: Path) -> None:
        ended = int8tune("lab", "--against", "metaschedule", CONV, "--target", "x87", "--results", tmp_path)
        assert ended.code == 2
        assert ended.errors[0].startswith("error: unknown target `x87`, known: ")

    @pytest.mark.slow
    def test_ctrl_c_leaves_nothing(self, tmp_path: Path) -> None:
        program = start("lab", "--against", "metaschedule", CONV, "--trials", 1, "--results", tmp_path)
        deadline = time.monotonic() + 60
        while not searches(tmp_path):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        ended = end(program, signal.SIGINT, limit_s=20)
        assert ended.code == 130
        assert searches(tmp_path) == []
        assert not (tmp_path / ".work").exists()
