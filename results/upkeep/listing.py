"""Campaigns at a glance: what a store has, and who ran it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from int8tune.results.base import Store
from int8tune.results.record import Campaign, CampaignRun, Outcome, runs_of
from int8tune.results.summary import Outline, Verdict, outline


@dataclass(frozen=True, slots=True)
class CampaignRow:
    """One campaign.

    Attributes:
        store: where it is, as it was named.
        trials, failed: how many were made, and how many of them ended with no time.
        layers, faster_layers: distinct ones, and those with a schedule that is faster than the default beyond doubt.
        speedup: of all layers that were compared; None where none was.
        started_at, last_at: of the campaign, and of the last that is known of it.
        host, user, version, commit: of the last run; empty in records from before runs were kept.
        ending: of the last run; empty where it was killed or is still running.
        store_bytes: of the whole store; None where it is no file.
    """

    store: str
    campaign: str
    network: str
    target: str
    device: str
    strategy: str
    layers: int
    faster_layers: int
    trials: int
    failed: int
    speedup: float | None
    started_at: str
    last_at: str
    host: str
    user: str
    version: str
    commit: str
    ending: str
    store_bytes: int | None


def campaign_rows_of(store: Store, where: str, store_bytes: int | None) -> Iterator[CampaignRow]:
    """A row for each campaign, in the order in which they were started.

    Raises:
        ForeignStoreError: a damaged row.
    """
    for campaign in list(store.query(Campaign)):
        found = outline(store, campaign)
        yield _row(campaign, found, runs_of(store.query(CampaignRun, campaign=campaign.name)), where, store_bytes)


def is_older(row: CampaignRow, age_s: float, now: datetime | None = None) -> bool:
    """Whether nothing is known of a campaign since so long; one without a time that can be read is not."""
    try:
        last = datetime.fromisoformat(row.last_at)
    except ValueError:
        return False
    last = last if last.tzinfo else last.replace(tzinfo=UTC)
    return (now or datetime.now(UTC)) - last > timedelta(seconds=age_s)


def _row(
    campaign: Campaign, found: Outline, runs: list[CampaignRun], where: str, store_bytes: int | None
) -> CampaignRow:
    totals = found.totals
    last = runs[-1] if runs else None
    return CampaignRow(
        store=where,
        campaign=campaign.name,
        network=campaign.network,
        target=campaign.target,
        device=campaign.device,
        strategy=campaign.strategy,
        layers=len(found.layers),
        faster_layers=sum(layer.verdict is Verdict.FASTER for layer in found.layers),
        trials=totals.trials,
        failed=totals.trials - totals.outcomes.get(Outcome.OK, 0),
        speedup=totals.speedup,
        started_at=campaign.created_at,
        last_at=_last_at(campaign, found, runs),
        host=last.host if last else "",
        user=last.user if last else "",
        version=last.version if last else "",
        commit=last.commit if last else "",
        ending=last.ending if last else "",
        store_bytes=store_bytes,
    )


def _last_at(campaign: Campaign, found: Outline, runs: list[CampaignRun]) -> str:
    times = [found.last_at, *(time for run in runs for time in (run.started_at, run.ended_at))]
    return max([campaign.created_at, *filter(None, times)], key=_moment)


def _moment(text: str) -> float:
    """Times are texts of ISO 8601, which may be of several zones."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0
