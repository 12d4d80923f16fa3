"""Real kernels, right and faulty, on two real devices under the farm's scheduler: every verdict is the right one."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from int8tune.results.record import Outcome
from int8tune.rpc.farm.driver import VERDICTS, Ending, FarmDriver
from int8tune.rpc.farm.events import Open
from int8tune.rpc.farm.scheduler import Scheduler
from int8tune.rpc.farm.values import Board, Campaign, Limits, Rules, State, Trial, Verdict
from int8tune.rpc.transports.local import LocalTransport
from tests.rpc.test_faults import FAULTS, Fault
from tests.support.kernels.rpc_kernels import build_kernels
from tests.support.program.rpc_processes import servers_of

pytestmark = [pytest.mark.alone, pytest.mark.promise(13)]

LIMIT_S = 90.0
# Loses its device every time; the limit is what the device's host waits for it.
LOSES_DEVICE = Fault("stops_server", Outcome.DEVICE_LOST, "", "", 0.3)
GOOD = 20


def test_every_verdict_is_right_and_every_device_comes_back(tmp_path: Path) -> None:
    kernels = build_kernels(tmp_path)
    devices = {f"d{n}": LocalTransport(grace_s=0.5, memory_limit_bytes=256 << 20) for n in range(2)}
    boards = [Board(name, "t", limits=Limits(silence_s=None, grace_s=6.0, connect_s=30.0)) for name in devices]
    # Both run beside each other on two cores: what a canary takes says little here.
    rules = Rules(idle_s=0.05, canary_tolerance=1e3, retries=1, first_delay_s=0.1)
    scheduler = Scheduler(boards, rules, lambda: 0.0)
    driver = FarmDriver(devices, scheduler, kernels.request("takes_a_while"))
    faults = (*FAULTS, LOSES_DEVICE)
    driver.tell(Open(Campaign("c")))
    for number in range(max(GOOD, len(faults))):
        if number < GOOD:
            driver.submit((Trial(f"good-{number}", "c", "t"), kernels.request("good")))
        if number < len(faults):
            fault = faults[number]
            trial = Trial(fault.entry, "c", "t", run_limit_s=fault.run_limit_s)
            driver.submit((trial, kernels.request(fault.entry, run_limit_s=fault.run_limit_s)))
    ends: dict[str, Ending] = {}
    until_s = time.monotonic() + LIMIT_S
    while len(ends) < GOOD + len(faults) and time.monotonic() < until_s:
        ends.update((ending.trial, ending) for ending in driver.take(1.0))
    expected = {fault.entry: VERDICTS.get(fault.outcome, Verdict.INFRA_FAILED) for fault in faults}
    expected |= {f"good-{number}": Verdict.OK for number in range(GOOD)}
    assert {trial: ending.verdict for trial, ending in ends.items()} == expected
    assert all(fault.error in (reply.error if (reply := ends[fault.entry].reply) else "") for fault in FAULTS)
    for status in scheduler.status():
        assert status.state in (State.READY, State.CHECKING, State.SUSPECT, State.QUARANTINED), status
    driver.close()
    assert not servers_of(psutil.Process())
