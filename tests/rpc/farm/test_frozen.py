"""A campaign on two boards, one of which freezes with its sshd: promise 6."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from int8tune.results.record import Outcome
from int8tune.rpc.farm.values import State
from int8tune.rpc.provision import provision
from int8tune.rpc.request import Reply
from int8tune.rpc.transports.agent import AgentTransport
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.campaign.boards import RULES, Boards
from tests.sshd import Sshd, running_sshd
from tests.support.farm.boards import CACHE, board_behind, marked
from tests.support.kernels.rpc_kernels import Kernels, build_kernels

NAMES = ("here", "there")
WORKLOAD = parse_workload("dense-u8u8-1x40-o10-s32")
# So long a session may take: nothing of what is tested may depend on it.
SESSION_LIMIT_S = 600.0
NOTICED_S, RUN_AGAIN_S = 15.0, 20.0


@dataclass(frozen=True, slots=True)
class Machine:
    """A board with an sshd of its own, which can be frozen as a whole."""

    sshd: Sshd
    folder: Path

    def processes(self) -> list[psutil.Process]:
        server = psutil.Process(self.sshd.process.pid)
        return [server, *server.children(recursive=True), *marked(str(self.folder))]

    def send(self, number: signal.Signals) -> None:
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[dict[str, Machine]]:
    with ExitStack() as stack:
        made = {}
        for name in NAMES:
            sshd = stack.enter_context(running_sshd(tmp_path / f"sshd-{name}"))
            made[name] = Machine(sshd, tmp_path / name)
            stack.callback(made[name].send, signal.SIGCONT)
        yield made


@pytest.fixture
def farm(machines: dict[str, Machine], kernels: Kernels) -> Iterator[Boards[int]]:
    transports = {}
    for name, machine in machines.items():
        board = board_behind(machine.sshd, name, machine.folder)
        provision(board, CACHE, upgrade=False, say=print)
        transports[name] = AgentTransport(board)
    probe = replace(kernels.program("good"), cases=kernels.cases[:1])
    rules = replace(RULES, canary_tolerance=100.0)
    farm: Boards[int] = Boards(
        transports, "t", probe, random.Random(0).random, rules=rules, session_limit_s=SESSION_LIMIT_S, canary_every=8
    )
    yield farm
    farm.close()


@pytest.fixture
def kernels(tmp_path: Path) -> Kernels:
    return build_kernels(tmp_path)


def state(farm: Boards[int], name: str) -> State:
    return next(status.state for status in farm._driver.status() if status.board == name)


class Work:
    """Trials without end."""

    def __init__(self, farm: Boards[int], kernels: Kernels) -> None:
        self.farm = farm
        self.replies: dict[int, tuple[str, Reply]] = {}
        self.started = 0
        self._program = kernels.program("takes_a_while")

    def go_on(self) -> None:
        while self.farm.idle:
            self.farm.start_trial(self.started, WORKLOAD, self._program, None)
            self.started += 1
        if taken := self.farm.take(0.05):
            self.replies[taken[0]] = self.farm.board, taken[1]

    @property
    def boards(self) -> set[str]:
        return {board for board, _ in self.replies.values()}


@pytest.mark.thorough
@pytest.mark.timeout(120)
def test_a_frozen_board_costs_its_trials_twenty_seconds(
    machines: dict[str, Machine], farm: Boards[int], kernels: Kernels
) -> None:
    work = Work(farm, kernels)
    until_s = time.monotonic() + 30
    while (work.boards != set(NAMES) or state(farm, "here") is not State.BUSY) and time.monotonic() < until_s:
        work.go_on()
    assert work.boards == set(NAMES)

    machines["here"].send(signal.SIGSTOP)
    frozen_s = time.monotonic()
    before = work.started
    noticed_s = again_s = None
    while again_s is None and time.monotonic() < frozen_s + 2 * RUN_AGAIN_S:
        work.go_on()
        if noticed_s is None and state(farm, "here") in (State.SUSPECT, State.LOST):
            noticed_s = time.monotonic() - frozen_s
        if noticed_s is not None and all(number in work.replies for number in range(before)):
            again_s = time.monotonic() - frozen_s
    print(f"noticed after {noticed_s} s, its trials measured by the other board after {again_s} s")
    assert noticed_s is not None
    assert again_s is not None
    assert noticed_s <= NOTICED_S
    assert again_s <= RUN_AGAIN_S
    assert {reply.outcome for _, reply in work.replies.values()} == {Outcome.OK}
    after = [board for number, (board, _) in work.replies.items() if number >= before]
    assert len(after) > 20, "the other board goes on meanwhile"
    assert set(after) == {"there"}
