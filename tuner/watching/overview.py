"""What there is to see of campaigns and boards at one moment; terminal, page and JSON draw this value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from int8tune.results.label import layer_label
from int8tune.results.record import Trial
from int8tune.results.snapshot import CampaignSnapshot, NetworkCost, moment_of
from int8tune.tuner.board_states import BoardState, state_fields
from int8tune.tuner.campaign_status import CampaignStatus

FORMAT = 1
FAILURES_SHOWN = 5
# A campaign of another machine says nothing but its records: one so old is taken for one that runs.
FRESH_S = 120.0


class Phase(StrEnum):
    """What a campaign is doing. Apart from these, how it ended: `finished`, `interrupted`, `out of time`, `failed`."""

    RUNNING = "running"
    KILLED = "killed"
    """Its process is gone, and said nothing of an end."""
    ENDED = "ended"
    """Nobody here knows how."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where records are; `fault` is why they can't be read, in a line."""

    name: str
    fault: str = ""


@dataclass(frozen=True, slots=True)
class CampaignView:
    """A campaign: what its records say, and what its process on this machine said last.

    Attributes:
        snapshot: None as long as nothing is recorded, or can be read.
        status: None where it never ran on this machine.
    """

    place: str
    name: str
    snapshot: CampaignSnapshot | None
    status: CampaignStatus | None

    def phase(self, now: float) -> str:
        """A `Phase`, or how it ended."""
        last_at = self.last_at
        is_fresh = last_at is not None and now - last_at < FRESH_S
        if self.status is None:
            return Phase.RUNNING if is_fresh else Phase.ENDED
        if self.status.is_current:
            return Phase.RUNNING
        if is_fresh and last_at is not None and last_at > self.status.written_at + FRESH_S:
            return Phase.RUNNING  # another machine goes on with it
        return self.status.ending or Phase.KILLED

    @property
    def last_at(self) -> float | None:
        return self.snapshot.last_at if self.snapshot else None

    @property
    def trials(self) -> int:
        by_status = self.status.trials_done if self.status else 0
        return max(by_status, self.snapshot.trials if self.snapshot else 0)

    @property
    def budget(self) -> int | None:
        """Trials of all layers at most; fewer where layers end early."""
        if self.status and self.status.is_current:
            return self.status.trials
        if self.snapshot is None:
            return self.status.trials if self.status else None
        stored = self.snapshot.campaign
        return max(self.trials, stored.trials_per_task * len(stored.layers))

    @property
    def layers(self) -> tuple[int, int] | None:
        """How many distinct layers are done, or tried where that is not known, and how many there are."""
        if self.status and self.status.is_current:
            return self.status.tasks_done, self.status.tasks
        return None if self.snapshot is None else (self.snapshot.tried, len(self.snapshot.campaign.layers))

    def per_minute(self, now: float) -> float | None:
        """Trials a minute, of late; None unless it runs."""
        if self.phase(now) != Phase.RUNNING:
            return None
        if self.status and self.status.is_current:
            return self.status.per_minute or None
        return self.snapshot.per_minute if self.snapshot else None

    def left_s(self, now: float) -> float | None:
        """An estimate of how long it still takes, by its budget; None unless it runs and has a pace."""
        if self.status and self.status.is_current:
            left_s = self.status.left_s
            return None if left_s is None else max(0.0, left_s - (now - self.status.written_at))
        pace, budget = self.per_minute(now), self.budget
        return None if not pace or budget is None else 60 * (budget - self.trials) / pace

    @property
    def changed_at(self) -> float:
        """When something was heard of it last."""
        return max(self.status.written_at if self.status else 0.0, self.last_at or 0.0)


@dataclass(frozen=True, slots=True)
class Failure:
    """A trial that failed."""

    place: str
    trial: Trial


@dataclass(frozen=True, slots=True)
class Overview:
    """All of it.

    Attributes:
        at: seconds since 1970.
        campaigns: those that run, then the others, the latest first; `left_out` more are not here.
        boards: of those that campaigns use, or used lately.
        failures: the last ones of all these campaigns, the newest first.
    """

    at: float
    places: tuple[Place, ...]
    campaigns: tuple[CampaignView, ...]
    boards: tuple[BoardState, ...]
    left_out: int = 0

    @property
    def failures(self) -> tuple[Failure, ...]:
        found = [
            Failure(campaign.place, trial)
            for campaign in self.campaigns
            if campaign.snapshot
            for trial in campaign.snapshot.failures
        ]
        return tuple(sorted(found, key=lambda failure: -(moment_of(failure.trial) or 0.0))[:FAILURES_SHOWN])


def overview_fields(overview: Overview) -> dict[str, Any]:
    """All of it as JSON has it: moments in UTC, times in seconds."""
    return {
        "format": FORMAT,
        "at": _moment(overview.at),
        "places": [{"place": place.name, "fault": place.fault or None} for place in overview.places],
        "campaigns": [campaign_fields(campaign, overview.at) for campaign in overview.campaigns],
        "campaigns_left_out": overview.left_out,
        "boards": [board_fields(board) for board in overview.boards],
        "failures": [_failure_fields(failure) for failure in overview.failures],
    }


def campaign_fields(view: CampaignView, now: float) -> dict[str, Any]:
    """What there is to say of a campaign."""
    stored, status = view.snapshot.campaign if view.snapshot else None, view.status
    done, layers = view.layers or (None, None)
    return {
        "place": view.place,
        "campaign": view.name,
        "network": stored.network if stored else status.network if status else None,
        "device": stored.device if stored else None,
        "target": stored.target if stored else None,
        "state": str(view.phase(now)),
        "error": (status.error or None) if status else None,
        "trials": view.trials,
        "trials_budget": view.budget,
        "trials_failed": view.snapshot.failed if view.snapshot else None,
        "layers_done": done,
        "layers": layers,
        "trials_per_minute": _rounded(view.per_minute(now)),
        "left_s": _rounded(view.left_s(now)),
        "last_trial": _moment(view.last_at),
        "network_cost": _cost_fields(view.snapshot.cost) if view.snapshot and view.snapshot.cost else None,
    }


def board_fields(state: BoardState) -> dict[str, Any]:
    return {"name": state.name} | state_fields(state)


def _cost_fields(cost: NetworkCost) -> dict[str, Any]:
    return {
        "unit": "cycles" if cost.is_estimate else "s",
        "layer_runs": cost.runs,
        "default": cost.default,
        "so_far": cost.so_far,
        "confirmed": cost.confirmed,
        "speedup": cost.speedup,
        "confirmed_speedup": cost.confirmed_speedup,
    }


def _failure_fields(failure: Failure) -> dict[str, Any]:
    trial = failure.trial
    return {
        "place": failure.place,
        "campaign": trial.campaign,
        "sequence": trial.sequence,
        "at": trial.started_at,
        "outcome": trial.outcome.value,
        "layer": layer_label(trial.candidate.workload),
        "template": trial.candidate.template,
        "board": trial.environment.get("board"),
        "error": trial.error,
    }


def newest_first(campaigns: Sequence[CampaignView], now: float) -> list[CampaignView]:
    """Those that run, then the others, the latest first."""
    return sorted(campaigns, key=lambda view: (view.phase(now) != Phase.RUNNING, -view.changed_at, view.name))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
