"""What a bench says: for each layer the fastest other library, how much faster this one is, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from int8tune.results.base import Store
from int8tune.results.label import layer_label
from int8tune.results.record import BenchResult, Entrant
from int8tune.results.stats import Speedup, inverse, is_win, median, ratio_interval

GPU_RATE = "gpu_int8_ops_per_s"
"""In the environment of a GPU: operations per second of all its tensor cores at the highest clock."""

# A call's overhead that is more of a time than this leaves too little of it to judge by.
MOST_OVERHEAD = 0.5


class BenchVerdict(StrEnum):
    """How this library compares with the fastest other one on a layer."""

    FASTER = "faster"
    SLOWER = "slower"
    NOISE = "noise"
    ALONE = "alone"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class LayerFacts:
    """What records don't say of a layer: multiply-adds of one call, and the class it is summed up in."""

    macs: int
    layer_class: str


@dataclass(frozen=True, slots=True)
class PeerTime:
    """Another library on one layer.

    Attributes:
        time_s: median; None unless its outcome is `OK`.
        net_time_s: median without the overhead of its calls, if that can be believed.
        unsure: whether the overhead is too much of the time, or more than all of it.
    """

    entrant: Entrant
    time_s: float | None = None
    net_time_s: float | None = None
    unsure: bool = False


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One layer.

    Attributes:
        time_s: this library's median; None if it failed.
        peak_share: of the peak that was measured in the same rounds.
        ops_per_s: operations per second of this library, two for a multiply-add.
        best_peer: the other library with the smallest net time.
        ratio: its net times over this library's: over 1 this library is faster.
        raw_ratio: the same with the overhead left in.
    """

    result: BenchResult
    label: str
    layer_class: str
    time_s: float | None
    peak_share: float | None
    ops_per_s: float | None
    peers: tuple[PeerTime, ...]
    best_peer: PeerTime | None
    ratio: Speedup | None
    raw_ratio: Speedup | None
    verdict: BenchVerdict

    @property
    def is_unsure(self) -> bool:
        """Whether the best other library's time is."""
        return self.best_peer is not None and self.best_peer.unsure


@dataclass(frozen=True, slots=True)
class ClassRow:
    """A class of layers; `ratio` and `peak_share` are geometric means, None where no layer has one.

    Layers are in no mean of ratios, and have no lowest one, where the best other library's time is unsure.
    """

    name: str
    layers: int
    ratio: float | None
    lowest_ratio: float | None
    peak_share: float | None
    verdicts: Mapping[BenchVerdict, int]


@dataclass(frozen=True, slots=True)
class Library:
    """A library that took part; `overhead_s` is the least median of its smallest layer, None where it is not known."""

    name: str
    version: str
    overhead_s: float | None


@dataclass(frozen=True, slots=True)
class BenchSummary:
    """A bench in numbers: rows class by class, and the classes that have rows."""

    rows: tuple[BenchRow, ...]
    classes: tuple[ClassRow, ...]
    total: ClassRow
    libraries: tuple[Library, ...]


def bench_results(store: Store, bench: str) -> tuple[BenchResult, ...]:
    """The results of one bench, in the order they were measured."""
    return tuple(result for result in store.query(BenchResult) if result.bench == bench)


def summarize_bench(
    results: Sequence[BenchResult],
    facts_by_workload: Mapping[str, LayerFacts],
    classes: Sequence[str],
    min_gain: float = 0.01,
) -> BenchSummary:
    """What results of one bench say, in the given order of classes."""
    rows = [bench_row(result, facts_by_workload[result.workload], min_gain) for result in results]
    rows.sort(key=lambda row: classes.index(row.layer_class))
    sections = ((name, [row for row in rows if row.layer_class == name]) for name in classes)
    summed = tuple(_class_row(name, own) for name, own in sections if own)
    return BenchSummary(tuple(rows), summed, _class_row("all", rows), _libraries(results))


def bench_row(result: BenchResult, facts: LayerFacts, min_gain: float = 0.01) -> BenchRow:
    """What one result says."""
    peers = tuple(map(_peer_time, result.peers))
    ours = result.ours.times_s
    best = _fastest(peers)
    ratio = _ratio(best, ours)
    return BenchRow(
        result=result,
        label=layer_label(result.workload),
        layer_class=facts.layer_class,
        time_s=median(ours) if ours else None,
        peak_share=_peak_share(result, facts.macs),
        ops_per_s=2 * facts.macs / median(ours) if ours else None,
        peers=peers,
        best_peer=best,
        ratio=ratio,
        raw_ratio=ratio_interval(best.entrant.times_s, ours) if best and ours else None,
        verdict=_verdict(ours, peers, min_gain),
    )


def _fastest(peers: Iterable[PeerTime]) -> PeerTime | None:
    timed = [(peer.net_time_s, peer) for peer in peers if peer.net_time_s is not None]
    return min(timed, key=lambda one: one[0])[1] if timed else None


def _ratio(peer: PeerTime | None, ours: Sequence[float]) -> Speedup | None:
    return ratio_interval(_net_times_s(peer.entrant), ours) if peer and ours else None


def _verdict(ours: Sequence[float], peers: Sequence[PeerTime], min_gain: float) -> BenchVerdict:
    if not ours:
        return BenchVerdict.FAILED
    best = _fastest(peers)
    if best is None:
        return BenchVerdict.ALONE
    if not best.unsure:
        return _claim(_ratio(best, ours), min_gain)
    # Nobody is beaten by guessing what a call costs; but who is slower than another one is.
    beaten = _claim(_ratio(_fastest(peer for peer in peers if not peer.unsure), ours), min_gain)
    return beaten if beaten is BenchVerdict.SLOWER else BenchVerdict.NOISE


def _claim(ratio: Speedup | None, min_gain: float) -> BenchVerdict:
    """What an interval proves."""
    if ratio is None:
        return BenchVerdict.NOISE
    if is_win(ratio, min_gain):
        return BenchVerdict.FASTER
    return BenchVerdict.SLOWER if is_win(inverse(ratio), min_gain) else BenchVerdict.NOISE


def _peer_time(entrant: Entrant) -> PeerTime:
    if not entrant.times_s:
        return PeerTime(entrant)
    time_s, net_time_s = median(entrant.times_s), median(_net_times_s(entrant))
    is_mostly_overhead = net_time_s < (1 - MOST_OVERHEAD) * time_s
    return PeerTime(entrant, time_s, net_time_s, unsure=is_mostly_overhead or _is_absurd(entrant))


def _net_times_s(entrant: Entrant) -> tuple[float, ...]:
    """Times without overhead, each without another of its measurements, so that its noise shows in an interval."""
    if not entrant.overhead_times_s or _is_absurd(entrant):
        return entrant.times_s
    pairs = zip(entrant.times_s, entrant.overhead_times_s, strict=True)
    # Never zero: a ratio needs it positive, and a layer that is all overhead proves nothing anyway.
    return tuple(max(time_s - overhead_s, 0.01 * time_s) for time_s, overhead_s in pairs)


def _is_absurd(entrant: Entrant) -> bool:
    """Whether a call without work is said to take as long as one with work: others had the core meanwhile."""
    return bool(entrant.overhead_times_s) and median(entrant.overhead_times_s) >= min(entrant.times_s)


def gpu_rate(result: BenchResult) -> float | None:
    """What the tensor cores of the GPU could do, in operations per second; None where nobody knows."""
    said = result.environment.get(GPU_RATE, "")
    return float(said) if said.isdigit() and int(said) else None


def _peak_share(result: BenchResult, macs: int) -> float | None:
    pairs = zip(result.ours.times_s, result.peak_ops_per_s, strict=False)
    shares = [2 * macs / (time_s * peak) for time_s, peak in pairs]
    return median(shares) if shares else None


def _class_row(name: str, rows: Sequence[BenchRow]) -> ClassRow:
    ratios = [row.ratio.estimate for row in rows if row.ratio is not None and not row.is_unsure]
    shares = [row.peak_share for row in rows if row.peak_share is not None]
    verdicts = {verdict: sum(row.verdict is verdict for row in rows) for verdict in BenchVerdict}
    lowest = min(ratios, default=None)
    return ClassRow(name, len(rows), geometric_mean(ratios), lowest, geometric_mean(shares), verdicts)


def geometric_mean(values: Sequence[float]) -> float | None:
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else None


def _libraries(results: Iterable[BenchResult]) -> tuple[Library, ...]:
    """Every library once, as it was when it first said its version."""
    versions: dict[str, str] = {}
    overheads_s: dict[str, list[float]] = {}
    for entrant in (entrant for result in results for entrant in result.entrants):
        versions[entrant.name] = versions.get(entrant.name) or entrant.version
        medians_s = overheads_s.setdefault(entrant.name, [])
        medians_s += [median(entrant.overhead_times_s)] if entrant.overhead_times_s else []
    return tuple(Library(name, version, min(overheads_s[name], default=None)) for name, version in versions.items())
