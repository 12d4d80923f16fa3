"""What a campaign on boards knows after it was killed."""

from __future__ import annotations

import errno
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.results.record import Outcome, Trial
from int8tune.results.store import SqliteStore
from int8tune.rpc.farm.journal import JournalFile
from int8tune.rpc.farm.values import State
from int8tune.rpc.request import Program, Reply, Request
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.campaign import farm_journal
from int8tune.tuner.campaign.boards import RULES, Boards
from int8tune.tuner.campaign.farm_journal import FarmJournal
from tests.support.farm.boards import AT_ANY_SPEED
from tests.support.program.campaigns import SMALL
from tests.support.program.cli_program import end, int8tune, start, wait_for_trials, write_table
from tests.tuner.campaign.test_boards import PROBE, FakeBoard

TRIALS = 4
# Answers wait for a canary that does not come.
NO_CANARIES = replace(RULES, idle_s=3600.0)


class Place:
    """A campaign's folder, in which it begins again and again."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "c.journal"
        self.notices: list[str] = []
        self.farms: list[Boards[int]] = []

    def begin(self, board: FakeBoard, *, canary: str = "c" * 64, name: str = "pi") -> Boards[int]:
        journal = FarmJournal(self.path, canary, [name], self.notices.append)
        farm: Boards[int] = Boards(
            {name: board}, "t", PROBE, random.Random(0).random, canary_every=100, rules=NO_CANARIES, journal=journal
        )
        self.farms.append(farm)
        return farm


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    for farm in made.farms:
        farm.close()


def program(number: int) -> Program:
    return Program(f"{number}.so", f"{number:064x}", "main", ())


def submit(farm: Boards[int], best_s: float | None = None) -> None:
    for number in range(TRIALS):
        farm.start_trial(number, parse_workload(SMALL), program(number), best_s)


def measured(board: FakeBoard) -> int:
    return sum(request.programs != (PROBE,) for request in board.requests)


def work(farm: Boards[int], until: Callable[[], bool]) -> dict[int, Reply]:
    """What came of the trials until something is so."""
    taken = {}
    deadline = time.monotonic() + 10
    while not until() and time.monotonic() < deadline:
        if found := farm.take(0.02):
            taken[found[0]] = found[1]
    assert until()
    return taken


def state(farm: Boards[int]) -> State:
    return farm._driver.status()[0].state


def begin_and_be_killed(place: Place, board: FakeBoard) -> None:
    """All trials are answered, none of them is confirmed. What a kill leaves is what the file has then."""
    farm = place.begin(board)
    submit(farm)
    assert work(farm, lambda: state(farm) is State.READY and measured(board) == TRIALS) == {}
    place.farms.pop().close()


def slow(_: Request) -> Reply:
    return Reply(Outcome.OK, ((0.002,) * 5,), (1,))


def canary_of(boot: str) -> Callable[[Request], Reply]:
    return lambda _: Reply(Outcome.OK, ((0.001,) * 5,), (1,), boot=boot)


def test_what_was_answered_is_not_measured_again(place: Place) -> None:
    begin_and_be_killed(place, FakeBoard(canary_fault=canary_of("1")))
    board = FakeBoard(canary_fault=canary_of("1"))
    farm = place.begin(board)
    work(farm, lambda: state(farm) is State.READY)
    submit(farm, best_s=1e-6)
    taken: dict[int, Reply] = {}
    while len(taken) < TRIALS:
        found = farm.take(5.0)
        assert found is not None
        taken[found[0]] = found[1]
        assert farm.board == "pi"
    assert measured(board) == 0
    assert {reply.times_s for reply in taken.values()} == {
        ((1e-5 * (1 + int(program(n).sha256[:6], 16) / 2**24),) * 7,) for n in range(TRIALS)
    }
    assert place.notices == []


def other_boot(_: Place) -> FakeBoard:
    return FakeBoard(canary_fault=canary_of("2"))


def faster(_: Place) -> FakeBoard:
    """Its canary was disturbed when it was timed first, and so may have been its answers."""
    return FakeBoard(canary_fault=lambda _: Reply(Outcome.OK, ((0.0005,) * 5,), (1,), boot="1"))


def long_ago(place: Place) -> FakeBoard:
    then = time.time() - farm_journal.LONGEST_GAP_S - 1
    os.utime(place.path, (then, then))
    return FakeBoard(canary_fault=canary_of("1"))


def later_clock(place: Place) -> FakeBoard:
    os.utime(place.path, (time.time() + 86_400,) * 2)
    return FakeBoard(canary_fault=canary_of("1"))


def damaged(place: Place) -> FakeBoard:
    lines = place.path.read_bytes().splitlines(keepends=True)
    place.path.write_bytes(b"".join([lines[0], b"x", *lines[1:]]))
    return FakeBoard(canary_fault=canary_of("1"))


def inconsistent(place: Place) -> FakeBoard:
    lines = place.path.read_bytes().splitlines(keepends=True)
    place.path.write_bytes(b"".join(line for line in lines if b"Submitted" not in line))
    return FakeBoard(canary_fault=canary_of("1"))


def without_replies(place: Place) -> FakeBoard:
    """It still says that the answers were right."""
    journal = JournalFile(place.path)
    journal.close()
    place.path.unlink()
    bare = JournalFile(place.path)
    bare.write(journal.entries)
    bare.close()
    return FakeBoard(canary_fault=canary_of("1"))


CHANGES = (other_boot, faster, long_ago, later_clock, damaged, inconsistent, without_replies)


@pytest.mark.parametrize("change", CHANGES)
def test_what_may_be_wrong_by_now_is_measured_again(place: Place, change: Callable[[Place], FakeBoard]) -> None:
    begin_and_be_killed(place, FakeBoard(canary_fault=canary_of("1")))
    board = change(place)
    farm = place.begin(board)
    work(farm, lambda: state(farm) is State.READY)
    submit(farm)
    work(farm, lambda: measured(board) == TRIALS)
    assert len(place.notices) == (change in (damaged, inconsistent))


@pytest.mark.parametrize("other", ["canary", "host", "name", "early"])
def test_what_is_about_something_else_is_measured_again(
    place: Place, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    begin_and_be_killed(place, FakeBoard())
    if other == "host":
        monkeypatch.setattr(farm_journal, "host_boot", lambda: "another")
    board = FakeBoard()
    farm = place.begin(board, canary="d" * 64 if other == "canary" else "c" * 64, name="b" if other == "name" else "pi")
    if other != "early":  # before the board's first canary
        work(farm, lambda: state(farm) is State.READY)
    submit(farm)
    work(farm, lambda: measured(board) == TRIALS)


def test_a_canary_is_held_to_what_it_took_before(place: Place) -> None:
    begin_and_be_killed(place, FakeBoard())
    board = FakeBoard(canary_fault=slow)
    farm = place.begin(board)
    work(farm, lambda: state(farm) is State.QUARANTINED)
    said = "`pi`: the canary took 2.00 times what it takes, as known from the run before; to forget that: rm "
    assert place.notices == [f"{said}{place.path}"]
    place.farms.pop().close()

    board = FakeBoard()
    farm = place.begin(board)
    assert state(farm) is State.QUARANTINED, "a board that was taken off is not asked at once"
    assert farm._driver.status()[0].cause == "the canary took 2.00 times what it takes"
    assert board.requests == []
    place.farms.pop().close()

    place.path.unlink()
    farm = place.begin(FakeBoard(canary_fault=slow))
    work(farm, lambda: state(farm) is State.READY)


def test_times_of_another_canary_say_nothing(place: Place) -> None:
    begin_and_be_killed(place, FakeBoard())
    farm = place.begin(FakeBoard(canary_fault=slow), canary="d" * 64)
    work(farm, lambda: state(farm) is State.READY)


def test_where_no_journal_can_be_written_there_is_none(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of one would tell of an answer, and not that it is void."""
    board = FakeBoard()
    farm = place.begin(board)
    work(farm, lambda: state(farm) is State.READY)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(JournalFile, "write", full)
    submit(farm)
    work(farm, lambda: measured(board) == TRIALS)
    assert place.notices == [f"there is no journal of the boards: {place.path}: no space left on device"]
    assert not place.path.exists()


@pytest.mark.thorough
def test_a_killed_campaign_leaves_a_journal_a_finished_one_none(tmp_path: Path) -> None:
    farm, results = tmp_path / "farm.toml", tmp_path / "results"
    farm.write_text(f'[[boards]]\nname = "near"\ntransport = "local"\ntarget = "generic"\n{AT_ANY_SPEED}')
    table = write_table(tmp_path / "small.json")
    words = ("tune", table, "--strategy", "random", "--inventory", farm, "--results", results, "--devices", "near")
    tuner = start(*words, "--trials", 6)
    wait_for_trials(results, 3)
    end(tuner, signal.SIGKILL, limit_s=10)
    journal = JournalFile(results / "small.journal")
    journal.close()
    assert journal.entries
    done = int8tune(*words, "--trials", 6)
    assert done.code == 0, done.err
    assert "journal" not in done.err
    assert not list(results.glob("*journal*"))
    with SqliteStore(results / "records.db", readonly=True) as store:
        found = list(store.query(Trial))
    assert len(found) == len({trial.candidate.id for trial in found}) == 12
