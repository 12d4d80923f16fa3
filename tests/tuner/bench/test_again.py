"""The schedules of two sides, timed in turn on this machine."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.results.best import BestSchedule
from int8tune.results.best_log import write_best_log
from int8tune.results.comparison.compare import Change
from int8tune.results.record import Candidate
from int8tune.results.stats import ITSELF
from int8tune.rpc.transports.local import LocalTransport
from int8tune.schedules.registry import template_named
from int8tune.schedules.target import Target, target_for
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.api.comparing import compare
from int8tune.tuner.bench.again import SESSIONS
from int8tune.tuner.cores import measuring_and_build_cores
from int8tune.tuner.errors import BenchSpecError
from tests.support.program.cli_program import int8tune

LAYER = "conv2d-u8s8-1x28x28x32-k3x3x32-s1-p1-float.c-u8"
OTHER = "conv2d-u8s8-1x14x14x64-k1x1x64-s1-p0-float.c-u8"


@pytest.fixture(scope="module")
def target() -> Target:
    """The generic one of this machine."""
    measuring, _ = measuring_and_build_cores()
    with LocalTransport(measuring) as transport:
        device = transport.start()
    return target_for(device.features, device.llvm_cpu, device.llvm_triple, "generic")


def schedule(target: Target, workload: str, **knobs: int | str | bool) -> BestSchedule:
    template = template_named("generic.direct")
    space = template.space(parse_workload(workload), target)
    config = space.written({**space.default, **knobs})
    chosen = Candidate(workload, target.name, template.name, template.version, config)
    return BestSchedule(workload, target.name, "local", chosen, 1e-4, chosen.id, ITSELF, "c1", 0)


def log_of(path: Path, *schedules: BestSchedule) -> Path:
    write_best_log(path, schedules)
    return path


@pytest.mark.thorough
@pytest.mark.alone
def test_a_slower_schedule_is_found_and_an_equal_one_is_not(target: Target, tmp_path: Path) -> None:
    """The slower one computes a column at a time; the records say that all take the same time."""
    quick = [schedule(target, layer) for layer in (LAYER, OTHER)]
    slow = schedule(target, LAYER, tile_columns=1, tile_blocks=1)
    assert slow.candidate != quick[0].candidate
    a = log_of(tmp_path / "a.jsonl", *quick)
    b = log_of(tmp_path / "b.jsonl", slow, quick[1])
    heard: list[str] = []
    found = compare(a, b, again=True, fail_if="slower:3%", listener=lambda key, _: heard.append(key))
    changes = {layer.key: layer.change for layer in found.comparison.layers}
    assert changes == {LAYER: Change.SLOWER, OTHER: Change.UNCHANGED}
    assert sorted(heard) == sorted(changes)
    (layer,) = [layer for layer in found.comparison.layers if layer.key == LAYER]
    assert layer.a is not None
    assert len(layer.a.times_s) == 10 * SESSIONS
    assert layer.a.time != 1e-4
    assert len(found.regressions) == 2
    assert re.match(r"timed in turn now on .*: each layer in 5 sessions, which differ by ", found.comparison.notes[0])
    shown = int8tune("results", "compare", b, a, "--again", "--fail-if", "slower:3%", limit_s=110)
    assert shown.code == 0, shown.err
    assert " faster" in shown.out


@pytest.mark.thorough
def test_what_can_not_be_built_is_said_and_the_others_are_timed(target: Target, tmp_path: Path) -> None:
    quick = [schedule(target, layer) for layer in (LAYER, OTHER)]
    candidate = replace(quick[0].candidate, template_version=99)
    unknown = replace(quick[0], candidate=candidate, default_candidate=candidate.id)
    a, b = log_of(tmp_path / "a.jsonl", *quick), log_of(tmp_path / "b.jsonl", unknown, quick[1])
    found = compare(a, b, again=True).comparison
    (failed,) = [layer for layer in found.layers if layer.change is Change.NOT_TIMED]
    assert failed.key == LAYER
    assert failed.why.startswith("template: ")


@pytest.mark.thorough
def test_schedules_of_another_target_are_refused_before_anything_is_built(target: Target, tmp_path: Path) -> None:
    here = schedule(target, LAYER)
    there = replace(here, target="arm-neon", candidate=replace(here.candidate, target="arm-neon"))
    there = replace(there, default_candidate=there.candidate.id)
    a, b = log_of(tmp_path / "a.jsonl", here), log_of(tmp_path / "b.jsonl", there)
    with pytest.raises(
        BenchSpecError, match=r"this machine can't run schedules for arm-neon, it runs those for .*generic"
    ):
        compare(a, b, again=True)
