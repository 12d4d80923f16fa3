"""How a search went: the trials of each layer in order, and the best rate so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from int8tune.results.base import Store
from int8tune.results.record import Campaign, Outcome, Trial
from int8tune.results.stats import median


@dataclass(frozen=True, slots=True)
class Step:
    """One trial of a layer.

    Attributes:
        sequence: of the trial in its campaign.
        rate: operations per second, or per cycle where these are estimated; None if it failed.
        best_rate: the highest up to here; None before the first success.
    """

    sequence: int
    candidate_id: str
    outcome: Outcome
    rate: float | None
    best_rate: float | None


@dataclass(frozen=True, slots=True)
class Progress:
    """The trials of one layer, in the order the search saw them."""

    workload: str
    steps: tuple[Step, ...]


def search_progress(store: Store, campaign_name: str, macs_by_workload: Mapping[str, int]) -> list[Progress]:
    """Per layer, in the order of the network; layers without a trial, or of unknown size, are left out."""
    campaign = next(store.query(Campaign, campaign=campaign_name), None)
    steps: dict[str, list[Step]] = {workload: [] for workload in campaign.layers} if campaign else {}
    for trial in store.query(Trial, campaign=campaign_name):
        macs = macs_by_workload.get(trial.candidate.workload)
        if macs is not None:
            done = steps.setdefault(trial.candidate.workload, [])
            done.append(_step(trial, macs, done[-1].best_rate if done else None))
    return [Progress(workload, tuple(done)) for workload, done in steps.items() if done]


def rate_of(trial: Trial, macs: int) -> float | None:
    """Operations per second, or per cycle where these are estimated; None of a trial that failed."""
    if trial.measurement is not None:
        return 2 * macs / median(trial.measurement.times_s)
    return 2 * macs / trial.estimate.cycles if trial.estimate is not None else None


def _step(trial: Trial, macs: int, best_rate: float | None) -> Step:
    rate = rate_of(trial, macs)
    best_rate = max((known for known in (rate, best_rate) if known is not None), default=None)
    return Step(trial.sequence, trial.candidate.id, trial.outcome, rate, best_rate)
