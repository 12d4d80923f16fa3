"""Best schedules as a JSON database of TVM's MetaSchedule, which `relax.transform.MetaScheduleApplyDatabase` applies.

This module imports TVM. What TVM asks of a database, and of a module that it is applied to: TVM 0.27,
src/relax/transform/meta_schedule.cc and src/s_tir/meta_schedule/database/json_database.cc.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.target import codegen

from int8tune.compiler.best_log import candidate_faults
from int8tune.compiler.schedule_choice import Source, usable
from int8tune.results.atomic import write_bytes_atomic
from int8tune.results.best import BestSchedule
from int8tune.results.best_log import best_log_text
from int8tune.results.errors import ExportError
from int8tune.results.metaschedule import BEST_LOG, RECORDS, WORKLOADS
from int8tune.results.record import Candidate
from int8tune.schedules.target import Target, target_for, targets_named
from int8tune.schedules.template import Rejection, Scheduled, TracedTemplate
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.errors import NoTraceError

_FILES = (WORKLOADS, RECORDS, BEST_LOG)
GENERIC = "generic"
_TRIPLES = ("x86_64-linux-gnu", "aarch64-linux-gnu")
# Of vectors, Linux's names and LLVM's.
_VECTORS = {"avx512f": "avx512f", "avx2": "avx2", "asimd": "neon"}


@dataclass(frozen=True, slots=True)
class TracedSchedule:
    """A best schedule with what a record of MetaSchedule holds."""

    best: BestSchedule
    target: Target
    scheduled: Scheduled


def write_database(folder: Path, schedules: Sequence[BestSchedule]) -> tuple[list[BestSchedule], list[str]]:
    """Write a folder with the schedules that are traces of TVM's; return these, and a line about each other one.

    Its records are in the order of the best log beside them. What TVM reads of it is what the templates make, or
    nothing is written.

    Raises:
        NoTraceError: none of the schedules is one.
        ExportError: the folder can't be written, or is another one's.
    """
    traced: list[TracedSchedule] = []
    left_out: list[str] = []
    for best in schedules:
        found = traced_schedule(best)
        if isinstance(found, Rejection):
            left_out.append(f"{best.workload}: {found.reason}")
        else:
            traced.append(found)
    if not traced:
        raise NoTraceError(left_out[0] if left_out else "no layer has a schedule that was verified")
    _make(folder)
    kept = [each.best for each in traced]
    # Records without their workloads are none: a reader in between finds no schedule rather than another layer's.
    files = {RECORDS: b"", **_database(traced), BEST_LOG: best_log_text(kept).encode()}
    (folder / RECORDS).unlink(missing_ok=True)
    for name in _FILES:
        write_bytes_atomic(folder / name, files[name])
    return kept, left_out


def traced_schedule(best: BestSchedule) -> TracedSchedule | Rejection:
    """The trace of a schedule, or why it has none."""
    candidate = best.candidate
    if faults := candidate_faults(candidate):
        return Rejection(faults[0])
    if best.median_s is None:
        return Rejection("its time was estimated, not measured")
    return _scheduled(best, candidate)


def _scheduled(best: BestSchedule, candidate: Candidate) -> TracedSchedule | Rejection:
    workload = parse_workload(candidate.workload)
    for target in _targets_of(candidate.target):
        choice = usable(candidate, workload, target, Source.LOG)
        if choice is None:
            continue
        if not isinstance(choice.template, TracedTemplate):
            return Rejection(f"kernels of `{candidate.template}` are written as they run: no trace of TVM's makes them")
        return TracedSchedule(best, target, choice.template.scheduled(workload, target, choice.config))
    return Rejection(f"no template makes it: {candidate.template}")


def _targets_of(name: str) -> tuple[Target, ...]:
    """The targets that a record's name may stand for: one alone where LLVM knows its CPU, and so its vectors."""
    named = targets_named(name)
    cpu = str(named[0].tvm["mcpu"]) if named[0].gpu is None else ""
    triple = next((known for known in _TRIPLES if codegen.llvm_is_valid_cpu(cpu, known)), None)
    if triple is None:
        return named
    if named[0].profile != GENERIC:
        return tuple(replace(target, tvm={**target.tvm, "mtriple": triple}) for target in named)
    llvm = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "mtriple": triple})
    features = {linux for linux, its in _VECTORS.items() if codegen.target_has_features(its, llvm)}
    return (target_for(features, cpu, triple, GENERIC, named[0].threads),)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
        others = sorted(path.name for path in folder.iterdir() if path.name not in _FILES)
    except OSError as error:
        raise ExportError(f"the folder can't be made ({error.strerror}): {folder}") from error
    if others:
        raise ExportError(f"the folder has another file, `{others[0]!a:.60}`: {folder}")


def _database(traced: Sequence[TracedSchedule]) -> dict[str, bytes]:
    """The files as TVM writes them, in a folder of its own, and reads them again."""
    with tempfile.TemporaryDirectory(prefix="int8tune-") as work:
        database = ms.database.JSONDatabase(work_dir=work)
        for each in traced:
            database.commit_tuning_record(_record(database, each))
        _require_same(ms.database.JSONDatabase(work_dir=work, allow_missing=False), traced)
        return {name: (Path(work) / name).read_bytes() for name in (WORKLOADS, RECORDS)}


def _record(database: Any, traced: TracedSchedule) -> Any:
    """A record of a workload, which is the module that TVM asks with: one function, `main`."""
    definition = traced.scheduled.definition
    workload = database.commit_workload(tvm.IRModule({"main": definition}))
    target = tvm.target.Target({name: value for name, value in traced.target.tvm.items() if value})
    arguments = ms.arg_info.ArgInfo.from_prim_func(definition)
    return ms.database.TuningRecord(
        traced.scheduled.schedule.trace, workload, [traced.best.median_s], target, arguments
    )


def _require_same(database: Any, traced: Sequence[TracedSchedule]) -> None:
    """See that each record, replayed, gives the function that its template gives.

    Raises:
        ExportError: one does not.
    """
    records = list(database.get_all_tuning_records())
    for record, each in zip(records, traced, strict=True):
        schedule = Schedule(record.workload.mod)
        record.trace.apply_to_schedule(schedule, remove_postproc=False)
        if not tvm_ffi.structural_equal(schedule.mod["main"], each.scheduled.function):
            raise ExportError(f"what TVM reads is another schedule than was written: {each.best.workload}")
