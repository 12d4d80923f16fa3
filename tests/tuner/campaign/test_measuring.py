"""How much of the device's time a candidate gets: as much as its chances are worth."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

from int8tune.results.drift import fastest_first
from int8tune.results.memory import MemoryStore
from int8tune.results.record import CacheMode, Duel, Outcome
from int8tune.rpc.request import Case, Cold, Program, Reply, Request
from int8tune.rpc.transports.fake import FAKE_CAPABILITIES, FakeTransport
from int8tune.rpc.transports.local import LocalTransport
from int8tune.schedules.arguments import CONSTANT_INPUTS
from int8tune.schedules.target import Target
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.campaign.loop import Ending
from int8tune.tuner.campaign.measuring import (
    DUEL_TIMING,
    GIVE_UP,
    MOST_CONSTANTS_BYTES,
    TRIAL_TIMING,
    Device,
    calls_limit_s,
    cold_of,
)
from int8tune.tuner.campaign.plan import make_plan
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.campaign.task import median_s
from tests.support.program.campaigns import SMALL, campaign_loop, network_of, trials_of

TRIALS = 12


class RememberingTransport(LocalTransport):
    """The local device, which remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Request] = []

    def run(self, request: Request) -> Reply:
        self.requests.append(request)
        return super().run(request)


@pytest.mark.thorough
@pytest.mark.timeout(120)
def test_a_candidate_is_measured_against_the_best_before_it(generic: Target, tmp_path: Path) -> None:
    network = network_of(SMALL)
    store, spec, transport = (
        MemoryStore(),
        CampaignSpec("c", network, "grid", trials_per_task=TRIALS),
        RememberingTransport(),
    )
    with campaign_loop(spec, make_plan(network, generic), store, tmp_path, transport=transport) as loop:
        assert loop.run() is Ending.FINISHED
    measured = [trial for trial in trials_of(store, spec) if not trial.reused_from and trial.outcome is Outcome.OK]
    measured.sort(key=lambda trial: trial.started_at)
    *trials, duels = transport.requests
    assert len(trials) == len(measured)
    assert trials[0].timing == TRIAL_TIMING
    for index, (request, trial) in enumerate(zip(trials, measured, strict=True)):
        limit_s = request.timing.give_up_s
        assert limit_s == (GIVE_UP * median_s(min(measured[:index], key=fastest_first)) if index else None)
        assert trial.measurement is not None
        times_s = trial.measurement.times_s
        is_loser = limit_s is not None and min(times_s[: TRIAL_TIMING.least_repeats]) > limit_s
        assert len(times_s) < TRIAL_TIMING.repeats or not is_loser
    assert duels.timing == DUEL_TIMING
    pairs = {len(duel.a_times_s) for duel in store.query(Duel)}
    assert len(pairs) == 1
    assert DUEL_TIMING.least_repeats <= pairs.pop() <= DUEL_TIMING.repeats


def test_a_session_s_limit_follows_the_best() -> None:
    large = parse_workload("conv2d-u8s8-1x224x224x64-k3x3x64-s1-p1-float.c-u8")
    unknown_s, known_s = calls_limit_s(large, None), calls_limit_s(large, 1e-3)
    assert known_s == 2.0
    assert unknown_s > 40.0
    assert calls_limit_s(large, 1.0) == unknown_s


def test_cold_caches_are_twice_the_second_level_away() -> None:
    transport = FakeTransport(lambda _: Reply(Outcome.OK))
    cold = cold_of(CacheMode.COLD, transport.start(), network_of(SMALL))
    assert cold == Cold(2 * FAKE_CAPABILITIES.cache_bytes["L2"])
    device: Device[str] = Device(transport, None, cold=cold)
    program = Program("/k.so", "ab" * 32, "main", (Case((), "/c.npy"),))
    device.start_trial("a", parse_workload(SMALL), program, None)
    assert device.take(5.0) is not None
    device.start_duels("b", parse_workload(SMALL), (program, program))
    assert device.take(5.0) is not None
    device.close()
    assert [request.timing.cold for request in transport.requests] == [cold] * 2


def test_a_network_s_weights_are_as_far_away_as_it_has_weights() -> None:
    capabilities = FakeTransport(lambda _: Reply(Outcome.OK)).start()
    small = network_of(SMALL)
    weights_bytes = prod(small.layers[0].workload.weight_shape)
    large = replace(small, layers=tuple(replace(layer, count=1_000_000_000) for layer in small.layers))
    assert cold_of(CacheMode.WARM, capabilities, small) is None
    assert cold_of(CacheMode.NETWORK, capabilities, small) == Cold(weights_bytes, CONSTANT_INPUTS)
    last = capabilities.cache_bytes.get("L3", capabilities.cache_bytes["L2"])
    assert cold_of(CacheMode.NETWORK, capabilities, large) == Cold(2 * last, CONSTANT_INPUTS)
    assert cold_of(CacheMode.NETWORK, capabilities, large, 4 << 10) == Cold(1 << 10, CONSTANT_INPUTS)
    huge = replace(capabilities, cache_bytes={"L2": 1 << 20, "L3": 1 << 30})
    assert cold_of(CacheMode.NETWORK, huge, large) == Cold(MOST_CONSTANTS_BYTES, CONSTANT_INPUTS)
