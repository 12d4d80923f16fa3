"""Best schedules as MetaSchedule's database: TVM applies them, and what it builds is exact."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.s_tir import meta_schedule as ms

from int8tune.results.best_log import read_best_log
from int8tune.results.record import Candidate
from int8tune.results.store import SqliteStore
from int8tune.schedules.arguments import kernel_inputs
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.oracle.reference import reference
from int8tune.schedules.registry import template_for, template_named
from int8tune.schedules.space import Value
from int8tune.schedules.target import Target, named_target
from int8tune.schedules.template import Scheduled, TracedTemplate
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.lab.metaschedule import read_database
from tests.support.program.cli_program import CONV, DEPTHWISE, in_process
from tests.support.program.results_samples import campaign, duel, estimated, ok
from tests.support.run.probes import any_target, host_target

QUICK = (
    "conv2d-u8s8-1x5x5x16-k3x3x16-s1-p1-float.c-u8",
    DEPTHWISE,
)
LAYERS = (
    *QUICK,
    CONV,
    "conv2d-u8s8-1x9x9x20-k3x3x24-s2-p1-float.c-u8",
    "conv2d-s8s8-1x6x6x16-k1x1x16-s1-p0-float.c-adds8-s8",
    "conv2d-u8u8-1x7x7x16-k3x3x24-s1-p2-d2-wz-fixed.t-u8",
    "dense-u8s8-3x64-o24-s32",
    "dwconv2d-u8s8-1x9x9x12-k3x3x2-s2-p1-fused.cx-u8",
)
GENERIC = "generic"
DEFAULTS: dict[str, Value] = {"tile_columns": 4, "tile_blocks": 1, "outer": "image", "unroll": 1}


def generic_target() -> Target:
    return host_target(GENERIC)


def config_of(workload: str, target: Target, seed: int = 0) -> dict[str, Value]:
    """A config that is not the default's where there is another."""
    layer = parse_workload(workload)
    space = template_for(layer, target).space(layer, target)
    rng = np.random.default_rng(seed)
    drawn = (dict(space.sample(rng)) for _ in range(20))
    return next((config for config in drawn if config != dict(space.default)), dict(space.default))


def default_of(workload: str, target: Target) -> Candidate:
    layer = parse_workload(workload)
    return candidate_of(workload, target, dict(template_for(layer, target).space(layer, target).default))


def candidate_of(workload: str, target: Target, config: dict[str, Value]) -> Candidate:
    template = template_for(parse_workload(workload), target)
    return Candidate(workload, target.name, template.name, template.version, config)


def write_campaign(folder: Path, workloads: Sequence[str], target: Target) -> None:
    """A campaign in which another config than the default is best."""
    trials: list[Any] = []
    for number, workload in enumerate(workloads):
        default = default_of(workload, target)
        best = candidate_of(workload, target, config_of(workload, target))
        trials.append(ok(2 * number, 2e-3, chosen=default))
        if best.id != default.id:
            trials += [ok(2 * number + 1, 1e-3, chosen=best), duel(default, best, 2.0)]
    with SqliteStore(folder / "records.db") as store:
        store.append([replace(campaign(layers=dict.fromkeys(workloads, 1)), target=target.name), *trials])


def scheduled_by_template(candidate: Candidate, target: Target) -> Scheduled:
    template = template_named(candidate.template)
    assert isinstance(template, TracedTemplate)
    return template.scheduled(parse_workload(candidate.workload), target, candidate.config)


def calling(definition: Any) -> Any:
    """A Relax module whose `main` calls the function, which is private, as TVM's own are."""
    builder = relax.BlockBuilder()
    layer = builder.add_func(definition.without_attr("global_symbol"), "layer")
    types = [relax.TensorType([int(size) for size in each.shape], str(each.dtype)) for each in definition.params]
    inputs = [relax.Var(each.name, type_) for each, type_ in zip(definition.params, types[:-1], strict=False)]
    with builder.function("main", inputs):
        with builder.dataflow():
            out = builder.emit_output(relax.call_tir(layer, inputs, types[-1]))
        builder.emit_func_output(out)
    return builder.finalize()


def body(function: Any) -> Any:
    """A function without what the pass adds to it, and its name."""
    return function.without_attr("tirx.is_scheduled").without_attr("global_symbol")


def is_exact(module: Any, candidate: Candidate, target: Target) -> bool:
    """Whether a module of `calling` computes what the oracle does, on all of the suite."""
    machine = relax.VirtualMachine(relax.build(module, target=tvm.target.Target(dict(target.tvm))), tvm.cpu())
    layer = parse_workload(candidate.workload)
    kernel = template_named(candidate.template).apply(layer, target, candidate.config)
    for _, operands in adversarial_operands(layer, 0):
        inputs = [tvm.runtime.tensor(np.ascontiguousarray(each)) for each in kernel_inputs(layer, kernel, operands)]
        if not np.array_equal(machine["main"](*inputs).numpy().reshape(-1), reference(layer, operands).reshape(-1)):
            return False
    return True


@pytest.mark.parametrize(
    "workload", [each if each in QUICK else pytest.param(each, marks=pytest.mark.thorough) for each in LAYERS]
)
def test_tvm_applies_a_campaigns_best_and_builds_it_exactly(workload: str, tmp_path: Path) -> None:
    target, out = generic_target(), tmp_path / "out.metaschedule"
    write_campaign(tmp_path, [workload], target)
    ended = in_process("results", "export", out, "--results", tmp_path)
    assert (ended.code, ended.out) == (0, "1 configs of 1 layers\n"), ended.err
    (best,) = read_best_log(out / "best.jsonl")
    assert best.candidate == candidate_of(workload, target, config_of(workload, target))
    expected = scheduled_by_template(best.candidate, target)
    module = calling(expected.definition)
    with tvm.target.Target(dict(target.tvm)):
        applied = relax.transform.MetaScheduleApplyDatabase(str(out))(module)
    assert not tvm_ffi.structural_equal(body(applied["layer"]), body(module["layer"]))
    assert tvm_ffi.structural_equal(body(applied["layer"]), body(expected.function))
    assert applied["layer"].attrs["tirx.is_scheduled"]
    assert is_exact(applied, best.candidate, target)


@pytest.mark.thorough
def test_threads_are_in_the_trace(tmp_path: Path) -> None:
    target, out = replace(generic_target(), name=f"{generic_target().name}-t2", threads=2), tmp_path / "o.metaschedule"
    write_campaign(tmp_path, [CONV], target)
    assert in_process("results", "export", out, "--results", tmp_path).code == 0
    assert '"Parallel"' in (out / "database_tuning_record.json").read_text()


def test_each_layer_has_a_record_and_what_is_no_trace_is_left_out_with_a_line(tmp_path: Path) -> None:
    """A campaign has one target; here a second layer's best is of another template, such as of merged records."""
    target, out = generic_target(), tmp_path / "out.metaschedule"
    write_campaign(tmp_path, [CONV, DEPTHWISE], target)
    written = any_target("x86-avx512vnni")
    with SqliteStore(tmp_path / "records.db") as store:
        store.append([ok(9, chosen=default_of(LAYERS[-2], written))])
    ended = in_process("results", "export", out, "--results", tmp_path)
    assert (ended.code, ended.out) == (0, "2 configs of 2 layers\n")
    why = "kernels of `x86.conv` are written as they run: no trace of TVM's makes them"
    assert ended.err == f"left out: {LAYERS[-2]}: {why}\n"
    database = ms.database.JSONDatabase(work_dir=str(out), allow_missing=False)
    records = list(database.get_all_tuning_records())
    bests = read_best_log(out / "best.jsonl")
    assert [best.workload for best in bests] == [CONV, DEPTHWISE]
    for record, best in zip(records, bests, strict=True):
        assert [float(each) for each in record.run_secs] == pytest.approx([best.median_s])
        assert record.target.attrs["mcpu"] == target.tvm["mcpu"]
        definition = scheduled_by_template(best.candidate, target).definition
        assert tvm_ffi.structural_equal(record.workload.mod["main"], definition)


def test_an_exported_folder_is_a_side_of_a_comparison_and_a_recording(tmp_path: Path) -> None:
    target, out = generic_target(), tmp_path / "out.metaschedule"
    write_campaign(tmp_path, [CONV, DEPTHWISE], target)
    assert in_process("results", "export", out, "--results", tmp_path).code == 0
    compared = in_process("results", "compare", out, tmp_path, "--format", "json")
    assert compared.code == 0, compared.err
    layers = json.loads(compared.out)["layers"]
    assert sorted(layer["workload"] for layer in layers) == sorted([CONV, DEPTHWISE])
    assert all(layer["a"]["candidate"] == layer["b"]["candidate"] for layer in layers)
    assert len(read_database(out)) == 2
    (out / "best.jsonl").unlink()
    refused = in_process("results", "compare", out, tmp_path)
    why = "a database of MetaSchedule without `best.jsonl`, which says what layers of ours its records are"
    assert (refused.code, refused.errors) == (1, [f"error: {why}: {out}"])


@pytest.mark.thorough
@pytest.mark.parametrize(("cpu", "lanes"), [("znver3", 8), ("znver5", 16), ("cortex-a53", 4), ("nehalem", 4)])
def test_a_trace_is_of_the_vectors_that_its_cpu_has(cpu: str, lanes: int, tmp_path: Path) -> None:
    """The name of a generic target does not say them; the default fits any."""
    out, target = tmp_path / "out.metaschedule", named_target(f"generic-{cpu}")
    chosen = Candidate(CONV, target.name, "generic.direct", 1, DEFAULTS)
    with SqliteStore(tmp_path / "records.db") as store:
        store.append([replace(campaign(layers={CONV: 1}), target=target.name), ok(0, chosen=chosen)])
    assert in_process("results", "export", out, "--results", tmp_path).code == 0
    (record,) = ms.database.JSONDatabase(work_dir=str(out), allow_missing=False).get_all_tuning_records()
    assert int(record.workload.mod["main"].params[1].shape[-1]) == lanes
    assert record.target.attrs["mcpu"] == cpu


def test_a_campaign_without_any_trace_is_refused_in_a_line(tmp_path: Path) -> None:
    out, written = tmp_path / "out.metaschedule", any_target("x86-avx512vnni")
    with SqliteStore(tmp_path / "records.db") as store:
        store.append([campaign(layers={CONV: 1}), ok(0, chosen=default_of(CONV, written))])
    ended = in_process("results", "export", out, "--results", tmp_path)
    first, second = ended.err.splitlines()
    assert (ended.code, ended.out) == (1, "")
    assert first == f"error: {CONV}: kernels of `x86.conv` are written as they run: no trace of TVM's makes them"
    assert second.startswith("hint: write them in another form")
    assert not out.exists()


def test_another_ones_folder_is_refused_and_an_earlier_export_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out.metaschedule"
    write_campaign(tmp_path, [CONV], generic_target())
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    refused = in_process("results", "export", out, "--results", tmp_path)
    assert (refused.code, refused.errors) == (1, [f"error: the folder has another file, `'mine.txt'`: {out}"])
    (out / "mine.txt").unlink()
    (out / "database_tuning_record.json").write_text("[7, null]\n")
    for _ in range(2):
        assert in_process("results", "export", out, "--results", tmp_path).code == 0
        assert len((out / "database_tuning_record.json").read_text().splitlines()) == 1


def test_estimates_are_no_times_of_a_database(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "records.db") as store:
        chosen = candidate_of(CONV, generic_target(), config_of(CONV, generic_target()))
        store.append([campaign(layers={CONV: 1}), estimated(0, chosen=chosen)])
    ended = in_process("results", "export", tmp_path / "out.metaschedule", "--results", tmp_path)
    assert ended.errors == [f"error: {CONV}: its time was estimated, not measured"]
