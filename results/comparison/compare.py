"""Two sides layer by layer: faster, slower, or unchanged as far as anybody can tell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

import numpy as np

from int8tune.results.comparison.sessions import (
    UNKNOWN_ERROR,
    UNKNOWN_GAIN_ERROR,
    LogRatio,
    Spread,
    family_confidence,
    ratio_of,
    spread_of,
    spread_of_probes,
)
from int8tune.results.comparison.side import LayerTime, Side
from int8tune.results.errors import ComparisonError, DifferentConditionsError
from int8tune.results.stats import Speedup, inverse, is_win, median

MIN_CHANGE = 0.01
# Seconds, of the peak loop those of one operation; or cycles of estimates.
SHORTEST, LONGEST = 1e-18, 1e15
_CONFIDENCE = 0.95


class Change(StrEnum):
    """What became of a layer."""

    FASTER = "faster"
    SLOWER = "slower"
    UNCHANGED = "unchanged"
    ONLY_A = "missing in B"
    ONLY_B = "missing in A"
    NOT_TIMED = "not timed"


@dataclass(frozen=True, slots=True)
class ComparedLayer:
    """A layer on both sides.

    Attributes:
        count: how often the network runs it; 1 where neither side says.
        a, b: None where it is missing.
        ratio: A's time over B's, over 1 where B is faster; of what the machine was slower nothing is in it.
        why: what is to be said beside the change, such as why a layer is missing; empty where nothing is.
    """

    key: str
    label: str
    count: int
    names: tuple[str, ...]
    a: LayerTime | None
    b: LayerTime | None
    ratio: Speedup | None
    change: Change
    why: str = ""


@dataclass(frozen=True, slots=True)
class ComparedNetwork:
    """The sum over the layers that both sides have, each as often as the network runs it.

    Attributes:
        runs, layers: that the sum is of; `all_runs` of either side.
        a, b: seconds, or cycles, as they were measured.
        ratio: A's time over B's, of what the machine was slower nothing.
    """

    runs: int
    layers: int
    all_runs: int
    a: float
    b: float
    ratio: Speedup
    change: Change


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides beside each other.

    Attributes:
        a, b: the older one, or the one to compare with, first.
        notes: how times of two sessions were made comparable, one sentence each.
        differences: of what they ran on and with: both values by name.
    """

    a: Side
    b: Side
    layers: tuple[ComparedLayer, ...]
    network: ComparedNetwork
    notes: tuple[str, ...]
    differences: Mapping[str, tuple[str, str]]

    @property
    def is_estimated(self) -> bool:
        return bool(self.a.estimated_by)

    def counts(self) -> Mapping[Change, int]:
        """How many layers changed in each way that there is."""
        found = {change: sum(layer.change is change for layer in self.layers) for change in Change}
        return {change: count for change, count in found.items() if count}


def compare_sides(a: Side, b: Side, *, across_devices: bool = False) -> Comparison:
    """What changed from A to B.

    A layer is claimed to have changed where its interval excludes 1 at a confidence at which all such claims hold
    together with 95 %, and it changed by 1 % at least.

    Args:
        across_devices: compare what was measured under other conditions, too.

    Raises:
        DifferentConditionsError: it was, with both values of each.
        ComparisonError: no layer is on both sides, or one side was measured and the other estimated.
    """
    for side in (a, b):
        _require_possible(side)
    differing = _require_alike(a, b, across_devices=across_devices)
    common = [key for key in a.layers if key in b.layers]
    if not common:
        raise ComparisonError(f"no layer is on both sides: {_listed(a)}; {_listed(b)}")
    machine, beside, notes = _sessions(a, b, common, other_devices=bool(differing))
    ratios = {key: ratio_of(a.layers[key], b.layers[key], machine, beside) for key in common}
    return compared(a, b, ratios, (*notes, *_how(a, b, ratios, beside)))


def compared(
    a: Side, b: Side, ratios: Mapping[str, LogRatio], notes: Sequence[str], failed: Mapping[str, str] | None = None
) -> Comparison:
    """The comparison, from the logarithms of the ratios of what both sides have.

    Args:
        failed: what both have, but was not timed where ratios are of times that were taken anew: by key, why.
    """
    confidence = family_confidence(len(ratios))
    keys = dict.fromkeys([*a.layers, *b.layers])
    whys = failed or {}
    rows = [_row(key, a, b, ratios.get(key), confidence, whys.get(key, "")) for key in keys]
    network = _network(rows, ratios)
    return Comparison(a, b, tuple(rows), network, tuple(notes), _environment_differences(a, b))


def _require_possible(side: Side) -> None:
    """Times, seconds or cycles, with which one can reckon; what no machine has ever taken comes from a damaged file."""
    repeats = [(layer.time, *layer.times_s, *chain(*layer.references.values())) for layer in side.layers.values()]
    for time in chain(*repeats, side.controls.values(), side.gains.values(), side.probe_s):
        if not SHORTEST <= time <= LONGEST:
            raise ComparisonError(f"a time that can't be ({time:g}): {side.source}")


def _require_alike(a: Side, b: Side, *, across_devices: bool) -> Mapping[str, tuple[str, str]]:
    """The conditions that differ; empty where none does."""
    if bool(a.estimated_by) != bool(b.estimated_by):
        kinds = " and ".join("estimated" if side.estimated_by else "measured" for side in (a, b))
        raise ComparisonError(f"times that were measured and estimated can't be compared: A and B are {kinds}")
    differing = a.conditions.differences(b.conditions)
    if differing and not across_devices:
        which = "; ".join(f"{name} {pair[0]} and {pair[1]}" for name, pair in differing.items())
        raise DifferentConditionsError(f"A and B were taken under other conditions: {which}")
    return differing


def _listed(side: Side) -> str:
    if not side.layers:
        return f"{side.source} has none with a time"
    first = next(iter(side.layers.values()))
    return f"{side.source} has {len(side.layers)}, such as {first.label}"


def _sessions(a: Side, b: Side, common: Sequence[str], *, other_devices: bool) -> tuple[Spread, Spread, list[str]]:
    """How far sessions are apart: times, and times over those of a reference; and what is to be said of it."""
    if a.estimated_by:
        return Spread(), Spread(), ["estimates are the same each time: intervals have no width"]
    beside = spread_of(a.gains, b.gains) or Spread(error=UNKNOWN_GAIN_ERROR)
    if other_devices:
        return (
            Spread(error=UNKNOWN_ERROR, shared=UNKNOWN_ERROR),
            beside,
            ["A and B are of other devices: nothing was taken off"],
        )
    if not any(_needs_machine(a.layers[key], b.layers[key]) for key in common):
        return Spread(error=UNKNOWN_ERROR), beside, []
    by_kernels, by_probes = spread_of(a.controls, b.controls), spread_of_probes(a, b)
    if by_kernels:
        return by_kernels, beside, [_said(by_kernels, f"{by_kernels.count} kernels that both timed")]
    if by_probes:
        return by_probes, beside, [_said(by_probes, "the probe beside the trials")]
    assumed = f"{UNKNOWN_ERROR * 100:.0f} %"
    unknown = Spread(error=UNKNOWN_ERROR, shared=UNKNOWN_ERROR)
    said = f"nothing says how far the two sessions are apart: {assumed} are assumed for all layers, and for each"
    return unknown, beside, [said]


def _needs_machine(a: LayerTime, b: LayerTime) -> bool:
    return not a.references.keys() & b.references.keys()


def _said(spread: Spread, by: str) -> str:
    which = f"by {by}, B's machine {_slower(math.exp(-spread.shift) - 1, 'was')}: taken off"
    return f"{which}; from session to session a kernel's time differs by {spread.error * 100:.1f} %"


def _how(a: Side, b: Side, ratios: Mapping[str, LogRatio], beside: Spread) -> list[str]:
    """What is to be said of layers that were timed in turn with a kernel that both sides have."""
    slower = [
        math.log(median(b.layers[key].references[ratio.reference]) / median(a.layers[key].references[ratio.reference]))
        for key, ratio in ratios.items()
        if ratio.reference
    ]
    if not slower:
        return []
    how = "assumed" if not beside.count else f"by {beside.count} kernels"
    which = "all layers" if len(slower) == len(ratios) else f"{len(slower)} of {len(ratios)} layers"
    text = f"{which} by their time over that of a kernel that is the same on both sides, timed in turn"
    return [
        f"{text}; in B that one {_slower(math.exp(float(np.median(slower))) - 1, 'was')}: taken off",
        f"times over that one's differ by {beside.error * 100:.1f} % from session to session ({how})",
    ]


def _slower(share: float, was: str) -> str:
    """In words, by how much something was slower."""
    if abs(share) < 0.0005:
        return f"{was} as fast"
    return f"{was} {abs(share) * 100:.1f} % {'slower' if share > 0 else 'faster'}"


def _row(key: str, a: Side, b: Side, ratio: LogRatio | None, confidence: float, failed: str) -> ComparedLayer:
    of_a, of_b = a.layers.get(key), b.layers.get(key)
    known = of_a or of_b
    count = next((each.count for each in (of_a, of_b) if each and each.count), 1)
    names = next((each.names for each in (of_a, of_b) if each and each.names), ())
    label = known.label if known else ""
    if failed:
        return ComparedLayer(key, label, count, names, None, None, None, Change.NOT_TIMED, failed)
    if of_a is None or of_b is None or ratio is None:
        missing, change = (a, Change.ONLY_B) if of_a is None else (b, Change.ONLY_A)
        why = missing.failed.get(key, "")
        return ComparedLayer(key, label, count, names, of_a, of_b, None, change, why)
    is_same = bool(of_a.kernel) and of_a.kernel == of_b.kernel
    change = Change.UNCHANGED if is_same else change_of(ratio.interval(confidence))
    why = "the same binary" if is_same else ""
    return ComparedLayer(key, label, count, names, of_a, of_b, ratio.interval(_CONFIDENCE), change, why)


def change_of(sure: Speedup) -> Change:
    """What an interval proves."""
    if is_win(sure, MIN_CHANGE):
        return Change.FASTER
    return Change.SLOWER if is_win(inverse(sure), MIN_CHANGE) else Change.UNCHANGED


def _network(rows: Sequence[ComparedLayer], ratios: Mapping[str, LogRatio]) -> ComparedNetwork:
    both = [(row, row.a, row.b, ratios[row.key]) for row in rows if row.a and row.b]
    total_a = math.fsum(row.count * a.time for row, a, _, _ in both)
    total_b = math.fsum(row.count * b.time for row, _, b, _ in both)
    comparable_b = math.fsum(row.count * a.time / math.exp(ratio.value) for row, a, _, ratio in both)
    shares = [(row.count * a.time / total_a, ratio) for row, a, _, ratio in both]
    own = math.fsum((share * ratio.error) ** 2 for share, ratio in shares)
    shared = math.fsum(share * ratio.shared for share, ratio in shares)
    freedom = min(ratio.freedom for _, ratio in shares)
    ratio = LogRatio(math.log(total_a / comparable_b), math.sqrt(own), shared, freedom).interval(_CONFIDENCE)
    runs = sum(row.count for row, _, _, _ in both)
    return ComparedNetwork(runs, len(both), sum(row.count for row in rows), total_a, total_b, ratio, change_of(ratio))


def _environment_differences(a: Side, b: Side) -> Mapping[str, tuple[str, str]]:
    """What is known of both sides and differs: the conditions first, then versions and the like."""
    known = [name for name in a.environment if name in b.environment and name not in ("cpu", "cache")]
    pairs = {name: (a.environment[name], b.environment[name]) for name in known}
    return {**a.conditions.differences(b.conditions), **{n: pair for n, pair in pairs.items() if pair[0] != pair[1]}}
