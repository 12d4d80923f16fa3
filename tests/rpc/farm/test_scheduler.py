"""The scheduler by hand: one event after the other, and what it makes of it."""

from __future__ import annotations

import ast
import itertools
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import int8tune.rpc.farm
from int8tune.rpc.farm.entries import Entry, entry_from_json, entry_to_json
from int8tune.rpc.farm.events import (
    Answered,
    Built,
    CanaryAnswered,
    Cancel,
    Check,
    Close,
    Command,
    Dropped,
    Event,
    Heard,
    Open,
    PowerCycle,
    Reached,
    Refused,
    Start,
    Submit,
    Tick,
)
from int8tune.rpc.farm.ledger import Ledger
from int8tune.rpc.farm.scheduler import Scheduler
from int8tune.rpc.farm.values import Board, Campaign, Limits, Phase, Rules, State, Trial, Verdict
from int8tune.rpc.farm.waits import Wait, Waits
from tests.support.farm.log import Checker, Log

pytestmark = pytest.mark.promise(2, 22)

CANARY_S = 0.1


class Hand:
    """A scheduler whose boards are played by the test.

    Attributes:
        sessions: what each board was last told to do.
        journal: all entries.
        ordered: all commands.
    """

    def __init__(self, *boards: Board, rules: Rules | None = None, journal: list[Entry] | None = None) -> None:
        self.now_s = 0.0
        self.sessions: dict[str, Start | Check] = {}
        self.journal: list[Entry] = list(journal or [])
        self.ordered: list[Command] = []
        self.log = Log()
        ledger = Ledger.of(self.journal) if journal else None
        self.scheduler = Scheduler(boards, rules or Rules(), lambda: 0.0, ledger)
        self._carry_out(self.scheduler.start(0.0))

    def _carry_out(self, decision: object) -> None:
        self.journal += decision.entries  # type: ignore[attr-defined]
        for entry in decision.entries:  # type: ignore[attr-defined]
            self.log(self.now_s, entry)
        for command in decision.commands:  # type: ignore[attr-defined]
            self.log(self.now_s, command)
            self.ordered.append(command)
            if isinstance(command, Start | Check):
                self.sessions[command.board] = command
            elif isinstance(command, Cancel):
                self.sessions.pop(command.board, None)

    def tell(self, event: Event) -> None:
        self.log(self.now_s, event)
        self._carry_out(self.scheduler.handle(self.now_s, event))

    def wait(self, seconds: float) -> None:
        """Let time pass, and every deadline on the way."""
        until_s = self.now_s + seconds
        while (due_s := self.scheduler.next_s) is not None and due_s <= until_s:
            self.now_s = max(due_s, self.now_s)
            self.tell(Tick())
        self.now_s = until_s

    def trials(self, *trials: Trial, campaign: str = "c") -> None:
        self.tell(Open(Campaign(campaign)))
        for trial in trials:
            self.tell(Submit(trial))

    def canary(self, board: str, seconds: float = CANARY_S, *, exact: bool = True, boot: str = "") -> None:
        session = self.sessions.pop(board)
        assert isinstance(session, Check), session
        self.tell(CanaryAnswered(board, session.fence, exact, seconds, boot))

    def answer(self, board: str, verdict: Verdict = Verdict.OK) -> str:
        """What the board measures ends like this; which trial it was."""
        session = self.sessions.pop(board)
        assert isinstance(session, Start), session
        self.tell(Answered(board, session.fence, session.trial.id, verdict))
        return session.trial.id

    def drop(self, board: str, error: str = "broke") -> None:
        self.tell(Dropped(board, self.sessions.pop(board).fence, error))

    def reach_run(self, board: str) -> None:
        self.tell(Reached(board, self.sessions[board].fence, Phase.RUN))

    def state(self, board: str) -> State:
        return next(status.state for status in self.scheduler.status() if status.board == board)

    def verdict(self, trial: str) -> Verdict | None:
        return next((done[trial] for done in self.scheduler.ledger.done.values() if trial in done), None)


def board(name: str, **fields: object) -> Board:
    return Board(name, "t", **{"canary_s": CANARY_S} | fields)  # type: ignore[arg-type]


def trial(name: str, **fields: object) -> Trial:
    return Trial(name, "c", "t", **fields)  # type: ignore[arg-type]


def ready(*boards: Board, rules: Rules | None = None) -> Hand:
    hand = Hand(*boards, rules=rules)
    for each in boards:
        hand.canary(each.name)
    return hand


# Boards and trials


def test_a_board_gets_work_after_its_canary_only() -> None:
    hand = Hand(board("a"))
    hand.trials(trial("x"))
    assert hand.state("a") is State.CHECKING
    assert isinstance(hand.sessions["a"], Check)
    hand.canary("a")
    assert hand.sessions["a"] == Start("a", 2, trial("x"))
    assert hand.state("a") is State.BUSY


def test_trials_go_to_boards_of_their_target_with_all_of_their_tags() -> None:
    hand = ready(board("plain"), board("big", tags=frozenset({"big", "fast"})), replace(board("other"), target="u"))
    hand.trials(trial("x", tags=frozenset({"big"})), trial("y", tags=frozenset({"big"})), trial("z"))
    assert hand.sessions.keys() == {"big", "plain"}
    assert hand.answer("plain") == "z"
    assert hand.answer("big") == "x"
    assert hand.answer("big") == "y"
    assert hand.state("other") is State.READY


def test_an_answer_is_final_once_its_board_has_a_good_canary() -> None:
    hand = ready(board("a"))
    hand.trials(trial("x"))
    hand.answer("a")
    assert hand.verdict("x") is None
    hand.wait(1.0)
    hand.canary("a")
    assert hand.verdict("x") is Verdict.OK


def test_a_late_answer_is_refused() -> None:
    hand = ready(board("a", limits=Limits(grace_s=1.0, silence_s=None)), board("b"))
    hand.trials(trial("x", run_limit_s=5.0))
    late = hand.sessions["a"]
    hand.reach_run("a")
    hand.wait(6.1)
    assert isinstance(hand.sessions["b"], Start), "it was given to the other board"
    hand.tell(Answered("a", late.fence, "x", Verdict.OK))
    assert hand.ordered[-1] == Refused("a", late.fence)
    hand.answer("b")
    hand.tell(Answered("b", late.fence, "x", Verdict.WRONG))
    hand.wait(1.0)
    hand.canary("b")
    assert hand.verdict("x") is Verdict.OK


def test_the_same_answer_twice_counts_once() -> None:
    hand = ready(board("a"))
    hand.trials(trial("x"), trial("y"))
    fence = hand.sessions["a"].fence
    hand.answer("a")
    hand.tell(Answered("a", fence, "x", Verdict.CRASHED))
    assert hand.ordered[-1] == Refused("a", fence)
    assert hand.sessions["a"].fence > fence


def test_a_trial_that_is_known_is_not_taken_again() -> None:
    hand = ready(board("a"))
    hand.trials(trial("x"), trial("x"))
    hand.answer("a")
    hand.wait(1.0)
    hand.canary("a")
    hand.tell(Submit(trial("x")))
    assert "a" not in hand.sessions


def test_a_board_rests_after_a_session() -> None:
    hand = ready(board("a", limits=Limits(cooldown_s=2.0)))
    hand.trials(trial("x"), trial("y"))
    hand.answer("a")
    assert (hand.state("a"), "a" in hand.sessions) == (State.COOLING, False)
    hand.wait(2.0)
    assert hand.answer("a") == "y"


def test_a_closed_campaign_leaves_nothing_behind() -> None:
    hand = ready(board("a"))
    hand.trials(trial("x"), trial("y"), trial("z", built=False))
    hand.tell(Close("c"))
    hand.answer("a")
    hand.wait(1000.0)
    assert not hand.scheduler.ledger.open
    assert "a" not in hand.sessions or isinstance(hand.sessions["a"], Check)


# Builds


def test_a_trial_waits_for_its_program() -> None:
    hand = ready(board("a"))
    hand.trials(trial("x", built=False), trial("y", built=False), trial("z", built=False))
    assert "a" not in hand.sessions
    hand.tell(Built("y", "no such intrinsic"))
    assert hand.verdict("y") is Verdict.BUILD_FAILED
    hand.tell(Built("x"))
    assert hand.answer("a") == "x"
    hand.wait(Rules().build_s)
    assert hand.verdict("z") is Verdict.BUILD_FAILED


# Limits


@pytest.mark.parametrize(
    ("phase", "limit_s"), [(Phase.CONNECT, 8.0), (Phase.TRANSFER, 10.0), (Phase.RUN, 6.0)], ids=list(Phase)
)
def test_each_phase_has_its_limit(phase: Phase, limit_s: float) -> None:
    hand = ready(board("a", limits=Limits(silence_s=None)), board("b"))
    hand.trials(trial("x", run_limit_s=5.0))
    if phase is not Phase.CONNECT:
        hand.tell(Reached("a", hand.sessions["a"].fence, phase))
    hand.wait(limit_s - 0.01)
    assert "b" not in hand.sessions
    hand.wait(0.02)
    assert hand.sessions["b"] == Start("b", hand.sessions["b"].fence, trial("x", run_limit_s=5.0))
    assert any(isinstance(command, Cancel) for command in hand.ordered)
    returned = [entry for entry in hand.journal if type(entry).__name__ == "Returned"]
    assert returned[-1].cause.startswith(f"{phase}: no answer after")  # type: ignore[union-attr]


def test_a_session_has_a_limit_as_a_whole() -> None:
    hand = ready(board("a", limits=Limits(silence_s=None, total_s=12.0)))
    hand.trials(trial("x", run_limit_s=60.0))
    hand.reach_run("a")
    hand.wait(12.1)
    assert isinstance(hand.sessions["a"], Check)


def test_a_silent_board_is_lost_and_one_that_is_heard_is_not() -> None:
    hand = ready(board("a"), board("b"))
    hand.trials(trial("x", run_limit_s=100.0))
    hand.reach_run("a")
    for _ in range(10):
        hand.wait(5.0)
        hand.tell(Heard("a"))
        hand.tell(Heard("b"))
    assert hand.state("a") is State.BUSY
    for _ in range(3):
        hand.wait(4.5)
        hand.tell(Heard("b"))
    assert isinstance(hand.sessions["b"], Start)
    assert "a" not in hand.sessions or isinstance(hand.sessions["a"], Check)


def test_a_lost_board_that_is_heard_is_asked_for_a_canary() -> None:
    hand = ready(board("a"))
    hand.wait(12.1)
    assert hand.state("a") is State.LOST
    hand.tell(Heard("a"))
    assert hand.state("a") is State.CHECKING
    hand.canary("a")
    assert hand.state("a") is State.READY


def test_a_board_that_is_heard_but_takes_no_session_is_not_asked_all_the_time() -> None:
    hand = ready(board("a"))
    hand.wait(12.1)
    for _ in range(100):
        hand.tell(Heard("a"))
        if "a" in hand.sessions:
            hand.drop("a", "connection refused")
        hand.wait(0.1)
    assert sum(isinstance(command, Check) for command in hand.ordered) < 10


def test_nothing_waits_for_a_board_for_ever() -> None:
    hand = ready(board("a", limits=Limits(silence_s=None)), rules=Rules(board_s=100.0))
    hand.trials(trial("x"), trial("never", tags=frozenset({"none"})))
    hand.drop("a")
    hand.wait(99.0)
    assert hand.verdict("never") is None
    hand.wait(120.0)
    assert hand.verdict("never") is Verdict.INFRA_FAILED
    assert hand.verdict("x") is Verdict.INFRA_FAILED
    assert "no board of t" in hand.journal[-1].cause or any(
        "no board of t" in getattr(entry, "cause", "") for entry in hand.journal
    )


def test_a_trial_waits_for_its_turn_only_so_long() -> None:
    hand = ready(board("a", limits=Limits(silence_s=None, total_s=1e6)), rules=Rules(queue_s=50.0))
    hand.trials(trial("x", run_limit_s=1000.0), trial("y"))
    hand.reach_run("a")
    hand.wait(51.0)
    assert hand.verdict("y") is Verdict.INFRA_FAILED
    assert hand.verdict("x") is None


def test_a_board_says_what_it_waits_for_and_until_when() -> None:
    hand = ready(board("a"))
    hand.wait(3.0)
    hand.trials(trial("x"))
    hand.wait(1.0)
    hand.reach_run("a")
    status = hand.scheduler.status()[0]
    assert (status.state, status.since_s, status.waits_for, status.until_s) == (State.BUSY, 3.0, "x: run", 15.0)
    hand.drop("a")
    assert hand.scheduler.status()[0].cause == "broke"
    hand.drop("a")
    status = hand.scheduler.status()[0]
    assert (status.state, status.waits_for, status.until_s) == (State.LOST, "next check", 4.5)


def test_given_up_after_as_many_tries_as_the_rules_say() -> None:
    hand = ready(board("a"), board("b"), rules=Rules(retries=2))
    hand.trials(trial("x"))
    seen = []
    for _ in range(3):
        on = next(name for name, session in hand.sessions.items() if isinstance(session, Start))
        seen.append(on)
        hand.reach_run(on)
        hand.drop(on)
        hand.canary(on)
    assert hand.verdict("x") is Verdict.INFRA_FAILED
    assert set(seen[:2]) == {"a", "b"}, "the second time on another board"
    assert "tried 3 times, the last time: broke" in [getattr(entry, "cause", "") for entry in hand.journal]


# Evidence


def test_a_crash_needs_a_second_board() -> None:
    hand = ready(board("a"), board("b"))
    hand.trials(trial("x"))
    hand.answer("a", Verdict.CRASHED)
    assert hand.state("a") is State.SUSPECT
    hand.canary("a")
    assert hand.verdict("x") is None
    assert hand.answer("b", Verdict.CRASHED) == "x"
    hand.canary("b")
    assert hand.verdict("x") is Verdict.CRASHED


def test_a_crash_on_the_only_board_needs_its_canary() -> None:
    hand = ready(board("a"))
    hand.trials(trial("x"))
    hand.answer("a", Verdict.CRASHED)
    hand.canary("a")
    assert hand.verdict("x") is Verdict.CRASHED


def test_a_crash_that_no_good_canary_follows_is_the_boards() -> None:
    hand = ready(board("a"), board("b"))
    hand.trials(trial("x"))
    hand.answer("a", Verdict.CRASHED)
    hand.canary("a", exact=False)
    assert hand.state("a") is State.QUARANTINED
    hand.answer("b")
    hand.wait(1.0)
    hand.canary("b")
    assert hand.verdict("x") is Verdict.OK


def test_wrong_values_need_two_boards_to_say_otherwise() -> None:
    hand = ready(board("a"), board("b"), board("c"))
    hand.trials(trial("x"))
    hand.answer("a", Verdict.WRONG)
    hand.canary("a")
    for name in ("b", "c"):
        assert hand.verdict("x") is None
        assert hand.answer(name) == "x"
        hand.wait(1.0)
        hand.canary(name)
    assert hand.verdict("x") is Verdict.OK


def test_boards_that_accuse_what_is_right_go_off() -> None:
    hand = ready(board("a"), board("b", limits=Limits(cooldown_s=0.5)))
    for name in "xy":
        hand.trials(trial(name))
        hand.answer("a", Verdict.CRASHED)
        hand.canary("a")
        hand.answer("b")
        hand.wait(2.0)
        hand.canary("b")
        assert hand.verdict(name) is Verdict.OK
    assert hand.state("a") is State.QUARANTINED
    assert "2 candidates failed here and were right elsewhere" in hand.scheduler.status()[0].cause


def test_three_failures_in_a_row_take_a_board_off_until_they_fail_elsewhere() -> None:
    hand = ready(board("b", limits=Limits(silence_s=None)), board("a", limits=Limits(silence_s=None)))
    hand.trials(trial("long", run_limit_s=500.0), trial("x"), trial("y"), trial("z"))
    hand.reach_run("b")
    for name in "xy":
        assert hand.answer("a", Verdict.CRASHED) == name
        hand.canary("a")
    hand.answer("a", Verdict.CRASHED)
    assert hand.state("a") is State.QUARANTINED
    assert hand.scheduler.status()[1].cause == "3 different candidates failed in a row, the last: crashed"
    assert [hand.verdict(name) for name in "xyz"] == [None] * 3
    assert hand.answer("b") == "long"
    hand.answer("b", Verdict.CRASHED)
    hand.canary("b")
    assert hand.state("a") is State.CHECKING, "one of them is guilty"


def test_results_since_the_last_good_canary_are_measured_again() -> None:
    hand = ready(board("a", canary_every=2), board("b"))
    hand.trials(trial("x"))
    hand.answer("a")
    hand.tell(Submit(trial("y")))
    busy = [name for name, session in hand.sessions.items() if isinstance(session, Start)]
    hand.answer(busy[0])
    hand.wait(1.0)
    slow = 2 * CANARY_S
    hand.canary("a", slow)
    assert hand.state("a") is State.SUSPECT
    hand.canary("a", slow)
    assert hand.state("a") is State.QUARANTINED
    assert "2.00 times" in hand.scheduler.status()[0].cause
    while isinstance(hand.sessions.get("b"), Start):
        hand.answer("b")
    if "b" not in hand.sessions:
        hand.wait(1.0)
    hand.canary("b")
    while isinstance(hand.sessions.get("b"), Start):
        hand.answer("b")
        hand.wait(1.0)
        hand.canary("b")
    final = {entry.trial: entry.board for entry in hand.journal if type(entry).__name__ == "Concluded"}  # type: ignore[union-attr]
    assert final == {"x": "b", "y": "b"}


def test_a_board_has_its_own_tolerance() -> None:
    hand = ready(board("a", canary_tolerance=1.0), board("b"))
    for name in ("a", "b"):
        hand.trials(trial(f"x{name}"))
    for name in ("a", "b"):
        hand.answer(name)
    hand.wait(1.0)
    for name in ("a", "b"):
        hand.canary(name, 1.9 * CANARY_S)
    assert hand.state("b") is State.SUSPECT
    assert hand.verdict("xa") is Verdict.OK
    assert hand.answer("a") == "xb", "it is measured again"


def test_a_board_may_be_slow_for_a_moment() -> None:
    hand = ready(board("a"), rules=Rules(slow_canaries=4))
    hand.trials(trial("x"))
    hand.answer("a")
    hand.wait(1.0)
    for _ in range(3):
        hand.canary("a", 1.5 * CANARY_S)
        assert hand.state("a") is State.SUSPECT
    hand.canary("a")
    assert hand.verdict("x") is None, "it may have been slow then, too"
    hand.answer("a")
    hand.wait(1.0)
    for _ in range(3):
        hand.canary("a", 1.5 * CANARY_S)
    assert hand.state("a") is State.SUSPECT
    hand.canary("a", 1.5 * CANARY_S)
    assert hand.state("a") is State.QUARANTINED
    hand.wait(20.0)
    for _ in range(2):
        hand.canary("a", 1.5 * CANARY_S)
    assert hand.state("a") is State.SUSPECT
    hand.canary("a")
    hand.answer("a")
    hand.wait(1.0)
    hand.canary("a")
    assert hand.verdict("x") is Verdict.OK


def test_the_first_canary_says_what_it_takes() -> None:
    hand = Hand(replace(board("a"), canary_s=None))
    hand.canary("a", 0.3)
    hand.trials(trial("x"))
    hand.answer("a", Verdict.TIMED_OUT)
    hand.canary("a", 0.31)
    assert hand.verdict("x") is Verdict.TIMED_OUT
    again = Hand(replace(board("a"), canary_s=None), journal=hand.journal)
    again.canary("a", 0.6)
    assert again.state("a") is State.QUARANTINED, "a new coordinator knows it, too"


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), 1e-6])
def test_a_canarys_time_must_be_a_time(seconds: float) -> None:
    hand = Hand(board("a"))
    hand.canary("a", seconds)
    assert hand.state("a") is State.QUARANTINED


def test_a_board_that_answers_for_another_candidate_goes_off() -> None:
    hand = ready(board("a"), board("b"))
    hand.trials(trial("x"))
    hand.tell(Answered("a", hand.sessions["a"].fence, "y", Verdict.OK))
    assert hand.state("a") is State.QUARANTINED
    assert hand.answer("b") == "x"


@pytest.mark.parametrize("verdict", [Verdict.BUILD_FAILED, Verdict.INFRA_FAILED])
def test_a_board_can_not_say_what_is_not_its_to_say(verdict: Verdict) -> None:
    hand = ready(board("a"))
    hand.trials(trial("x"))
    hand.answer("a", verdict)
    assert hand.state("a") is State.QUARANTINED
    assert hand.verdict("x") is None


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize(("boots", "counts"), [("12", False), ("11", True), ("1", True), (" 1", True), ("  ", True)])
def test_a_board_that_was_started_anew_between_two_canaries(boots: str, counts: bool, dies: bool) -> None:
    """What it answered between them is void: it may have been ill, and well because of the start."""
    boots = boots.ljust(2)
    specs = [board("a", canary_every=2)]
    hand = Hand(*specs)
    hand.canary("a", boot=boots[0].strip())
    hand.trials(trial("x"), trial("y"))
    assert [hand.answer("a"), hand.answer("a")] == ["x", "y"]
    if dies:
        hand = Hand(*specs, journal=hand.journal)
    hand.canary("a", boot=boots[1].strip())
    assert (hand.verdict("x") is Verdict.OK, hand.verdict("y") is Verdict.OK) == (counts, counts)
    if not counts:
        assert [hand.answer("a"), hand.answer("a")] == ["x", "y"]
        hand.canary("a", boot=boots[1])
        assert hand.verdict("x") is Verdict.OK
    assert hand.state("a") is State.READY


@pytest.mark.parametrize("gone", [False, True])
def test_what_a_board_answered_that_is_gone_does_not_wait_for_its_canary(gone: bool) -> None:
    """That a frozen board has no canary is known when connecting took too long; the other one could go on before."""
    hand = ready(board("a"), board("b"))
    hand.trials(trial("x"), trial("y"), trial("z"))
    assert hand.answer("a") == "x"
    hand.reach_run("a")
    session = hand.sessions.pop("a")
    hand.tell(Dropped("a", session.fence, "the board was silent for 12 s", gone))
    assert hand.state("a") is (State.LOST if gone else State.SUSPECT)
    measured = []
    while isinstance(hand.sessions.get("b"), Start):
        measured.append(hand.answer("b"))
    assert sorted(measured) == (["x", "y", "z"] if gone else ["y", "z"])


@pytest.mark.parametrize("gone", [False, True])
def test_a_board_whose_canary_finds_nobody_is_lost(gone: bool) -> None:
    hand = Hand(board("a"))
    hand.reach_run("a")
    hand.tell(Dropped("a", hand.sessions.pop("a").fence, "can't be reached", gone))
    assert hand.state("a") is (State.LOST if gone else State.QUARANTINED)


def test_a_board_that_was_disturbed_when_its_canary_was_timed_first() -> None:
    """It is faster ever after: two canaries that agree are its new time. What was measured before them is void."""
    hand = Hand(board("a", canary_s=None, canary_every=1))
    hand.canary("a", 0.2)
    hand.trials(trial("x"))
    assert hand.answer("a") == "x"
    hand.canary("a", 0.1)
    assert (hand.state("a"), hand.verdict("x")) == (State.SUSPECT, None)
    hand.canary("a", 0.104)
    assert hand.scheduler.ledger.canaries_s == {"a": 0.104}
    assert hand.answer("a") == "x"
    hand.canary("a", 0.1)
    assert hand.verdict("x") is Verdict.OK


def test_one_canary_that_is_too_fast_is_no_news() -> None:
    """Nor are two that disagree, nor any where the inventory says what it takes."""
    hand = Hand(board("a", canary_s=None, canary_every=1))
    hand.canary("a", 0.2)
    for second, expected in ((0.2, State.READY), (0.15, State.QUARANTINED)):
        hand.trials(trial(f"x{second}"))
        hand.answer("a")
        hand.canary("a", 0.1)
        assert hand.state("a") is State.SUSPECT
        hand.canary("a", second)
        if expected is State.READY:
            hand.answer("a")
            hand.canary("a", 0.2)
        assert hand.state("a") is expected
        assert hand.scheduler.ledger.canaries_s == {"a": 0.2}
    certain = Hand(board("a", canary_s=0.2))
    certain.canary("a", 0.1)
    assert certain.state("a") is State.QUARANTINED


# The way back


def test_delays_grow_and_the_power_is_switched() -> None:
    rules = Rules(first_delay_s=10.0, longest_delay_s=60.0, power_cycle_rest_s=40.0)
    hand = Hand(board("a", power_cycle=True), rules=rules)
    waited = []
    for _ in range(5):
        hand.canary("a", exact=False)
        due_s = hand.scheduler.next_s
        assert due_s is not None
        waited.append(round(due_s - hand.now_s, 6))
        hand.wait(waited[-1])
    assert waited == [10.0, 20.0, 40.0, 60.0, 60.0]
    assert sum(isinstance(command, PowerCycle) for command in hand.ordered) == 3
    hand.canary("a")
    assert hand.state("a") is State.READY


def test_a_board_that_may_still_be_starting_is_not_switched_again() -> None:
    """It is looked at every few seconds after it was switched; on each look in vain it would never be up."""
    hand = Hand(board("a", power_cycle=True), rules=Rules(lost_delay_s=0.5, power_cycle_rest_s=120.0))
    switched_s = []
    for _ in range(12):
        hand.drop("a", "connection refused")
        switched_s += [hand.now_s] * (sum(isinstance(c, PowerCycle) for c in hand.ordered) - len(switched_s))
        due_s = hand.scheduler.next_s
        assert due_s is not None
        hand.wait(due_s - hand.now_s)
    assert len(switched_s) >= 3
    assert all(later - earlier >= 120.0 for earlier, later in itertools.pairwise(switched_s))


def test_good_canaries_make_delays_short_again() -> None:
    hand = Hand(board("a", canary_every=1), rules=Rules(first_delay_s=10.0, forgive_after=2))
    hand.canary("a", exact=False)
    hand.wait(10.0)
    hand.canary("a")
    for name in "xyz":
        hand.trials(trial(name))
        hand.answer("a")
        hand.canary("a")
    hand.trials(trial("last"))
    hand.answer("a")
    hand.canary("a", exact=False)
    assert hand.scheduler.next_s == hand.now_s + 10.0


# A new coordinator


def test_a_new_coordinator_goes_on() -> None:
    hand = ready(board("a"), board("b"))
    hand.trials(trial("done"), trial("answered"), trial("flying"), trial("waiting"))
    assert hand.answer("a") == "done"
    hand.sessions.pop("a")
    hand.answer("b")
    text = json.dumps([entry_to_json(entry) for entry in hand.journal])
    journal = [entry_from_json(value) for value in json.loads(text)]
    assert journal == hand.journal
    again = Hand(board("a"), board("b"), journal=journal)
    assert all(isinstance(session, Check) for session in again.sessions.values())
    again.canary("a")
    again.canary("b")
    assert again.verdict("done") is Verdict.OK
    assert again.verdict("answered") is Verdict.OK
    assert {session.trial.id for session in again.sessions.values() if isinstance(session, Start)} == {
        "flying",
        "waiting",
    }
    assert min(session.fence for session in again.sessions.values()) > hand.scheduler.ledger.fence


def test_an_answer_of_a_board_that_is_gone_is_measured_again() -> None:
    hand = ready(board("a"))
    hand.trials(trial("x"))
    hand.answer("a")
    again = Hand(board("b"), journal=hand.journal)
    again.canary("b")
    assert again.answer("b") == "x"


@pytest.mark.parametrize(
    "value", [{}, {"kind": "Nothing"}, {"kind": "Issued"}, {"kind": "Turned", "board": "a", "state": "x", "cause": ""}]
)
def test_what_is_no_entry_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="no entry of a farm's journal"):
        entry_from_json(value)


def test_the_scheduler_reads_no_clock_and_starts_no_thread() -> None:
    forbidden = {"time", "datetime", "threading", "asyncio", "random", "socket", "subprocess", "os"}
    found = Path(int8tune.rpc.farm.__file__).parent.rglob("*.py")
    paths = [path for path in found if path.stem not in ("driver", "journal", "boards", "status_file")]
    assert len(paths) > 15
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & forbidden, path


# Everything at once


class AnyOrder(RuleBasedStateMachine):
    """Whatever boards say, in whatever order and however often, and however often the coordinator dies."""

    @initialize()
    def begin(self) -> None:
        self.boards = [board(name, canary_every=3, power_cycle=name == "a") for name in "abc"]
        self.hand = Hand(*self.boards)
        self.hand.tell(Open(Campaign("c")))
        self.old: list[Start | Check] = []
        self.count = 0

    @rule(tagged=st.booleans(), built=st.booleans())
    def submit(self, tagged: bool, built: bool) -> None:
        self.count += 1
        self.hand.tell(Submit(trial(f"t{self.count}", tags=frozenset("n" if tagged else ""), built=built)))

    @precondition(lambda self: self.count)
    @rule(data=st.data(), fails=st.booleans())
    def build(self, data: st.DataObject, fails: bool) -> None:
        self.hand.tell(Built(f"t{data.draw(st.integers(1, self.count))}", "no" if fails else ""))

    @rule(
        name=st.sampled_from("abc"),
        verdict=st.sampled_from(list(Verdict)),
        exact=st.booleans(),
        seconds=st.sampled_from([0.1, 0.101, 0.2]),
        keep=st.booleans(),
    )
    def answer(self, name: str, verdict: Verdict, exact: bool, seconds: float, keep: bool) -> None:
        session = self.hand.sessions.get(name)
        if session is None:
            return
        if not keep:
            del self.hand.sessions[name]
        self.old.append(session)
        self._say(session, verdict, exact, seconds)

    @precondition(lambda self: self.old)
    @rule(data=st.data(), verdict=st.sampled_from(list(Verdict)))
    def answer_late(self, data: st.DataObject, verdict: Verdict) -> None:
        self._say(data.draw(st.sampled_from(self.old)), verdict, True, 0.1)

    def _say(self, session: Start | Check, verdict: Verdict, exact: bool, seconds: float) -> None:
        if isinstance(session, Start):
            self.hand.tell(Answered(session.board, session.fence, session.trial.id, verdict))
        else:
            self.hand.tell(CanaryAnswered(session.board, session.fence, exact, seconds))

    @rule(name=st.sampled_from("abc"))
    def drop(self, name: str) -> None:
        if session := self.hand.sessions.get(name):
            self.old.append(session)
            self.hand.tell(Dropped(name, session.fence, "broke"))

    @rule(name=st.sampled_from("abc"), phase=st.sampled_from(list(Phase)))
    def reach(self, name: str, phase: Phase) -> None:
        if session := self.hand.sessions.get(name):
            self.hand.tell(Reached(name, session.fence, phase))

    @rule(seconds=st.sampled_from([0.01, 1.0, 7.0, 30.0]), heard=st.booleans())
    def wait(self, seconds: float, heard: bool) -> None:
        if heard:
            for each in self.boards:
                self.hand.tell(Heard(each.name))
        self.hand.wait(seconds)

    @rule()
    def die(self) -> None:
        log, now_s = self.hand.log, self.hand.now_s
        log.lines.append({"t": now_s, "kind": "Kill"})
        self.old += self.hand.sessions.values()
        kept = self.hand.journal
        self.hand = Hand.__new__(Hand)
        self.hand.now_s, self.hand.sessions, self.hand.journal, self.hand.ordered = now_s, {}, kept, []
        self.hand.log = log
        self.hand.scheduler = Scheduler(self.boards, Rules(), random.Random(1).random, Ledger.of(kept))
        self.hand._carry_out(self.hand.scheduler.start(now_s))

    def teardown(self) -> None:
        """Let everything be well: all that was submitted ends."""
        if not hasattr(self, "hand"):
            return
        hand = self.hand
        for number in range(1, self.count + 1):
            hand.tell(Built(f"t{number}"))
        for _ in range(200 * (self.count + 5)):
            if not hand.scheduler.ledger.open:
                break
            for name in list(hand.sessions):
                self._say(hand.sessions.pop(name), Verdict.OK, True, 0.1)
            for each in self.boards:
                hand.tell(Heard(each.name))
            hand.wait(0.5 if hand.sessions else 10.0)
        assert Checker(canary_every=3, longest_s=1e9).read(hand.log.lines) == []


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class AnyDeadlines(RuleBasedStateMachine):
    """Deadlines that are set, moved and dropped come when they are due, each once, as those of a plain table do."""

    @initialize()
    def begin(self) -> None:
        self.waits, self.table, self.now_s = Waits(spare=0), {}, 0.0  # type: ignore[var-annotated]

    @rule(owner=st.integers(0, 5), delay_s=st.integers(0, 20))
    def set(self, owner: int, delay_s: int) -> None:
        self.waits.set(Wait.QUEUE, owner, self.now_s + delay_s)
        self.table[owner] = self.now_s + delay_s

    @rule(owner=st.integers(0, 5))
    def drop(self, owner: int) -> None:
        self.waits.drop(Wait.QUEUE, owner)
        self.table.pop(owner, None)

    @rule(delay_s=st.integers(0, 10))
    def wait(self, delay_s: int) -> None:
        self.now_s += delay_s
        taken = []
        while key := self.waits.take(self.now_s):
            taken.append(key[1])
        due = [owner for owner, due_s in self.table.items() if due_s <= self.now_s]
        assert sorted(taken) == sorted(due)  # type: ignore[type-var]
        for owner in due:
            del self.table[owner]
        assert len(self.waits) == len(self.table)
        assert self.waits.next_s() == min(self.table.values(), default=None)


def test_deadlines_that_were_dropped_take_no_memory() -> None:
    waits = Waits()
    sizes = []
    for trial in range(3000):
        waits.set(Wait.QUEUE, f"a-{trial}", trial + 86_400.0)
        waits.drop(Wait.QUEUE, f"a-{trial - 10}")
        sizes.append(memory_of(waits))
    assert max(sizes[100:1000]) >= max(sizes[1000:])


def memory_of(waits: Waits) -> int:
    """How many items its tables have."""
    return sum(len(table) for table in vars(waits).values() if isinstance(table, dict | list))


TestAnyDeadlines = AnyDeadlines.TestCase
TestAnyDeadlines.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
