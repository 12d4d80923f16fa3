"""Comparisons with other libraries as rows."""

from __future__ import annotations

from collections.abc import Iterator

from int8tune.results.bench import BenchRow, BenchSummary
from int8tune.results.record import Entrant
from int8tune.results.report.tables import Row, prefixed
from int8tune.results.stats import median
from int8tune.tuner.models.bench import ModelBench


def layer_bench_rows(bench: str, summary: BenchSummary) -> Iterator[Row]:
    """A row for each library on each layer, this library's first."""
    for row in summary.rows:
        yield _about(bench, row) | _entrant(row.result.ours) | {"net_time_s": row.time_s, "unsure": False}
        for peer in row.peers:
            yield _about(bench, row) | _entrant(peer.entrant) | {"net_time_s": peer.net_time_s, "unsure": peer.unsure}


def _about(bench: str, row: BenchRow) -> Row:
    result = row.result
    return {
        "bench": bench,
        "workload": result.workload,
        "label": row.label,
        "class": row.layer_class,
        "target": result.target,
        "device": result.device,
        "threads": result.threads,
        "candidate_id": result.candidate.id,
        "template": result.candidate.template,
        "version": result.candidate.template_version,
        "config": dict(result.candidate.config),
        "is_tuned": result.is_tuned,
        "verdict": row.verdict.value,
        "best_peer": row.best_peer.entrant.name if row.best_peer else None,
        "ratio": row.ratio.estimate if row.ratio else None,
        "ratio_low": row.ratio.low if row.ratio else None,
        "ratio_high": row.ratio.high if row.ratio else None,
        "raw_ratio": row.raw_ratio.estimate if row.raw_ratio else None,
        "peak_share": row.peak_share,
        "ops_per_s": row.ops_per_s,
        "peak_ops_per_s": result.peak_ops_per_s,
        "started_at": result.started_at,
        **prefixed("environment", result.environment),
    }


def _entrant(entrant: Entrant) -> Row:
    return {
        "library": entrant.name,
        "library_version": entrant.version,
        "library_workload": entrant.workload,
        "outcome": entrant.outcome.value,
        "error": entrant.error,
        "times_s": entrant.times_s,
        "overhead_times_s": entrant.overhead_times_s,
        "time_s": median(entrant.times_s) if entrant.times_s else None,
    }


def model_bench_rows(bench: ModelBench) -> Iterator[Row]:
    """A row for each runtime of a model, this library's first."""
    for result in bench.results:
        yield {
            "model": bench.model,
            "threads": bench.threads,
            "runtime": result.entry.label,
            "version": result.version,
            "time_s": result.time_s,
            "times_s": result.times_s,
            "times_ours": result.ratio.estimate if result.ratio else None,
            "times_ours_low": result.ratio.low if result.ratio else None,
            "times_ours_high": result.ratio.high if result.ratio else None,
            "failure": result.failure,
            "differing": None if bench.differences is None else sum(each.differing for each in bench.differences),
        }
