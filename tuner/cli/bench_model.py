"""`int8tune bench MODEL`: whole models."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from int8tune.tuner.cli.options import Format
from int8tune.tuner.cli.output import aligned, emit, emit_json, say

if TYPE_CHECKING:
    from int8tune.compiler.given import Given
    from int8tune.rpc.inventory.boards import Board
    from int8tune.rpc.request import Timing
    from int8tune.tuner.api.bench import ModelBenches
    from int8tune.tuner.models.bench import ModelBench
    from int8tune.tuner.models.race import Result


def show_models(
    models: list[Path],
    unquantized: Path | None,
    results: Path,
    target: str | None,
    threads: int,
    against: list[str] | None,
    timing: Timing,
    given: Given,
    form: Format,
) -> ModelBenches:
    """Compare whole models with other runtimes, one model after the other."""
    from int8tune.tuner.api.bench import ModelBenches, bench_models

    found = []
    for bench in bench_models(models, unquantized, results, target, threads, against, timing, given):
        found.append(bench)
        if form is Format.TABLE:
            _show(bench)
    if form is Format.JSON:
        emit_json(list(map(_as_dict, found)))
    return ModelBenches(tuple(found))


def show_on_board(
    models: list[Path],
    board: Board,
    results: Path,
    against: list[str] | None,
    timing: Timing,
    given: Given,
    form: Format,
) -> None:
    """Run whole models on a board, one after the other."""
    from int8tune.results.report.schemes import board_lines
    from int8tune.tuner.api.bench_boards import bench_on_board
    from int8tune.tuner.cli.waiting import waiting

    found = []
    with waiting("bench") as report:
        for bench in bench_on_board(models, board, results, against, timing, given, report):
            found.append(bench)
            if form is Format.TABLE:
                emit("\n".join([bench.model, *board_lines(bench.table, "schedules")]))
    if form is Format.JSON:
        emit_json([asdict(bench) for bench in found])


def _show(bench: ModelBench) -> None:
    threads = "1 thread" if bench.threads == 1 else f"{bench.threads} threads"
    emit(f"{bench.model}, {threads}")
    emit(aligned([("ms", "spread", "times ours", "runtime"), *map(_cells, bench.results)], numbers=range(3)))
    if bench.differences is not None:
        differing = sum(each.differing for each in bench.differences)
        largest = max(each.largest for each in bench.differences)
        values = sum(each.values for each in bench.differences)
        say(f"outputs: {differing:,} of {values:,} differ from the model's own runtime, by {largest:g} steps at most")
    if bench.disturbance:
        say(f"note: {bench.disturbance}")


def _cells(result: Result) -> tuple[str, str, str, str]:
    from int8tune.results.report.format import interval, milliseconds, percent
    from int8tune.results.stats import spread

    label = f"{result.entry.label} {result.version}"
    if result.failure:
        return "-", "-", "-", f"{label}: {result.failure}"
    ratio = interval(result.ratio) if result.ratio else ""
    return milliseconds(result.time_s), percent(spread(result.times_s)), ratio, label


def _as_dict(bench: ModelBench) -> dict[str, Any]:
    return {
        "model": bench.model,
        "threads": bench.threads,
        "runtimes": [
            {
                "name": result.entry.label,
                "version": result.version,
                "times_s": result.times_s,
                "times_ours": asdict(result.ratio) if result.ratio else None,
                "failure": result.failure,
            }
            for result in bench.results
        ],
        "disturbance": bench.disturbance,
        "differences": None if bench.differences is None else [asdict(each) for each in bench.differences],
    }
