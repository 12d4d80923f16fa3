"""What a campaign must find as it was when it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.results.memory import MemoryStore
from int8tune.results.record import ESTIMATED_BY, CacheMode, Candidate, Estimate, Outcome, Trial
from int8tune.results.store import SqliteStore
from int8tune.rpc.request import Cold, Program, Reply
from int8tune.rpc.transports.fake import FAKE_CAPABILITIES, FakeTransport
from int8tune.schedules.target import Target, gpu_target
from int8tune.tuner.campaign.events import Silence
from int8tune.tuner.campaign.farm import spec_on
from int8tune.tuner.campaign.loop_context import Purpose
from int8tune.tuner.campaign.measuring import Measuring
from int8tune.tuner.campaign.run import MeasuringSite, cache_mode_of, run_on
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.errors import CampaignDiffersError, SpecError
from int8tune.tuner.folders import STORE_FILE
from tests.support.program.campaigns import SMALL, network_of
from tests.support.program.results_samples import MODEL


def site(target: Target) -> MeasuringSite:
    def measuring(_probe: Program, _cold: Cold | None) -> Measuring[Purpose]:
        raise AssertionError("this comes later")

    transport = FakeTransport(lambda _: Reply(Outcome.DEVICE_LOST))
    return MeasuringSite("board", transport, FAKE_CAPABILITIES, target, measuring, (0,), 0)


def estimated(target: Target, environment: Mapping[str, str]) -> Trial:
    return Trial(
        campaign="c",
        sequence=0,
        candidate=Candidate(SMALL, target.name, "generic.direct", 1, {}),
        outcome=Outcome.OK,
        measurement=None,
        device="board",
        environment=environment,
        started_at="2026-03-01T12:00:00+00:00",
        estimate=Estimate(1e6),
    )


def test_a_campaign_that_was_estimated_does_not_go_on_with_times(generic: Target, tmp_path: Path) -> None:
    spec = CampaignSpec("c", network_of(SMALL))
    trial = estimated(generic, {"cpu": FAKE_CAPABILITIES.cpu, ESTIMATED_BY: MODEL})
    with SqliteStore(tmp_path / STORE_FILE) as store:
        store.append([spec.as_record("board", generic), trial])

    with pytest.raises(CampaignDiffersError) as raised:
        run_on(site(generic), spec, tmp_path, Silence(), lambda: False)
    assert str(raised.value) == f"campaign `c` was estimated by {MODEL}, now it would be measured"


def test_estimates_know_no_caches(generic: Target, tmp_path: Path) -> None:
    spec = CampaignSpec("c", network_of(SMALL), cache=CacheMode.COLD)
    with pytest.raises(SpecError, match="`board` has no times, and estimates know no caches: leave --cache out"):
        run_on(replace(site(generic), estimate_cpu="cortex-a53"), spec, tmp_path, Silence(), lambda: False)
    assert not list(tmp_path.iterdir())


def test_a_campaign_keeps_its_mode_of_caches_and_a_new_one_has_the_network_s(generic: Target) -> None:
    spec, here = CampaignSpec("c", network_of(SMALL)), site(generic)
    gpu = replace(here, target=gpu_target("cuda-sm90"))
    assert cache_mode_of(spec, here, MemoryStore()) is CacheMode.NETWORK
    assert cache_mode_of(spec, replace(here, estimate_cpu="cortex-a53"), MemoryStore()) is CacheMode.WARM
    assert cache_mode_of(spec, gpu, MemoryStore()) is CacheMode.WARM
    assert cache_mode_of(replace(spec, cache=CacheMode.COLD), here, MemoryStore()) is CacheMode.COLD
    for environment, mode in ({}, CacheMode.WARM), ({"cache": "cold"}, CacheMode.COLD):
        store = MemoryStore()
        store.append([spec.as_record("board", generic), estimated(generic, environment)])
        assert cache_mode_of(spec, here, store) is mode


def test_grounds_have_campaigns_of_their_own(generic: Target) -> None:
    """By target; boards of one target on other CPUs, or of which one has no times, by their names, too."""
    spec = CampaignSpec("c", network_of(SMALL))
    one, other = site(generic), replace(site(generic), target=replace(generic, name="generic-x"))
    assert spec_on(spec, one, [one]) == spec
    assert [spec_on(spec, each, [one, other]).name for each in (one, other)] == [
        f"c-{generic.name}",
        f"c-{other.target.name}",
    ]
    model = replace(one, device="model+other", estimate_cpu="cortex-a53")
    assert [spec_on(spec, each, [one, model]).name for each in (one, model)] == [
        f"c-{generic.name}-board",
        f"c-{generic.name}-model.other",
    ]
