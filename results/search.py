"""What a race of this library's search with another one says: which kernels they found, and at what cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from int8tune.results.bench import BenchSummary, LayerFacts, summarize_bench
from int8tune.results.record import BenchResult


@dataclass(frozen=True, slots=True)
class Effort:
    """What a search took.

    Attributes:
        trials: candidates that were built and timed, or failed.
        failed: those of them that did not build, did not run or were found wrong by the search itself.
        search_s: from its first proposal to its last time.
    """

    trials: int = 0
    failed: int = 0
    search_s: float = 0.0

    @property
    def trials_per_s(self) -> float | None:
        """None for a search that did not run."""
        return self.trials / self.search_s if self.search_s else None


@dataclass(frozen=True, slots=True)
class RaceLayer:
    """One layer of a race: the best kernels of both, timed in turn, and what they took."""

    result: BenchResult
    ours: Effort
    theirs: Effort


@dataclass(frozen=True, slots=True)
class SearchSummary:
    """A race in numbers: the kernels as a bench has them, and its layers by workload."""

    bench: BenchSummary
    race_layers: Mapping[str, RaceLayer]
    ours: Effort
    theirs: Effort


def summarize_search(
    race_layers: Sequence[RaceLayer], facts_by_workload: Mapping[str, LayerFacts], classes: Sequence[str]
) -> SearchSummary:
    """What the layers of one race say, in the given order of classes."""
    bench = summarize_bench([race_layer.result for race_layer in race_layers], facts_by_workload, classes)
    by_workload = {race_layer.result.workload: race_layer for race_layer in race_layers}
    return SearchSummary(
        bench,
        by_workload,
        _sum(race_layer.ours for race_layer in race_layers),
        _sum(race_layer.theirs for race_layer in race_layers),
    )


def _sum(efforts: Iterable[Effort]) -> Effort:
    known = list(efforts)
    return Effort(
        sum(effort.trials for effort in known),
        sum(effort.failed for effort in known),
        sum(effort.search_s for effort in known),
    )
