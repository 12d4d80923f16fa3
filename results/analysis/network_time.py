"""A network's time: what its layers take, how sure its speed-up is, and which layers the gain comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from int8tune.results.analysis.roofline import LayerRoof
from int8tune.results.analysis.search_course import amount_of
from int8tune.results.stats import Speedup
from int8tune.results.summary import LayerRow, Verdict


@dataclass(frozen=True, slots=True)
class Gain:
    """What a layer's best saves in a run of the network, in seconds or cycles.

    Attributes:
        claimed: whether duels say so beyond doubt; what noise may have made is in no sum.
    """

    workload: str
    amount: float
    claimed: bool


@dataclass(frozen=True, slots=True)
class NetworkTime:
    """A network's time, in seconds, or in cycles where these are estimated.

    Attributes:
        default, best: summed over the layers that have both.
        timed: summed over all layers that have a best: what shares refer to.
        runs, compared_runs, timed_runs: calls of layers in the network, and those in the sums.
        speedup: default over best, with an interval from those of the layers, which are taken as independent; None if
            no layer could be compared.
        roof_share: what the network would take at its layers' roofs over what it takes; None where roofs are not known.
        gains: the largest first.
    """

    default: float
    best: float
    timed: float
    runs: int
    compared_runs: int
    timed_runs: int
    speedup: Speedup | None
    roof_share: float | None
    gains: tuple[Gain, ...]

    def share(self, row: LayerRow) -> float | None:
        """A layer's part of the network's time; None without a time."""
        return row.count * amount_of(row.best) / self.timed if row.best is not None and self.timed else None


def network_time(rows: Sequence[LayerRow], roofs: Mapping[str, LayerRoof]) -> NetworkTime:
    """The sums over the layers of a campaign."""
    compared = [row for row in rows if row.default is not None and row.best is not None]
    timed = [row for row in rows if row.best is not None]
    default = math.fsum(row.count * amount_of(row.default) for row in compared if row.default)
    best = math.fsum(row.count * amount_of(row.best) for row in compared if row.best)
    return NetworkTime(
        default=default,
        best=best,
        timed=math.fsum(row.count * amount_of(row.best) for row in timed if row.best),
        runs=sum(row.count for row in rows),
        compared_runs=sum(row.count for row in compared),
        timed_runs=sum(row.count for row in timed),
        speedup=_speedup(compared, default, best),
        roof_share=_roof_share(timed, roofs),
        gains=_gains(compared),
    )


def _speedup(rows: Sequence[LayerRow], default: float, best: float) -> Speedup | None:
    """The ratio of the sums; its interval adds the layers' as errors of one sum."""
    if not best:
        return None
    variances = [(row.count * amount_of(row.best) * _half_width(row)) ** 2 for row in rows if row.best]
    share = min(math.sqrt(math.fsum(variances)) / best, 0.9)
    estimate = default / best
    return Speedup(estimate, estimate * (1 - share), estimate * (1 + share))


def _half_width(row: LayerRow) -> float:
    """Half of a layer's interval, relative to its speed-up: nothing where its default is its best."""
    if row.verdict is not Verdict.FASTER or row.speedup is None:
        return 0.0
    return (row.speedup.high - row.speedup.low) / 2 / row.speedup.estimate


def _roof_share(rows: Sequence[LayerRow], roofs: Mapping[str, LayerRoof]) -> float | None:
    pairs = [
        (row.count * 2 * row.macs / roofs[row.workload].ops_per_s, row.count * row.best.median_s)
        for row in rows
        if row.best and row.best.median_s and row.macs is not None and row.workload in roofs
    ]
    taken_s = math.fsum(took_s for _, took_s in pairs)
    return math.fsum(least_s for least_s, _ in pairs) / taken_s if taken_s else None


def _gains(rows: Sequence[LayerRow]) -> tuple[Gain, ...]:
    found = []
    for row in rows:
        assert row.default is not None
        assert row.best is not None
        if row.verdict is Verdict.FASTER:
            found.append(Gain(row.workload, row.count * (amount_of(row.default) - amount_of(row.best)), claimed=True))
        elif row.verdict is Verdict.NOISE and row.speedup is not None and row.speedup.estimate > 1:
            saved = amount_of(row.default) * (1 - 1 / row.speedup.estimate)
            found.append(Gain(row.workload, row.count * saved, claimed=False))
    return tuple(sorted(found, key=lambda gain: -gain.amount))
