"""What a board that comes back is still held responsible for: the scheduler by hand, one event after the other."""

from __future__ import annotations

import pytest

from int8tune.rpc.farm.events import Start
from int8tune.rpc.farm.values import Limits, Rules, State, Verdict
from tests.rpc.farm.test_scheduler import Hand, board, ready, trial

RULES = Rules(first_delay_s=10.0, longest_delay_s=1000.0, forgive_after=2)


def delay_s(hand: Hand, name: str) -> float:
    """For how long a board that was just taken off is left alone; that time passes."""
    assert hand.state(name) is State.QUARANTINED
    due_s = next(status.until_s for status in hand.scheduler.status() if status.board == name)
    assert due_s is not None
    waited_s = due_s - hand.now_s
    hand.wait(waited_s)
    return waited_s


def work(hand: Hand, name: str, *, good: bool) -> None:
    """The only board measures a trial, after which its canary is good or not."""
    hand.trials(trial(name))
    hand.answer("a")
    hand.canary("a", exact=good)


def fail(hand: Hand, name: str) -> None:
    """The only board fails a trial; its canary is good, if it is asked for one."""
    hand.trials(trial(name))
    fail_next(hand, name)


def fail_next(hand: Hand, name: str) -> None:
    assert hand.answer("a", Verdict.CRASHED) == name
    if hand.state("a") is State.SUSPECT:
        hand.canary("a")


def test_failures_before_it_was_off_are_no_part_of_a_row() -> None:
    hand = ready(board("a"), rules=RULES)
    fail(hand, "x")
    hand.trials(trial("y"))
    hand.answer("a", Verdict.CRASHED)
    hand.canary("a", exact=False)
    delay_s(hand, "a")
    hand.canary("a")
    fail_next(hand, "y")
    fail(hand, "z")
    assert hand.state("a") is State.READY, "two in a row since it is back"
    fail(hand, "w")
    assert hand.state("a") is State.QUARANTINED


def test_false_alarms_before_it_was_off_are_forgotten() -> None:
    hand = ready(board("a"), board("b", limits=Limits(cooldown_s=0.5)), rules=RULES)

    def accuse(name: str, *, good: bool) -> None:
        """Board a fails what board b finds right; its own canary then is good or not."""
        hand.trials(trial(name))
        assert hand.answer("a", Verdict.CRASHED) == name
        hand.canary("a", exact=good)
        assert hand.answer("b") == name
        hand.wait(2.0)
        hand.canary("b")
        assert hand.verdict(name) is Verdict.OK

    accuse("x", good=True)
    accuse("y", good=False)
    delay_s(hand, "a")
    hand.canary("a")
    hand.trials(trial("other"))  # goes to the board that has waited longest, which is the other one now
    hand.answer("b")
    hand.wait(2.0)
    hand.canary("b")
    accuse("z", good=True)
    assert hand.state("a") is State.READY, "one false alarm since it is back"
    accuse("w", good=True)
    assert hand.state("a") is State.QUARANTINED


def test_the_only_board_is_soon_looked_at_after_a_row_and_later_after_anything_else() -> None:
    hand = ready(board("a", canary_every=1), rules=RULES)
    for names in (("x", "y", "z"), ("v", "w")):
        for name in names:
            fail(hand, name)
        assert delay_s(hand, "a") == 10.0
        hand.canary("a")
        fail_next(hand, "z" if "z" in names else "w")
    work(hand, "last", good=False)
    assert delay_s(hand, "a") == 10.0
    hand.canary("a", exact=False)
    assert delay_s(hand, "a") == 20.0


def test_beside_others_a_row_makes_delays_longer() -> None:
    hand = ready(board("a"), board("b", limits=Limits(silence_s=None)), rules=RULES)
    hand.trials(*(trial(name) for name in ("x", "busy", "y", "z")), trial("u"), trial("v"))
    hand.reach_run("b")
    for _ in range(3):
        hand.answer("a", Verdict.CRASHED)
        if hand.state("a") is State.SUSPECT:
            hand.canary("a")
    assert delay_s(hand, "a") == 10.0
    hand.canary("a", exact=False)
    assert delay_s(hand, "a") == 20.0


def test_canaries_before_it_was_off_do_not_earn_it_forgiveness() -> None:
    hand = Hand(board("a", canary_every=1), rules=RULES)
    hand.canary("a", exact=False)
    assert delay_s(hand, "a") == 10.0
    hand.canary("a")
    work(hand, "x", good=True)
    work(hand, "y", good=False)
    assert delay_s(hand, "a") == 20.0
    hand.canary("a")
    hand.answer("a")  # y once more
    hand.canary("a")
    work(hand, "z", good=False)
    assert delay_s(hand, "a") == 40.0


def test_the_canary_that_brings_it_back_does_not_earn_it_forgiveness() -> None:
    hand = Hand(board("a", canary_every=1), rules=Rules(first_delay_s=10.0, longest_delay_s=1000.0, forgive_after=1))
    hand.canary("a", exact=False)
    assert delay_s(hand, "a") == 10.0
    hand.canary("a")
    work(hand, "x", good=False)
    assert delay_s(hand, "a") == 20.0
    hand.canary("a")
    hand.answer("a")
    hand.canary("a", exact=False)
    assert delay_s(hand, "a") == 40.0


@pytest.mark.parametrize(("good", "expected_s"), [(1, 20.0), (2, 10.0)])
def test_as_many_good_canaries_as_the_rules_say_are_enough(good: int, expected_s: float) -> None:
    hand = Hand(board("a", canary_every=1), rules=RULES)
    hand.canary("a", exact=False)
    delay_s(hand, "a")
    hand.canary("a")
    for number in range(good):
        work(hand, f"x{number}", good=True)
    work(hand, "last", good=False)
    assert delay_s(hand, "a") == expected_s


def test_a_fast_canary_before_it_was_off_confirms_no_other() -> None:
    hand = Hand(board("a", canary_s=None, canary_every=1), rules=RULES)
    hand.canary("a", 0.2)
    hand.trials(trial("x"))
    hand.answer("a")
    hand.canary("a", 0.1)
    hand.canary("a", 0.15)
    delay_s(hand, "a")
    hand.canary("a", 0.15)
    assert hand.state("a") is State.SUSPECT, "it may be disturbed once more"
    assert hand.scheduler.ledger.canaries_s == {"a": 0.2}


def test_a_right_answer_ends_a_row() -> None:
    hand = ready(board("a"), rules=RULES)
    for name in ("u", "v", "good", "w", "x"):
        hand.trials(trial(name))
        if name == "good":
            hand.answer("a")
            hand.wait(2.0)
            if "a" in hand.sessions:
                hand.canary("a")
        else:
            fail_next(hand, name)
    assert hand.state("a") is State.READY


@pytest.mark.parametrize("is_row", [True, False])
def test_a_row_voids_what_was_said_before_and_a_bad_canary_does_not(is_row: bool) -> None:
    """A candidate against which wrong values are still held is not acquitted by one right answer."""
    limits = Limits(silence_s=None)
    hand = ready(board("b", limits=limits, canary_every=1), board("a", limits=limits), rules=RULES)
    hand.trials(trial("long", run_limit_s=500.0), trial("x"), trial("y"), trial("z"))
    hand.reach_run("b")
    for name in "xyz" if is_row else "xy":
        assert hand.answer("a", Verdict.WRONG) == name
        if hand.state("a") is State.SUSPECT:
            hand.canary("a", exact=is_row or name == "x")
    assert hand.state("a") is State.QUARANTINED
    assert hand.answer("b") == "long"
    answered = []
    for _ in range(20):  # all that the other board can do
        if "b" not in hand.sessions:
            hand.wait(0.5)
        elif isinstance(hand.sessions["b"], Start):
            answered.append(hand.answer("b"))
        else:
            hand.canary("b")
    assert hand.verdict("x") is Verdict.OK
    assert answered.count("x") == (1 if is_row else 2)
