"""A board whose own disk is full: promise 15. Its folder is on a small file system of its own."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.results.record import Outcome
from int8tune.rpc.inventory.boards import Board
from int8tune.rpc.provision import provision
from int8tune.rpc.request import Reply
from int8tune.rpc.transports.agent import AgentTransport
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.campaign.board_reports import BoardReports
from int8tune.tuner.campaign.boards import RULES, Boards
from tests.sshd import running_sshd
from tests.support.farm.boards import CACHE, board_behind
from tests.support.kernels.rpc_kernels import Kernels, build_kernels
from tests.support.program.mounts import fill_up, mounted

pytestmark = pytest.mark.promise(15)

WORKLOAD = parse_workload("dense-u8u8-1x40-o10-s32")
NO_ROOM = "No space left on device"
WORK_LIMIT_S = 30.0


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    """With the agent and 57 MiB more."""
    with (
        mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=64m", "tmpfs") as disk,
        running_sshd(tmp_path / "s") as s,
    ):
        board = board_behind(s, "small", disk / "board")
        provision(board, CACHE, upgrade=False, say=print)
        yield board


@pytest.fixture
def filler(board: Board) -> Path:
    return Path(board.folder).parent / "filler"


@pytest.fixture
def kernels(tmp_path: Path) -> Kernels:
    return build_kernels(tmp_path)


def assert_no_room(reply: Reply, words: str) -> None:
    assert reply.outcome is Outcome.DEVICE_LOST
    assert words in reply.error
    assert NO_ROOM in reply.error
    assert "\n" not in reply.error


@pytest.mark.thorough
def test_no_room_is_no_candidates_fault(board: Board, filler: Path, kernels: Kernels) -> None:
    request = kernels.request("good")
    with AgentTransport(board) as transport:
        fill_up(filler)
        for _ in range(2):  # the second time by an agent that finds the disk full
            assert_no_room(transport.run(request), "the board took no case: a case can't be written")
        filler.unlink()
        assert transport.run(request).outcome is Outcome.OK
        fill_up(filler)
        reply = transport.run(request)
        assert_no_room(reply, "a library can't be written")
        assert reply.error_class == "NoRoom"
        filler.unlink()
        assert transport.run(request).outcome is Outcome.OK
    assert not list((Path(board.folder) / "cases").glob("part"))


@pytest.mark.thorough
def test_a_campaign_says_so_once_and_goes_on_with_room(
    board: Board, filler: Path, kernels: Kernels, tmp_path: Path
) -> None:
    """What was measured before counts, nothing fails, and nobody starts anything again."""
    said: list[str] = []
    rules = replace(RULES, canary_tolerance=100.0, first_delay_s=0.3)
    probe = replace(kernels.program("good"), cases=kernels.cases[:1])
    reports = BoardReports(tmp_path / "status", "c", "t", said.append)
    farm: Boards[int] = Boards(
        {"small": AgentTransport(board)},
        "t",
        probe,
        random.Random(0).random,
        rules=rules,
        canary_every=8,
        reports=reports,
    )
    try:
        work = Work(farm, kernels)
        work.go_on_until(lambda: len(work.replies) >= 10)
        fill_up(filler)
        work.go_on_until(lambda: bool(said), lambda: fill_up(filler))
        until_s = time.monotonic() + 2
        work.go_on_until(lambda: time.monotonic() > until_s)
        filler.unlink()
        before = len(work.replies)
        work.go_on_until(lambda: len(work.replies) >= before + 10)
    finally:
        farm.close()
    (line,) = said
    assert line.startswith("`small` is quarantined, and looked at again now and then: no answer of the canary: ")
    assert NO_ROOM in line
    assert {reply.outcome for reply in work.replies.values()} == {Outcome.OK}
    assert sorted(work.replies) == list(range(len(work.replies)))


class Work:
    """Trials without end."""

    def __init__(self, farm: Boards[int], kernels: Kernels) -> None:
        self.replies: dict[int, Reply] = {}
        self._farm = farm
        self._program = kernels.program("good")
        self._started = 0

    def go_on_until(self, done: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None) -> None:
        deadline = time.monotonic() + WORK_LIMIT_S
        while not done():
            assert time.monotonic() < deadline
            meanwhile()
            while self._farm.idle:
                self._farm.start_trial(self._started, WORKLOAD, self._program, None)
                self._started += 1
            if taken := self._farm.take(0.05):
                assert taken[0] not in self.replies
                self.replies[taken[0]] = taken[1]
