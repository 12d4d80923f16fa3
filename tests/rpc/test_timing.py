"""Repeats and turns, with a kernel whose clock the test holds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from int8tune.rpc.request import Timing
from int8tune.rpc.session.timing import Undisturbed, calls_that_fill, time_in_turn


class Clockwork:
    """A kernel that takes what `costs_s` says, one value per row of calls; it writes its name when it is called."""

    def __init__(self, costs_s: Iterator[float], name: str = "", log: list[str] | None = None) -> None:
        self._costs_s = costs_s
        self._name = name
        self._log = log if log is not None else []
        self.rows: list[int] = []

    def mean_s(self, calls: int) -> float:
        self.rows.append(calls)
        self._log.append(self._name)
        return next(self._costs_s)


@pytest.mark.parametrize("cost_s", [2e-9, 1e-6, 1.9e-4, 0.0019, 0.002, 0.7])
def test_repeat_is_filled_but_not_by_much(cost_s: float) -> None:
    calls = calls_that_fill(Clockwork(itertools.repeat(cost_s)), 0.002)
    assert calls * cost_s >= 0.002
    assert calls == 1 or (calls - 1) * cost_s < 1.2 * 0.002


def test_one_interruption_does_not_shorten_the_repeats() -> None:
    interrupted = itertools.chain([0.5], itertools.repeat(1e-6))
    assert calls_that_fill(Clockwork(interrupted), 0.002) >= 2000


def test_clock_that_stands_still_is_asked_for_more() -> None:
    standing = itertools.chain([0.0] * 4, itertools.repeat(1e-8))
    assert calls_that_fill(Clockwork(standing), 0.0) * 1e-8 >= 1e-5


def test_kernels_take_turns_in_alternating_order() -> None:
    log: list[str] = []
    costs = [itertools.chain([1.0, 1.0], itertools.count(base)) for base in (10.0, 20.0)]
    kernels = [Clockwork(cost, name, log) for cost, name in zip(costs, "AB", strict=True)]
    times_s, calls = time_in_turn(kernels, Timing(repeats=4, min_repeat_s=0.002))
    assert "".join(log) == "AABB" + "ABBAABBA"
    assert times_s == ((10.0, 11.0, 12.0, 13.0), (20.0, 21.0, 22.0, 23.0))
    assert calls == (1, 1)


def test_every_repeat_has_the_calls_that_are_reported() -> None:
    kernel = Clockwork(itertools.repeat(1e-5))
    (times_s,), (calls,) = time_in_turn([kernel], Timing(repeats=3, min_repeat_s=0.001))
    assert times_s == (1e-5,) * 3
    assert kernel.rows[-3:] == [calls] * 3


def test_a_loser_is_given_up_after_few_repeats() -> None:
    kernel = Clockwork(itertools.repeat(1.2e-5))
    (times_s,), _ = time_in_turn([kernel], Timing(repeats=7, min_repeat_s=1e-3, least_repeats=3, give_up_s=1.15e-5))
    assert times_s == (1.2e-5,) * 3


def test_one_fast_repeat_keeps_a_contender_in() -> None:
    """Noise makes repeats slower: what was fast once may be fast."""
    calibrating = 2 * [1e-5, 1e-5]
    costs_s = itertools.chain(calibrating, [2e-5, 1.1e-5], itertools.repeat(2e-5))
    (times_s,), _ = time_in_turn(
        [Clockwork(costs_s)], Timing(repeats=7, min_repeat_s=1e-3, least_repeats=3, give_up_s=1.15e-5)
    )
    assert len(times_s) == 7
    assert min(times_s) == 1.1e-5


def test_many_times_slower_than_the_limit_is_timed_by_single_calls() -> None:
    limits = Timing(repeats=7, min_repeat_s=3e-3, least_repeats=3, give_up_s=1e-5)
    slow, loser = Clockwork(itertools.repeat(5e-5)), Clockwork(itertools.repeat(3e-5))
    assert time_in_turn([slow], limits) == (((5e-5,) * 3,), (1,))
    assert slow.rows == [1] * 5
    _, (calls,) = time_in_turn([loser], limits)
    assert calls * 3e-5 >= 3e-3


def test_a_match_ends_when_every_rival_s_order_is_settled() -> None:
    duels = Timing(repeats=20, min_repeat_s=0.0, least_repeats=8, min_gain=0.01)
    unsettled = itertools.cycle([0.98, 1.0, 1.03])
    rivals = [itertools.repeat(1.0), itertools.repeat(0.9), itertools.repeat(1.1)]
    assert [len(times) for times in time_in_turn([Clockwork(cost) for cost in rivals], duels)[0]] == [8] * 3
    kernels = [Clockwork(cost) for cost in (itertools.repeat(1.0), itertools.repeat(0.9), unsettled)]
    assert [len(times) for times in time_in_turn(kernels, duels)[0]] == [20] * 3


class Interrupted(Clockwork):
    """Another process has the core once in each of the first calls."""

    def __init__(self, costs_s: Iterator[float], times: int) -> None:
        super().__init__(costs_s)
        self._times = times

    def switches(self) -> int:
        return min(len(self.rows), self._times)


def test_an_interrupted_repeat_is_made_again() -> None:
    kernel = Interrupted(iter([9e-4, 8e-4, 1e-4, 2e-4]), times=2)
    undisturbed = Undisturbed(kernel, kernel.switches)
    assert (undisturbed.mean_s(10), undisturbed.void) == (1e-4, 2)
    assert (undisturbed.mean_s(10), undisturbed.void) == (2e-4, 2)
    assert kernel.rows == [10] * 4


def test_where_every_repeat_is_interrupted_the_fastest_counts() -> None:
    kernel = Interrupted(itertools.chain([9e-4, 7e-4], itertools.repeat(8e-4)), times=100)
    undisturbed = Undisturbed(kernel, kernel.switches)
    assert undisturbed.mean_s(10) == 7e-4
    assert undisturbed.void == len(kernel.rows) < 10
    long = Interrupted(itertools.repeat(0.06), times=100)
    assert Undisturbed(long, long.switches).mean_s(1) == 0.06
    assert long.rows == [1]
