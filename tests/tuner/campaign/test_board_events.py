"""What records keep of boards, from a farm whose boards are played: which one is unwell, since when, and why."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from int8tune.results.analysis.campaign import analyze
from int8tune.results.board_health import BoardHealth, BoardVerdict
from int8tune.results.errors import StoreWriteError
from int8tune.results.memory import MemoryStore
from int8tune.results.record import BoardEvent, BoardEventKind, Outcome
from int8tune.results.report.campaign_markdown import render_summary_markdown
from int8tune.results.report.html import render_html
from int8tune.results.report.text import as_dict, render_table
from int8tune.results.summary import CampaignSummary, summarize
from int8tune.rpc.farm.entries import CanaryJudged, Entry, Turned
from int8tune.rpc.farm.simulation.values import Candidate, Fault, FaultKind, SimulatedBoard
from int8tune.rpc.farm.simulation.world import SimulatedFarm, trials_of
from int8tune.rpc.farm.values import Board, Campaign, State
from int8tune.rpc.request import Program, Reply, Request
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.campaign.board_events import BoardEvents
from int8tune.tuner.campaign.boards import Boards
from tests.support.program.campaigns import SMALL
from tests.support.program.results_samples import STARTED, campaign, ok
from tests.tuner.campaign.test_boards import PROBE, FakeBoard

BOARDS = ("pi-1", "pi-2", "pi-3")


def played(*faults: Fault, trials: int = 300, boards: Sequence[str] = BOARDS) -> MemoryStore:
    """The records of a campaign on three boards of which some have faults."""
    store = MemoryStore()
    store.append([campaign()])
    kept: list[BoardEvent] = []
    at_s = 0.0
    events = BoardEvents("c1", kept.extend, lambda: datetime.fromisoformat(STARTED) + timedelta(seconds=at_s))

    def watch(now_s: float, what: object) -> None:
        nonlocal at_s
        at_s = now_s
        if isinstance(what, Entry):
            events.note([what])

    farm = SimulatedFarm(
        [SimulatedBoard(Board(name, "a53", canary_every=10)) for name in boards],
        {Campaign("c1"): [Candidate(trial) for trial in trials_of("c1", "a53", trials)]},
        faults=faults,
        watch=watch,
    )
    farm.run()
    events.hand_over()
    store.append(kept)
    return store


def boards_of(store: MemoryStore) -> dict[str, BoardHealth]:
    return {board.name: board for board in summary_of(store).boards}


def summary_of(store: MemoryStore) -> CampaignSummary:
    return summarize(store, "c1", {})


def test_boards_that_are_well_have_canaries_and_nothing_else() -> None:
    boards = boards_of(played())
    assert {name: board.verdict for name, board in boards.items()} == dict.fromkeys(sorted(BOARDS), BoardVerdict.WELL)
    for board in boards.values():
        assert len(board.canaries) >= 5
        assert board.canary_s == pytest.approx(0.1, rel=0.05)
        assert (board.off, board.off_s, board.bad) == ((), 0.0, 0)


def test_a_board_that_becomes_slow_is_off_until_the_end() -> None:
    store = played(Fault(FaultKind.SLOW, "pi-2", 5.0, 1e4, 2.0))
    found = summary_of(store).boards
    assert [board.verdict for board in found] == [BoardVerdict.OFF, BoardVerdict.WELL, BoardVerdict.WELL]
    board = found[0]
    assert board.name == "pi-2"
    (off,) = board.off
    assert off.kind is BoardEventKind.QUARANTINED
    assert 5 < off.from_s < 12
    assert off.until_s is None
    assert board.cause == off.cause
    assert "the canary took 2.0" in board.cause
    assert board.off_s == pytest.approx(board.total_s - off.from_s)
    assert board.bad >= 2


def test_a_board_that_comes_back_was_off() -> None:
    boards = boards_of(played(Fault(FaultKind.UNPLUG, "pi-3", 5.0, 15.0), trials=600))
    board = boards["pi-3"]
    assert board.verdict is BoardVerdict.WAS_OFF
    (off,) = board.off
    assert off.kind is BoardEventKind.LOST
    assert off.until_s is not None
    assert off.until_s > off.from_s
    assert {boards["pi-1"].verdict, boards["pi-2"].verdict} == {BoardVerdict.WELL}


def test_the_page_the_table_and_json_say_which_board_is_unwell_and_why() -> None:
    store = played(Fault(FaultKind.SLOW, "pi-2", 5.0, 1e4, 2.0))
    store.append([ok(0)])
    summary = summary_of(store)
    html = render_html(analyze(store, "c1", {}))
    assert "1 of 3 boards is unwell: pi-2 (off)" in html
    assert "<b>pi-2</b>: off since" in html
    assert html.count("the canary took 2.0") >= 1
    assert 'aria-label="Boards over the campaign: pi-2 off, pi-1 well, pi-3 well"' in html
    table = render_table(summary)
    assert "boards   1 of 3 boards is unwell: pi-2 (off)" in table
    assert "pi-2: off since" in table
    assert "- board pi-2: off since" in render_summary_markdown(summary)
    found = json.loads(json.dumps(as_dict(summary), allow_nan=False))["boards"]
    assert [(one["board"], one["verdict"]) for one in found] == [("pi-2", "off"), ("pi-1", "well"), ("pi-3", "well")]
    assert found[0]["off"][0]["until_s"] is None
    assert "the canary took 2.0" in found[0]["cause"]


def test_a_page_of_64_boards_is_small() -> None:
    store = played(Fault(FaultKind.SLOW, "pi-2", 1.0, 1e4, 2.0), trials=640, boards=[f"pi-{n}" for n in range(64)])
    html = render_html(analyze(store, "c1", {}))
    assert "1 of 64 boards is unwell: pi-2 (off)" in html
    assert "48 more boards are not drawn" in html
    assert len(html.encode()) < 200_000


def test_what_happens_to_a_board_in_order() -> None:
    kept: list[BoardEvent] = []
    events = BoardEvents("c1", kept.extend)
    events.note([CanaryJudged("pi", 0.1, ""), Turned("pi", State.CHECKING, "")])
    events.note([CanaryJudged("pi", 0.3, "slow"), Turned("pi", State.QUARANTINED, "slow\n  and\tmore")])
    assert kept == []
    events.hand_over()
    events.hand_over()
    events.note([Turned("pi", State.CHECKING, ""), CanaryJudged("pi", 0.1, ""), CanaryJudged("pi", 0.1, "")])
    events.hand_over()
    assert [(event.kind.value, event.canary_s, event.cause) for event in kept] == [
        ("good canary", 0.1, ""),
        ("bad canary", 0.3, "slow"),
        ("quarantined", 0.0, "slow and more"),
        ("back", 0.1, ""),
        ("good canary", 0.1, ""),
    ]


def test_what_could_not_be_kept_is_handed_over_again() -> None:
    kept: list[BoardEvent] = []
    is_full = True

    def keep(found: Sequence[BoardEvent]) -> None:
        if is_full:
            raise StoreWriteError("the disk is full")
        kept.extend(found)

    events = BoardEvents("c1", keep)
    events.note([CanaryJudged("pi", 0.1, "")])
    with pytest.raises(StoreWriteError):
        events.hand_over()
    is_full = False
    events.hand_over()
    assert len(kept) == 1


@pytest.mark.timeout(60)
def test_boards_of_a_campaign_have_their_canaries_kept() -> None:
    """Through the threads of real sessions; the canary of one board is always wrong."""
    kept: list[BoardEvent] = []

    def wrong(_: Request) -> Reply:
        return Reply(Outcome.WRONG_ANSWER, error="12 values differ")

    transports = {"pi-1": FakeBoard(), "pi-2": FakeBoard(canary_fault=wrong)}
    events = BoardEvents("c1", kept.extend)
    farm: Boards[int] = Boards(transports, "t", PROBE, random.Random(0).random, events=events)
    farm.start_trial(1, parse_workload(SMALL), Program("1.so", "1" * 64, "main", ()), None)
    taken, until_s = None, time.monotonic() + 20
    while taken is None and time.monotonic() < until_s:
        taken = farm.take(0.2)
    farm.close()
    assert taken is not None
    assert taken[1].outcome is Outcome.OK
    assert {event.kind for event in kept if event.board == "pi-1"} == {BoardEventKind.GOOD_CANARY}
    told = [(event.kind, event.cause) for event in kept if event.board == "pi-2"]
    assert told[:2] == [
        (BoardEventKind.BAD_CANARY, "the canary's values were wrong"),
        (BoardEventKind.QUARANTINED, "the canary's values were wrong"),
    ]
