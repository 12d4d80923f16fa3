"""A best log is checked against the templates before anybody builds from it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from int8tune.compiler.best_log import schedule_faults
from int8tune.results.best import BestSchedule
from int8tune.results.best_log import read_best_log, write_best_log
from int8tune.results.errors import BestLogError
from int8tune.results.record import Candidate
from int8tune.results.stats import ITSELF
from int8tune.schedules.registry import template_for
from int8tune.schedules.target import Target, target_for, targets_named
from int8tune.schedules.workload import parse_workload
from tests.support.program.cli_program import CONV, DEPTHWISE, int8tune
from tests.support.run.probes import any_target

VNNI = any_target("x86-avx512vnni")
ARM = target_for({"asimd"}, "cortex-a76", "x", "generic")
CONFIG = template_for(parse_workload(CONV), VNNI).space(parse_workload(CONV), VNNI).default


def schedule(key: str = CONV, device: Target = VNNI, **changes: Any) -> BestSchedule:
    """The default of a layer, with some fields of its candidate changed."""
    workload = parse_workload(key)
    template = template_for(workload, device)
    config = dict(template.space(workload, device).default)
    chosen = replace(Candidate(key, device.name, template.name, template.version, config), **changes)
    return BestSchedule(key, chosen.target, "local", chosen, 1e-6, chosen.id, ITSELF, "c", 0)


def faults(*schedules: BestSchedule, folder: Path) -> list[str]:
    path = folder / "x.best.jsonl"
    write_best_log(path, schedules)
    with pytest.raises(BestLogError) as raised:
        read_best_log(path, schedule_faults)
    return [fault.removeprefix(f"{path}:") for fault in raised.value.faults]


@pytest.mark.parametrize("target", [VNNI, ARM], ids=["vnni", "arm"])
def test_schedules_of_templates_are_accepted(target: Target, tmp_path: Path) -> None:
    schedules = [schedule(CONV, target), schedule(DEPTHWISE, target)]
    write_best_log(tmp_path / "log", schedules)
    assert read_best_log(tmp_path / "log", schedule_faults) == schedules


def test_every_fault_has_its_line(tmp_path: Path) -> None:
    found = faults(
        schedule(),
        schedule(DEPTHWISE, template="x86.depthwize"),
        schedule(CONV, ARM, template_version=7),
        schedule(DEPTHWISE, ARM, config={"tile_columns": 4, "tile_blocks": 1, "order": "image"}),
        folder=tmp_path,
    )
    assert found[0].startswith("3: template: unknown template `x86.depthwize`, did you mean `x86.depthwise`?")
    assert found[1] == "4: template: template `generic.direct` has version 1, not 7"
    assert found[2] == "5: config: unknown knob `order`, known: outer, tile_blocks, tile_columns"
    assert len(found) == 3


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"config": {**CONFIG, "tile_columns": 1000}}, "config: knob `tile_col"),
        ({"config": {**CONFIG, "tile_columns": True}}, "config: knob `tile"),
        (
            {"config": {name: value for name, value in CONFIG.items() if name != "unroll"}},
            "config: knob `unroll` is missing",
        ),
        (
            {"template": "generic.depthwise", "template_version": 1},
            "template: generic.depthwise does not take this workload: takes dwconv2d",
        ),
        (
            {"target": "sparc"},
            "target: unknown target `sparc`, known: x86-amx, x86-avx512vnni, x86-avxvnni, x86-avx2, arm-dotprod, "
            "arm-neon, generic",
        ),
        ({"target": "generic-x86-64-v3"}, "template: x86.conv does not take this workload: needs target"),
    ],
)
def test_a_schedule_that_no_template_makes(changes: dict[str, Any], fault: str, tmp_path: Path) -> None:
    found = faults(schedule(**changes), folder=tmp_path)
    assert len(found) == 1
    assert found[0].startswith(f"2: {fault}")


def test_a_workload_that_is_no_key(tmp_path: Path) -> None:
    wrong = replace(schedule(), workload="conv2d-what")
    chosen = replace(wrong.candidate, workload="conv2d-what")
    found = faults(replace(wrong, candidate=chosen, default_candidate=chosen.id), folder=tmp_path)
    assert found == [
        f"2: workload: `conv2d-what` is not a conv2d key, which look like {found[0].partition('like ')[2]}"
    ]


def test_a_generic_target_may_have_any_vectors() -> None:
    assert [target.vector_lanes for target in targets_named("generic-znver5")] == [16, 8, 4, 4]
    assert targets_named("x86-avx512vnni")[0].vector_registers == 32


@pytest.mark.thorough
def test_the_program_says_all_of_it(tmp_path: Path) -> None:
    log = tmp_path / "x.best.jsonl"
    write_best_log(log, [schedule(template_version=7), schedule(DEPTHWISE, template="none")])
    lines = log.read_text().splitlines()
    broken = {**json.loads(lines[1]), "median_s": -1}
    log.write_text("\n".join([*lines, json.dumps(broken)]) + "\n")
    ended = int8tune("results", "best", "--log", log)
    assert ended.code == 1
    assert ended.out == ""
    assert [line.partition(": template")[0].partition(": median")[0] for line in ended.errors] == [
        f"error: {log}:{number}" for number in (2, 3, 4)
    ]
