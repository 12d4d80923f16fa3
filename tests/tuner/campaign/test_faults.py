"""A candidate that goes wrong costs one trial and no more, however it goes wrong."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from int8tune.results.memory import MemoryStore
from int8tune.results.record import Outcome, Trial
from int8tune.rpc.request import Capabilities, Reply, Request
from int8tune.rpc.transports.local import LocalTransport
from int8tune.schedules.target import Target
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.campaign.loop import WIND_UP_S, Ending
from int8tune.tuner.campaign.plan import Task
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.cores import measuring_and_build_cores
from int8tune.tuner.device_check import build_probes, check_device
from int8tune.tuner.errors import DeviceGoneError
from tests.support.program.campaigns import SMALL, campaign_loop, network_of, trials_of
from tests.support.program.rpc_processes import server_of
from tests.support.stand_ins.faulty_templates import FAULTS, FaultyTemplate

pytestmark = [pytest.mark.alone, pytest.mark.promise(11, 20)]

SERVER = "tests.support.stand_ins.faulty_build_server"
EXPECTED = {
    "none": (Outcome.OK, ""),
    "none_again": (Outcome.OK, ""),
    "raise": (Outcome.BUILD_FAILED, "this template raises"),
    "abort": (Outcome.BUILD_FAILED, "killed by SIGABRT"),
    "exit": (Outcome.BUILD_FAILED, "exited with status 0"),
    "hang": (Outcome.BUILD_TIMEOUT, "killed after 2 s"),
    "memory": (Outcome.BUILD_FAILED, "MemoryError"),
    "kernel_abort": (Outcome.RUN_FAILED, "killed by SIGABRT"),
    "kernel_crash": (Outcome.RUN_FAILED, "killed by SIGSEGV"),
    "kernel_hang": (Outcome.RUN_TIMEOUT, ""),
    "kernel_wrong": (Outcome.WRONG_ANSWER, "values differ"),
}


def faulty_task(target: Target, faults: tuple[str, ...] = FAULTS) -> Task:
    workload = parse_workload(SMALL)
    template = FaultyTemplate(faults)
    return Task(0, "faulty", 1, workload, target, template, template.space(workload, target))


def spec_for(trials: int) -> CampaignSpec:
    return CampaignSpec("faults", network_of(SMALL), strategy="grid", trials_per_task=trials)


@pytest.fixture(scope="module")
def faulty_trials(generic: Target, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trial]:
    """One campaign over all faults."""
    store, spec = MemoryStore(), spec_for(len(FAULTS))
    folder = tmp_path_factory.mktemp("work")
    with campaign_loop(
        spec,
        [faulty_task(generic)],
        store,
        folder,
        server=SERVER,
        build_limit_s=2.0,
        session_limit_s=2.0,
    ) as loop:
        assert loop.run() is Ending.FINISHED
    trials = trials_of(store, spec)
    assert Counter(str(trial.candidate.config["fault"]) for trial in trials) == Counter(FAULTS)
    return {str(trial.candidate.config["fault"]): trial for trial in trials}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_costs_one_trial(fault: str, faulty_trials: dict[str, Trial]) -> None:
    outcome, text = EXPECTED[fault]
    trial = faulty_trials[fault]
    assert trial.outcome is outcome, trial.error
    assert text in f"{trial.error_class} {trial.error}"
    assert "\n" not in trial.error


def test_hang_costs_its_own_limit(faulty_trials: dict[str, Trial]) -> None:
    assert faulty_trials["hang"].build_s < 3.0
    assert faulty_trials["kernel_hang"].run_s < 3.5


def test_the_same_binary_is_measured_once(faulty_trials: dict[str, Trial]) -> None:
    # They are built side by side: either may be the first.
    both = faulty_trials["none"], faulty_trials["none_again"]
    first, second = sorted(both, key=lambda trial: trial.reused_from)
    assert first.reused_from == ""
    assert second.reused_from == first.candidate.id
    assert second.binary == first.binary
    assert second.measurement == first.measurement
    assert second.run_s == 0.0


def test_nothing_is_left_behind(faulty_trials: dict[str, Trial]) -> None:
    assert faulty_trials
    assert [
        child
        for child in psutil.Process().children(recursive=True)
        if "int8tune.rpc.local.server" in " ".join(child.cmdline())
    ] == []


class DyingTransport:
    """The local device, which is lost at its first few requests."""

    def __init__(self, losses: int) -> None:
        self.losses = losses
        self._real = LocalTransport()

    def start(self) -> Capabilities:
        return self._real.start()

    def run(self, request: Request) -> Reply:
        if self.losses:
            self.losses -= 1
            return Reply(Outcome.DEVICE_LOST, error="unplugged")
        return self._real.run(request)

    def cancel(self) -> None:
        self._real.cancel()

    def close(self) -> None:
        self._real.close()


def test_a_lost_device_is_no_result(generic: Target, tmp_path: Path) -> None:
    store, spec = MemoryStore(), spec_for(1)
    with campaign_loop(
        spec, [faulty_task(generic)], store, tmp_path, server=SERVER, transport=DyingTransport(losses=3)
    ) as loop:
        assert loop.run() is Ending.FINISHED
    (trial,) = trials_of(store, spec)
    assert trial.outcome is Outcome.OK
    assert trial.attempts == 4


@pytest.mark.thorough
def test_a_device_that_is_gone_ends_the_campaign(generic: Target, tmp_path: Path) -> None:
    store, spec = MemoryStore(), spec_for(1)
    with (
        campaign_loop(
            spec, [faulty_task(generic)], store, tmp_path, server=SERVER, transport=DyingTransport(losses=99)
        ) as loop,
        pytest.raises(DeviceGoneError, match="unplugged"),
    ):
        loop.run()
    assert trials_of(store, spec) == []


class KillingTransport(LocalTransport):
    """The local device, some of whose sessions are killed, as Linux does where memory runs out."""

    def __init__(self, kills: int) -> None:
        super().__init__()
        self.kills = kills

    def run(self, request: Request) -> Reply:
        ended = threading.Event()
        killer = threading.Thread(target=self._kill_session, args=(ended,))
        killer.start()
        try:
            return super().run(request)
        finally:
            ended.set()
            killer.join()

    def _kill_session(self, ended: threading.Event) -> None:
        server = server_of(psutil.Process())
        while self.kills and not ended.wait(0.0005):
            for session in server.children():
                session.kill()
                self.kills -= 1
                return


def test_a_session_killed_from_outside_is_measured_again(generic: Target, tmp_path: Path) -> None:
    store, spec, transport = MemoryStore(), spec_for(2), KillingTransport(kills=1)
    task = faulty_task(generic, ("none", "none_again"))
    with campaign_loop(spec, [task], store, tmp_path, server=SERVER, transport=transport) as loop:
        assert loop.run() is Ending.FINISHED
    assert not transport.kills
    trials = trials_of(store, spec)
    assert [trial.outcome for trial in trials] == [Outcome.OK] * 2, [trial.error for trial in trials]
    assert sorted(trial.attempts for trial in trials) == [1, 2]


@pytest.mark.thorough
def test_a_session_killed_twice_is_its_candidates_fault(generic: Target, tmp_path: Path) -> None:
    """A candidate that kills itself looks the same, and must not be measured for ever."""
    store, spec, transport = MemoryStore(), spec_for(1), KillingTransport(kills=2)
    with campaign_loop(spec, [faulty_task(generic)], store, tmp_path, server=SERVER, transport=transport) as loop:
        assert loop.run() is Ending.FINISHED
    (trial,) = trials_of(store, spec)
    assert (trial.outcome, trial.error_class, trial.attempts) == (Outcome.RUN_FAILED, "Killed", 2)
    assert "killed by SIGKILL" in trial.error


@pytest.mark.thorough
def test_a_device_is_checked_again_where_a_session_was_killed(generic: Target, tmp_path: Path) -> None:
    measuring, building = measuring_and_build_cores()
    transport = KillingTransport(kills=1)
    with transport, BuildPool(building, measuring[-1], tmp_path / "log") as pool:
        probes = build_probes(pool, generic, tmp_path, {})
        assert check_device(transport, probes, "local", generic, {}).peak_ops_per_s > 0
    assert not transport.kills


@pytest.mark.thorough
def test_a_killed_build_server_costs_no_trial(generic: Target, tmp_path: Path) -> None:
    store, spec = MemoryStore(), spec_for(4)
    killed: list[int] = []

    def kill_once() -> bool:
        """Kill the server while it builds."""
        for process in psutil.Process().children():
            alive = process.status() != psutil.STATUS_ZOMBIE
            if not killed and alive and is_build_server(process) and process.children():
                killed.append(process.pid)
                process.kill()
        return False

    with campaign_loop(
        spec,
        [faulty_task(generic)],
        store,
        tmp_path,
        server=SERVER,
        build_limit_s=2.0,
        stop_requested=kill_once,
    ) as loop:
        assert loop.run() is Ending.FINISHED
    assert killed
    trials = sorted(trials_of(store, spec), key=lambda trial: trial.sequence)
    assert [(trial.outcome, trial.error_class) for trial in trials] == [
        (Outcome.OK, ""),
        (Outcome.OK, ""),
        (Outcome.BUILD_FAILED, "RuntimeError"),
        (Outcome.BUILD_FAILED, "Crash"),
    ]


class WatchedTransport(LocalTransport):
    """The local device, which remembers when its first session began."""

    began_at: float | None = None

    def run(self, request: Request) -> Reply:
        self.began_at = self.began_at or time.monotonic()
        return super().run(request)


def test_a_stop_does_not_wait_for_a_hanging_kernel(generic: Target, tmp_path: Path) -> None:
    store, spec, transport = MemoryStore(), spec_for(1), WatchedTransport()

    def stop() -> bool:
        """Soon after the session began."""
        return transport.began_at is not None and time.monotonic() > transport.began_at + 0.3

    with campaign_loop(
        spec,
        [faulty_task(generic, ("kernel_hang",))],
        store,
        tmp_path,
        server=SERVER,
        transport=transport,
        session_limit_s=60.0,
        stop_requested=stop,
    ) as loop:
        assert loop.run() is Ending.INTERRUPTED
    assert transport.began_at is not None
    assert 0.3 + WIND_UP_S <= time.monotonic() - transport.began_at < 6 + WIND_UP_S
    assert trials_of(store, spec) == []


def is_build_server(process: psutil.Process) -> bool:
    return SERVER in " ".join(process.cmdline())
