"""What a campaign must find as it was when it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaigns import SMALL, network_of
from results_samples import MODEL

from results.record import ESTIMATED_BY, Candidate, Estimate, Outcome, Trial
from results.store import SqliteStore
from rpc.fake import FAKE_CAPABILITIES, FakeTransport
from rpc.request import Program, Reply
from schedules.target import Target
from tuner.campaign.events import Silence
from tuner.campaign.measuring import Measuring
from tuner.campaign.run import Ground, run_on
from tuner.campaign.spec import CampaignSpec
from tuner.campaign.surroundings import Purpose
from tuner.errors import CampaignDiffersError
from tuner.folders import STORE_FILE


def test_a_campaign_that_was_estimated_does_not_go_on_with_times(generic: Target, tmp_path: Path) -> None:
    spec = CampaignSpec("c", network_of(SMALL))
    trial = Trial(
        campaign="c",
        sequence=0,
        candidate=Candidate(SMALL, generic.name, "generic.direct", 1, {}),
        outcome=Outcome.OK,
        measurement=None,
        device="board",
        environment={"cpu": FAKE_CAPABILITIES.cpu, ESTIMATED_BY: MODEL},
        started_at="2026-03-01T12:00:00+00:00",
        estimate=Estimate(1e6),
    )
    with SqliteStore(tmp_path / STORE_FILE) as store:
        store.append([spec.as_record("board", generic), trial])

    def measuring(_probe: Program, _cold_bytes: int) -> Measuring[Purpose]:
        raise AssertionError("this comes later")

    transport = FakeTransport(lambda _: Reply(Outcome.DEVICE_LOST))
    ground = Ground("board", transport, FAKE_CAPABILITIES, generic, measuring, (0,), 0)
    with pytest.raises(CampaignDiffersError) as raised:
        run_on(ground, spec, tmp_path, Silence(), lambda: False)
    assert str(raised.value) == f"campaign `c` was estimated by {MODEL}, now it would be measured"
