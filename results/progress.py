"""How a search went: the trials of each layer in order, and the best rate so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from results.base import Store
from results.record import Campaign, Outcome, Trial
from results.stats import median


@dataclass(frozen=True, slots=True)
class Step:
    """One trial of a layer.

    Attributes:
        sequence: of the trial in its campaign.
        ops_per_s: None if it failed.
        best_ops_per_s: the highest rate up to here; None before the first success.
    """

    sequence: int
    candidate_id: str
    outcome: Outcome
    ops_per_s: float | None
    best_ops_per_s: float | None


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
            done.append(_step(trial, macs, done[-1].best_ops_per_s if done else None))
    return [Progress(workload, tuple(done)) for workload, done in steps.items() if done]


def _step(trial: Trial, macs: int, best_ops_per_s: float | None) -> Step:
    ops_per_s = 2 * macs / median(trial.measurement.times_s) if trial.measurement else None
    best_ops_per_s = max((rate for rate in (ops_per_s, best_ops_per_s) if rate is not None), default=None)
    return Step(trial.sequence, trial.candidate.id, trial.outcome, ops_per_s, best_ops_per_s)
