"""A bench as a table for terminals, and as values for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from int8tune.results.bench import BenchRow, BenchSummary, BenchVerdict, ClassRow, Library, PeerTime, gpu_rate
from int8tune.results.record import Outcome
from int8tune.results.report.format import MISSING, factor, giga, interval, microseconds, percent, tera
from int8tune.results.stats import median

MEANING = {
    BenchVerdict.FASTER: "the whole interval is above 1, and the ratio by 1 % at least",
    BenchVerdict.SLOWER: "the whole interval is below 1, and the ratio by 1 % at least",
    BenchVerdict.NOISE: "neither can be said",
    BenchVerdict.ALONE: "no other library computes this layer",
    BenchVerdict.FAILED: "this library failed",
}
BEST_MARK, UNSURE_MARK = "*", "?"
# What stands for a time where there is none, by outcome; a dash for what a library does not take.
WORDS = {"wrong_answer": "wrong", "run_failed": "failed"}
TITLE_WIDTH = 6


def render_bench(summary: BenchSummary) -> str:
    """The rows class by class, the classes, the libraries, and what the words mean, in 100 columns."""
    peers = _shown_peers(summary)
    titles = _titles(peers)
    widths = [max(len(title), TITLE_WIDTH) for title in titles]
    rate = "TOPS" if _gpu(summary) else None
    cells = [f"{title:>{width}}" for title, width in zip(titles, widths, strict=True)]
    lines = [*_head(summary), "", _row("layer", "ours", rate, "peak", "from", cells, "ratio [95 %]", "verdict")]
    for section in summary.classes:
        lines.append(f"{section.name}:")
        lines += [_layer(row, peers, widths) for row in summary.rows if row.layer_class == section.name]
    lines += ["", *_classes([*summary.classes, summary.total], summary.rows), "", *_libraries(summary.libraries), ""]
    verdicts = {row.verdict for row in summary.rows}
    lines += [f"{verdict.value:<8} {meaning}" for verdict, meaning in MEANING.items() if verdict in verdicts]
    lines += faults(summary)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def bench_as_dict(summary: BenchSummary) -> dict[str, Any]:
    """The whole summary as JSON values; times in seconds, rates in operations per second, shares of 1."""
    return {
        "environment": dict(summary.rows[0].result.environment) if summary.rows else {},
        "layers": [_row_as_dict(row) for row in summary.rows],
        "classes": [_class_as_dict(row) for row in summary.classes],
        "total": _class_as_dict(summary.total),
        "libraries": [asdict(library) for library in summary.libraries],
    }


def _gpu(summary: BenchSummary) -> str:
    """The name of the GPU that layers ran on; empty where they ran on a CPU."""
    return summary.rows[0].result.environment.get("gpu", "")


def _shown_peers(summary: BenchSummary) -> list[str]:
    """The other libraries; on a GPU, those of them that take a layer, as most take layers of one kind only."""
    taking = {
        peer.entrant.name
        for peer in (peer for row in summary.rows for peer in row.peers)
        if not _gpu(summary) or peer.entrant.outcome is not Outcome.REJECTED
    }
    return [library.name for library in summary.libraries if library.name in taking - _own_names(summary)]


def gpu_head(rows: Sequence[BenchRow]) -> str:
    """Which GPU it was, and what it could do at most."""
    result = rows[0].result
    rate = gpu_rate(result)
    most = f", at most {tera(rate)} at its highest clock" if rate else ""
    loop = median([peak for row in rows for peak in row.result.peak_ops_per_s])
    driver = result.environment.get("gpu_driver", "unknown")
    return f"{result.environment['gpu']} ({result.target}), driver {driver}, peak {tera(loop)} TOPS{most}"


def _head(summary: BenchSummary) -> list[str]:
    if _gpu(summary):
        return [gpu_head(summary.rows), "times in us, a call is a node of a CUDA graph; TOPS are ours"]
    result = summary.rows[0].result
    peak_ops_per_s = median([peak for row in summary.rows for peak in row.result.peak_ops_per_s])
    threads = f"{result.threads} {'thread' if result.threads == 1 else 'threads'}"
    cpu = result.environment.get("cpu", "unknown CPU")
    return [
        f"{cpu} ({result.target}), {threads}, peak {giga(peak_ops_per_s)} GOP/s",
        "times in us, those of other libraries without the overhead of their calls",
    ]


def _own_names(summary: BenchSummary) -> set[str]:
    return {row.result.ours.name for row in summary.rows}


def _titles(names: Sequence[str]) -> list[str]:
    """The names, cut where that leaves them apart."""
    cut = [name if len(name) <= TITLE_WIDTH else f"{name[: TITLE_WIDTH - 1]}." for name in names]
    return cut if len(set(cut)) == len(cut) else list(names)


def _row(
    layer: str,
    ours: str,
    rate: str | None,
    share: str,
    source: str,
    peers: Sequence[str],
    ratio: str,
    verdict: str,
) -> str:
    """`peers` have their columns' width; without a rate there is no column of it."""
    rates = [] if rate is None else [f"{rate:>5}"]
    cells = [f"{layer:<26}", f"{ours:>6}", *rates, f"{share:>4}", f"{source:<7}", *peers]
    return " ".join([*cells, f"{ratio:<17}", verdict])


def _layer(row: BenchRow, names: Sequence[str], widths: Sequence[int]) -> str:
    times = {peer.entrant.name: _time(peer, peer is row.best_peer) for peer in row.peers}
    return _row(
        row.label.replace("dwconv2d", "dw").replace("conv2d", "conv"),
        microseconds(row.time_s),
        tera(row.ops_per_s) if "gpu" in row.result.environment else None,
        percent(row.peak_share),
        "best" if row.result.is_tuned else "default",
        [f"{times.get(name, MISSING):>{width}}" for name, width in zip(names, widths, strict=True)],
        interval(row.ratio),
        row.verdict.value,
    )


def _time(peer: PeerTime, is_best: bool) -> str:
    if peer.net_time_s is None:
        return WORDS.get(peer.entrant.outcome.value, MISSING)
    return microseconds(peer.net_time_s) + (UNSURE_MARK if peer.unsure else "") + (BEST_MARK if is_best else "")


def _classes(rows: Sequence[ClassRow], layers: Sequence[BenchRow]) -> list[str]:
    counted = (BenchVerdict.FASTER, BenchVerdict.NOISE, BenchVerdict.SLOWER)
    lines = [f"{'class':<22} layers  ratio  lowest  peak  " + "  ".join(verdict.value for verdict in counted)]
    for row in rows:
        counts = "  ".join(f"{row.verdicts[verdict]:>{len(verdict.value)}}" for verdict in counted)
        means = f"{factor(row.ratio):>5}  {factor(row.lowest_ratio):>6}  {percent(row.peak_share):>4}"
        lines.append(f"{row.name:<22} {row.layers:>6}  {means}  {counts}")
    lines.append("ratio and peak are geometric means")
    unsure = sum(row.is_unsure for row in layers)
    if unsure:
        which = "1 layer is" if unsure == 1 else f"{unsure} layers are"
        lines.append(f"{which} in no ratio of a class: the best time{UNSURE_MARK} there is mostly what a call costs")
    return lines


def _libraries(libraries: Sequence[Library]) -> list[str]:
    lines = []
    for library in libraries:
        overhead = "" if library.overhead_s is None else f", {microseconds(library.overhead_s)} us a call"
        lines.append(f"{library.name} {library.version}{overhead}")
    return lines


def faults(summary: BenchSummary) -> list[str]:
    """One line for each way in which a library failed or refused, with how many layers it did so on."""
    counts: dict[str, int] = {}
    for entrant in (entrant for row in summary.rows for entrant in row.result.entrants if entrant.error):
        text = f"{entrant.name}: {entrant.outcome.value.replace('_', ' ')}: {entrant.error}"
        counts[text] = counts.get(text, 0) + 1
    return [f"{count} {'layer' if count == 1 else 'layers'}, {text}" for text, count in counts.items()]


def _row_as_dict(row: BenchRow) -> dict[str, Any]:
    result, candidate = row.result, row.result.candidate
    return {
        "workload": result.workload,
        "label": row.label,
        "class": row.layer_class,
        "target": result.target,
        "candidate": {"id": candidate.id, **asdict(candidate)},
        "is_tuned": result.is_tuned,
        "threads": result.threads,
        "outcome": result.ours.outcome.value,
        "error": result.ours.error,
        "device": result.device,
        "time_s": row.time_s,
        "times_s": result.ours.times_s,
        "peaks_ops_per_s": result.peak_ops_per_s,
        "peak_share": row.peak_share,
        "ops_per_s": row.ops_per_s,
        "peak_ops_per_s": median(result.peak_ops_per_s) if result.peak_ops_per_s else None,
        "peers": [_peer_as_dict(peer) for peer in row.peers],
        "best_peer": row.best_peer.entrant.name if row.best_peer else None,
        "ratio": asdict(row.ratio) if row.ratio else None,
        "raw_ratio": asdict(row.raw_ratio) if row.raw_ratio else None,
        "verdict": row.verdict.value,
    }


def _peer_as_dict(peer: PeerTime) -> dict[str, Any]:
    return {
        "name": peer.entrant.name,
        "workload": peer.entrant.workload,
        "outcome": peer.entrant.outcome.value,
        "error": peer.entrant.error,
        "time_s": peer.time_s,
        "times_s": peer.entrant.times_s,
        "net_time_s": peer.net_time_s,
    }


def _class_as_dict(row: ClassRow) -> dict[str, Any]:
    return asdict(row) | {"verdicts": {verdict.value: count for verdict, count in row.verdicts.items()}}
