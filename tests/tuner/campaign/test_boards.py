"""A campaign whose trials are measured by several boards."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.results.memory import MemoryStore
from int8tune.results.record import Duel, Outcome, Trial
from int8tune.rpc.errors import UnreachableError
from int8tune.rpc.inventory import boards as inventory
from int8tune.rpc.request import Program, Reply, Request
from int8tune.rpc.transports.fake import FakeTransport
from int8tune.rpc.transports.local import LocalTransport
from int8tune.schedules.target import Target
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.campaign.boards import RULES, Boards
from int8tune.tuner.campaign.loop import Ending
from int8tune.tuner.campaign.loop_context import Purpose
from int8tune.tuner.campaign.plan import make_plan
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.device_check import build_probes
from int8tune.tuner.errors import DeviceGoneError
from tests.support.program.campaigns import SMALL, SMALL_DEPTHWISE, campaign_loop, network_of, trials_of

PROBE = Program("probe.so", "0" * 64, "probe", ())
TRIALS = 10
SESSION_S = 0.2


class FakeBoard(FakeTransport):
    """Takes as long for each session as a board would; every candidate has a time of its own, the same on all boards.

    Attributes:
        spans: when its sessions of candidates began and ended.
    """

    def __init__(
        self,
        session_s: float = 0.0,
        fault: Callable[[Request], Reply | None] = lambda _: None,
        canary_fault: Callable[[Request], Reply | None] = lambda _: None,
    ) -> None:
        super().__init__(self._answer)
        self._canary_fault = canary_fault
        self.spans: list[tuple[float, float]] = []
        self._session_s = session_s
        self._fault = fault
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        self._cancelled.set()

    def _answer(self, request: Request) -> Reply:
        if request.programs == (PROBE,):
            return self._canary_fault(request) or Reply(Outcome.OK, ((0.001,) * 5,), (1,))
        if (reply := self._fault(request)) is not None:
            return reply
        began = time.monotonic()
        if self._cancelled.wait(self._session_s):
            return Reply(Outcome.DEVICE_LOST, error="cancelled")
        self.spans.append((began, time.monotonic()))
        times = tuple(
            (1e-5 * (1 + int(program.sha256[:6], 16) / 2**24),) * request.timing.repeats for program in request.programs
        )
        return Reply(Outcome.OK, times, (1,) * len(times))


def run(
    boards: list[FakeBoard], target: Target, folder: Path, strategy: str = "grid", keys: tuple[str, ...] = (SMALL,)
) -> tuple[MemoryStore, list[Trial]]:
    network = network_of(*keys)
    store, spec = MemoryStore(), CampaignSpec("c", network, strategy, trials_per_task=TRIALS)
    farm: Boards[Purpose] = Boards(
        {f"board{number}": board for number, board in enumerate(boards)},
        target.name,
        PROBE,
        random.Random(0).random,
        canary_every=8,
    )
    with campaign_loop(spec, make_plan(network, target), store, folder, measuring_with=farm) as loop:
        assert loop.run() is Ending.FINISHED
    return store, trials_of(store, spec)


@pytest.mark.thorough
@pytest.mark.timeout(120)
@pytest.mark.parametrize("strategy", ["grid", "xgboost"])
def test_a_campaign_on_three_boards(generic: Target, tmp_path: Path, strategy: str) -> None:
    boards = [FakeBoard(0.05) for _ in range(3)]
    store, trials = run(boards, generic, tmp_path, strategy, (SMALL, SMALL_DEPTHWISE))
    assert {trial.outcome for trial in trials} == {Outcome.OK}
    assert len({trial.candidate.id for trial in trials}) == len(trials)
    measured = [trial for trial in trials if not trial.reused_from]
    used = Counter(trial.environment["board"] for trial in measured)
    assert used.keys() == {"board0", "board1", "board2"}
    duels = list(store.query(Duel, campaign="c"))
    assert duels
    assert all("board" in duel.environment for duel in duels)
    assert sum(len(board.spans) for board in boards) == len(measured) + len({duel.workload for duel in duels})
    by_id = {trial.candidate.id: trial for trial in trials}
    for trial in trials:
        if trial.reused_from:
            assert trial.environment == by_id[trial.reused_from].environment


@pytest.mark.timeout(120)
def test_a_board_that_dies_costs_a_campaign_nothing(generic: Target, tmp_path: Path) -> None:
    count = iter(range(1000))

    def dies(_: Request) -> Reply | None:
        return Reply(Outcome.DEVICE_LOST, error="unplugged") if next(count) >= 5 else None

    _, trials = run([FakeBoard(0.02, dies), FakeBoard(0.02)], generic, tmp_path)
    assert {trial.outcome for trial in trials} == {Outcome.OK}


@pytest.mark.timeout(60)
def test_a_board_that_is_gone_is_switched_off_and_on(tmp_path: Path) -> None:
    """By the inventory's command; the campaign says so, and goes on with the board."""
    switched = tmp_path / "switched on"

    def lost(_: Request) -> Reply | None:
        return None if switched.exists() else Reply.lost(UnreachableError("no route to host"), 0.1)

    notices: list[str] = []
    transport = FakeBoard(fault=lost, canary_fault=lost)
    owned = inventory.Board("pi", inventory.TransportKind.LOCAL, power_cycle=("touch", str(switched)))
    rules = replace(RULES, lost_delay_s=0.05, first_delay_s=0.05)
    farm: Boards[int] = Boards(
        {"pi": transport}, "t", PROBE, random.Random(0).random, rules=rules, owned={"pi": owned}, notice=notices.append
    )
    farm.start_trial(1, parse_workload(SMALL), Program("1.so", "1" * 64, "main", ()), None)
    taken = None
    until_s = time.monotonic() + 20
    while taken is None and time.monotonic() < until_s:
        taken = farm.take(0.2)
    farm.close()
    assert taken is not None
    assert taken[1].outcome is Outcome.OK
    assert notices == ["`pi` is switched off and on: no route to host"]


@pytest.mark.timeout(60)
def test_a_board_rests_as_the_inventory_says() -> None:
    transport = FakeBoard(0.01)
    owned = inventory.Board("pi", inventory.TransportKind.LOCAL, cooldown_s=0.2)
    farm: Boards[int] = Boards({"pi": transport}, "t", PROBE, random.Random(0).random, owned={"pi": owned})
    for number in range(3):
        farm.start_trial(number, parse_workload(SMALL), Program("1.so", f"{number:064x}", "main", ()), None)
    until_s = time.monotonic() + 20
    while len(transport.spans) < 3 and time.monotonic() < until_s:
        farm.take(0.1)
    farm.close()
    assert all(later[0] - earlier[1] >= 0.2 for earlier, later in itertools.pairwise(transport.spans))


@pytest.mark.parametrize("count", [1, 3])
def test_one_trial_waits_for_each_board(count: int) -> None:
    lost = Reply(Outcome.DEVICE_LOST, error="unplugged")
    boards = {f"b{number}": FakeBoard(canary_fault=lambda _: lost) for number in range(count)}
    farm: Boards[int] = Boards(boards, "t", PROBE, random.Random(0).random)
    started = 0
    while farm.idle:
        farm.start_trial(started, parse_workload(SMALL), Program("1.so", f"{started:064x}", "main", ()), None)
        started += 1
    farm.close()
    assert started == count


@pytest.mark.thorough
def test_boards_go_on_while_what_they_answered_is_recorded(generic: Target) -> None:
    """A good canary ends eight trials at once; that each takes a while to record is no board's wait."""
    board = FakeBoard(0.02)
    farm: Boards[int] = Boards({"b": board}, generic.name, PROBE, random.Random(0).random, canary_every=8)
    workload = parse_workload(SMALL)
    started = taken = 0
    until_s = time.monotonic() + 30
    while taken < 24 and time.monotonic() < until_s:
        while farm.idle:
            farm.start_trial(started, workload, Program(f"{started}.so", f"{started:064x}", "main", ()), None)
            started += 1
        found = farm.take(0.0) is not None
        taken += found
        time.sleep(0.1 if found else 0.001)
    farm.close()
    waits_s = [after[0] - before[1] for before, after in itertools.pairwise(board.spans)]
    assert taken == 24
    assert max(waits_s) < 0.4, waits_s


@pytest.mark.thorough
@pytest.mark.timeout(120)
def test_a_board_that_computes_nonsense_fails_no_candidate(generic: Target, tmp_path: Path) -> None:
    def wrong(_: Request) -> Reply:
        return Reply(Outcome.WRONG_ANSWER, error="one value differs")

    _, trials = run([FakeBoard(0.01, wrong), FakeBoard(0.01), FakeBoard(0.01)], generic, tmp_path)
    assert {trial.outcome for trial in trials} == {Outcome.OK}
    assert {trial.environment["board"] for trial in trials} <= {"board1", "board2"}


@pytest.mark.timeout(120)
def test_a_campaign_whose_boards_are_all_gone_says_so(generic: Target, tmp_path: Path) -> None:
    def lost(_: Request) -> Reply:
        return Reply(Outcome.DEVICE_LOST, error="the cable is out")

    with pytest.raises(DeviceGoneError, match="the cable is out"):
        run([FakeBoard(0.0, lost), FakeBoard(0.0, lost)], generic, tmp_path)


@pytest.mark.thorough
@pytest.mark.alone
@pytest.mark.timeout(120)
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_two_real_devices(generic: Target, tmp_path: Path) -> None:
    """Each core as a device, with real kernels and a real canary."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    with BuildPool([], cores[0], tmp_path / "probes.log") as pool:
        probe = build_probes(pool, generic, tmp_path, {}).peak_program
    network = network_of(SMALL)
    store, spec = MemoryStore(), CampaignSpec("c", network, "grid", trials_per_task=TRIALS)
    # Builds go on beside these devices, so their times mean little here.
    rules = replace(RULES, canary_tolerance=3.0)
    devices = {f"core{core}": LocalTransport([core]) for core in cores}
    farm: Boards[Purpose] = Boards(devices, generic.name, probe, random.Random(0).random, rules=rules)
    with campaign_loop(spec, make_plan(network, generic), store, tmp_path, measuring_with=farm) as loop:
        assert loop.run() is Ending.FINISHED
    trials = trials_of(store, spec)
    assert {trial.outcome for trial in trials} == {Outcome.OK}
    assert {trial.environment["board"] for trial in trials} == devices.keys()


@pytest.mark.thorough
@pytest.mark.alone
def test_four_boards_measure_four_times_what_one_does(generic: Target) -> None:
    """Sessions of 200 ms through everything that a campaign measures with, canaries included: at least 3.8 times."""
    rates = []
    for count in (1, 4):
        boards = [FakeBoard(SESSION_S) for _ in range(count)]
        farm: Boards[int] = Boards(
            {f"b{number}": board for number, board in enumerate(boards)}, generic.name, PROBE, random.Random(0).random
        )
        workload = parse_workload(SMALL)
        wanted, started, taken = 10 * count, 0, 0
        until_s = time.monotonic() + 30
        while taken < wanted and time.monotonic() < until_s:
            while farm.idle and started < wanted:
                farm.start_trial(started, workload, Program(f"{started}.so", f"{started:064x}", "main", ()), None)
                started += 1
            taken += farm.take(0.2) is not None
        farm.close()
        assert sum(len(board.spans) for board in boards) == wanted
        rates.append(sum(len(board.spans) / (board.spans[-1][1] - board.spans[0][0]) for board in boards))
    print(f"one board {rates[0]:.2f}, four boards {rates[1]:.2f} sessions a second")
    assert rates[1] >= 3.8 * rates[0], rates
