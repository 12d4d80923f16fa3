"""Campaigns of one network on one device over time: how long the network took, and what changed since the last one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from int8tune.results.comparison.compare import ComparedNetwork, compare_sides
from int8tune.results.comparison.side import Side
from int8tune.results.errors import ComparisonError
from int8tune.results.record import CampaignRun
from int8tune.results.summary import CampaignSummary


@dataclass(frozen=True, slots=True)
class PastCampaign:
    """One campaign.

    Attributes:
        place: where its records are, as a person named it.
        page: the file of its report, beside the index; empty where there is none.
        run: its last run of the program; None where nobody wrote that down.
        since: what changed since the campaign before it, of the same history; None where nothing can be compared.
    """

    summary: CampaignSummary
    side: Side
    place: str
    page: str
    run: CampaignRun | None
    since: ComparedNetwork | None = None

    @property
    def time(self) -> float | None:
        """The network's time by its best schedules, seconds or estimated cycles; None unless all layers have one."""
        totals = self.summary.totals
        is_whole = totals.layers and totals.compared_layers == totals.layers
        return (totals.best_s or totals.best_cycles) if is_whole else None


@dataclass(frozen=True, slots=True)
class History:
    """Campaigns whose times can stand on one axis, in the order in which they were started."""

    network: str
    device: str
    cpu: str
    target: str
    cache: str
    estimated_by: str
    campaigns: tuple[PastCampaign, ...]


def histories(campaigns: Iterable[PastCampaign]) -> tuple[History, ...]:
    """One for each network, target and device, by these."""
    groups: dict[tuple[str, str, str, str, str, str], list[PastCampaign]] = {}
    for each in campaigns:
        known = each.side.conditions
        network = each.summary.campaign.network
        key = network, known.device, known.cpu, known.target, known.cache, each.side.estimated_by
        groups.setdefault(key, []).append(each)
    found = []
    for key, group in sorted(groups.items()):
        ordered = sorted(group, key=lambda each: each.summary.campaign.created_at)
        found.append(History(*key, tuple(_compared(ordered))))
    return tuple(found)


def _compared(campaigns: Sequence[PastCampaign]) -> Iterable[PastCampaign]:
    before: PastCampaign | None = None
    for each in campaigns:
        yield each if before is None else _since(before, each)
        before = each


def _since(before: PastCampaign, now: PastCampaign) -> PastCampaign:
    try:
        since = compare_sides(before.side, now.side).network
    except ComparisonError:  # nothing in common
        return now
    return PastCampaign(now.summary, now.side, now.place, now.page, now.run, since)
