"""A campaign's layers beside other libraries, where a bench of the same device compared them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from int8tune.results.base import Store
from int8tune.results.bench import BenchRow, LayerFacts, bench_row
from int8tune.results.record import BenchResult, Campaign
from int8tune.results.summary import LayerRow


@dataclass(frozen=True, slots=True)
class LayerPeers:
    """A layer beside other libraries, in the latest bench of it.

    Attributes:
        is_best: whether the bench ran the candidate that is this campaign's best.
    """

    workload: str
    row: BenchRow
    is_best: bool


@dataclass(frozen=True, slots=True)
class Library:
    """A library over the network.

    Attributes:
        runs: calls of the layers that both computed.
        ratio: its time over this library's for these: over 1 this one is faster.
    """

    name: str
    version: str
    runs: int
    ratio: float


@dataclass(frozen=True, slots=True)
class Peers:
    """Layers in the order of the network, and libraries, the fastest first."""

    layers: tuple[LayerPeers, ...]
    libraries: tuple[Library, ...]

    @property
    def best(self) -> Library | None:
        """The fastest of those that computed the most layers."""
        most = max((library.runs for library in self.libraries), default=0)
        return next((library for library in self.libraries if library.runs == most), None)


def peers_of(store: Store, campaign: Campaign, rows: Sequence[LayerRow]) -> Peers:
    """What benches of the campaign's device and target say of its layers, on one thread."""
    latest: dict[str, BenchResult] = {}
    for result in store.query(BenchResult, target=campaign.target, device=campaign.device):
        if result.threads == 1:
            latest[result.workload] = result
    found = [(row, latest[row.workload]) for row in rows if row.workload in latest and latest[row.workload].peers]
    layers = [
        LayerPeers(row.workload, bench_row(result, LayerFacts(row.macs or 0, "")), _is_best(row, result))
        for row, result in found
    ]
    return Peers(tuple(layers), _libraries(layers, {row.workload: row.count for row in rows}))


def _is_best(row: LayerRow, result: BenchResult) -> bool:
    return row.best is not None and row.best.candidate.id == result.candidate.id


def _libraries(layers: Sequence[LayerPeers], counts: Mapping[str, int]) -> tuple[Library, ...]:
    pairs: dict[tuple[str, str], list[tuple[int, float, float]]] = {}
    for layer in layers:
        for peer in layer.row.peers:
            if peer.net_time_s is not None and layer.row.time_s is not None:
                key = peer.entrant.name, peer.entrant.version
                pairs.setdefault(key, []).append((counts[layer.workload], peer.net_time_s, layer.row.time_s))
    found = [
        Library(
            name,
            version,
            sum(count for count, _, _ in timed),
            math.fsum(count * theirs_s for count, theirs_s, _ in timed)
            / math.fsum(count * ours_s for count, _, ours_s in timed),
        )
        for (name, version), timed in pairs.items()
        if any(count for count, _, _ in timed)
    ]
    return tuple(sorted(found, key=lambda library: library.ratio))
