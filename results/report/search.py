"""A race of two searches as a table for terminals, and as values for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from int8tune.results.bench import BenchRow, BenchVerdict
from int8tune.results.record import Entrant, Outcome
from int8tune.results.report import bench
from int8tune.results.report.format import MISSING, factor, giga, interval, microseconds
from int8tune.results.search import Effort, RaceLayer, SearchSummary
from int8tune.results.stats import median

MEANING = bench.MEANING | {BenchVerdict.ALONE: "the other search has no exact kernel of this layer"}
EXACT = {Outcome.OK: "exact", Outcome.WRONG_ANSWER: "wrong", Outcome.REJECTED: "refused"}


def render_search(summary: SearchSummary) -> str:
    """The rows class by class, the totals, and what the words mean, in 100 columns."""
    rows = summary.bench.rows
    lines = [*_head(rows), "", _row("layer", "ours", "theirs", "is", "ratio [95 %]", "verdict", "trials", "per s")]
    for section in summary.bench.classes:
        lines.append(f"{section.name}:")
        lines += [
            _layer(row, summary.race_layers[row.result.workload]) for row in rows if row.layer_class == section.name
        ]
    lines += ["", *_totals(summary), ""]
    verdicts = {row.verdict for row in rows}
    lines += [f"{verdict.value:<8} {meaning}" for verdict, meaning in MEANING.items() if verdict in verdicts]
    lines += bench.faults(summary.bench)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def search_as_dict(summary: SearchSummary) -> dict[str, Any]:
    """The whole summary as JSON values; times in seconds, rates in trials per second."""
    values = bench.bench_as_dict(summary.bench)
    for layer in values["layers"]:
        race_layer = summary.race_layers[layer["workload"]]
        layer["searches"] = {"ours": _effort(race_layer.ours), "theirs": _effort(race_layer.theirs)}
    return values | {"searches": {"ours": _effort(summary.ours), "theirs": _effort(summary.theirs)}}


def _head(rows: Sequence[BenchRow]) -> list[str]:
    (theirs,) = rows[0].result.peers
    own = f"theirs: {theirs.name} of TVM {theirs.version}; times in us; trials and trials a second: ours/theirs"
    if "gpu" not in rows[0].result.environment:
        return [_cpu_head(rows[0]), own]
    others = any(peer.workload != row.result.workload for row in rows for peer in row.result.peers)
    return [bench.gpu_head(rows), own, *(["theirs has s8 data where a layer has u8, and all else of it"] * others)]


def _cpu_head(row: BenchRow) -> str:
    cpu = row.result.environment.get("cpu", "unknown CPU")
    peak = giga(median(row.result.peak_ops_per_s)) if row.result.peak_ops_per_s else MISSING
    return f"{cpu} ({row.result.target}), one thread, peak {peak} GOP/s"


def _row(layer: str, ours: str, theirs: str, exact: str, ratio: str, verdict: str, trials: str, rate: str) -> str:
    return f"{layer:<26} {ours:>6} {theirs:>6} {exact:<7} {ratio:<18} {verdict:<7} {trials:>9} {rate:>9}"


def _layer(row: BenchRow, race_layer: RaceLayer) -> str:
    (theirs,) = row.peers
    return _row(
        row.label.replace("dwconv2d", "dw").replace("conv2d", "conv"),
        microseconds(row.time_s),
        microseconds(theirs.time_s),
        _exact(theirs.entrant),
        interval(row.ratio),
        row.verdict.value,
        f"{race_layer.ours.trials}/{race_layer.theirs.trials}",
        f"{_rate(race_layer.ours)}/{_rate(race_layer.theirs)}",
    )


def _exact(entrant: Entrant) -> str:
    return EXACT.get(entrant.outcome, "failed")


def _rate(effort: Effort) -> str:
    return MISSING if effort.trials_per_s is None else f"{effort.trials_per_s:.2f}"


def _totals(summary: SearchSummary) -> list[str]:
    total = summary.bench.total
    counted = (BenchVerdict.FASTER, BenchVerdict.NOISE, BenchVerdict.SLOWER)
    verdicts = ", ".join(f"{total.verdicts[verdict]} {verdict.value}" for verdict in counted)
    layers = f"{total.layers} {'layer' if total.layers == 1 else 'layers'}"
    return [
        f"{layers}: {verdicts}; geometric mean of ratios {factor(total.ratio)}, lowest {factor(total.lowest_ratio)}",
        f"ours    {_work(summary.ours)}",
        f"theirs  {_work(summary.theirs)}",
    ]


def _work(effort: Effort) -> str:
    return f"{effort.trials:,} trials, {effort.failed:,} failed, {effort.search_s:,.0f} s, {_rate(effort)} a second"


def _effort(effort: Effort) -> dict[str, Any]:
    return asdict(effort) | {"trials_per_s": effort.trials_per_s}
