"""Campaigns and boards at a made-up moment, for what shows them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from int8tune.results.memory import MemoryStore
from int8tune.results.snapshot import snapshot
from int8tune.rpc.farm.status_file import BoardReport
from int8tune.rpc.farm.values import State
from int8tune.rpc.process.status_files import Writer
from int8tune.tuner.board_states import BoardState
from int8tune.tuner.campaign_status import CampaignStatus
from int8tune.tuner.watching.overview import CampaignView, Overview, Place
from tests.support.program.results_samples import STARTED, campaign, failed, ok

NOW = datetime.fromisoformat(STARTED).timestamp() + 60.0
AT_WORK = CampaignStatus(
    place="/results",
    campaign="c1",
    network="resnet18",
    tasks=1,
    tasks_done=0,
    trials=64,
    trials_done=3,
    resumed=0,
    per_minute=12.0,
    started_at=NOW - 300,
    left_s=305.0,
    written_at=NOW - 1,
    ending="",
    error="",
    writer=Writer.this(),
)
BOARD = BoardReport(
    board="pi",
    campaign="c1",
    target="arm-neon",
    state=State.QUARANTINED,
    since=NOW - 30,
    waits_for="next check",
    until=NOW + 300,
    cause="the canary took 1.34 times what it takes",
    canary_at=NOW - 20,
    canary_s=1e-5,
    canary_fault="late",
    trials=7,
    per_minute=42.5,
    written_at=NOW - 1,
    writer=Writer.this(),
)


def view(status: CampaignStatus | None = AT_WORK, error: str = "cannot select") -> CampaignView:
    store, stored = MemoryStore(), campaign()
    store.append([stored, ok(0, 2e-3), ok(1, 1e-3), failed(2, error=error)])
    moment = datetime.fromtimestamp(NOW - 60, UTC)
    assert moment.isoformat() == STARTED
    return CampaignView("/results", stored.name, snapshot(store, stored), status)


def overview(*campaigns: CampaignView, fault: str = "") -> Overview:
    return Overview(NOW, (Place("/results", fault),), campaigns or (view(),), (BoardState("pi", BOARD),))


def ended(ending: str, **changes: object) -> CampaignStatus:
    return replace(AT_WORK, ending=ending, left_s=None, per_minute=0.0, **changes)  # type: ignore[arg-type]
