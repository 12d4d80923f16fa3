"""Turns in which others had the cores are seen, and taken again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from int8tune.tuner.bench.contestant import disturbance
from int8tune.tuner.bench.waiting import MOST_TRIES, TASKS, Turn, least_disturbed, waited_s


@pytest.fixture
def shared_core() -> Iterator[None]:
    """This thread on one core, and another process that never leaves that core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:1])
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield
    other.kill()
    other.wait()
    os.sched_setaffinity(0, before)


def spin() -> float:
    started_s = time.perf_counter()
    while time.perf_counter() - started_s < 0.1:
        pass
    return 0.1


@pytest.mark.usefixtures("shared_core")
def test_a_core_that_is_shared_is_waited_for() -> None:
    time.sleep(0.2)
    started_s, before_s = time.perf_counter(), waited_s()
    for _ in range(5):
        spin()
    # Others may share the core, too; waiting is a part of the time, and each thread waits for itself.
    waits_s, passed_s = waited_s() - before_s, time.perf_counter() - started_s
    assert 0.15 < waits_s < passed_s * len(list(TASKS.iterdir()))


def test_the_first_turn_that_nobody_disturbed_counts() -> None:
    waits_s, means_s = iter([0.0, 1e9, 2e9, 2e9]), iter([3.0, 2.0])
    turn = least_disturbed(lambda: next(means_s), lambda: next(waits_s))
    assert turn == Turn(2.0, 0.0)
    assert not turn.is_disturbed


def test_of_disturbed_turns_only_the_least_disturbed_one_counts() -> None:
    # So far apart that no turn of microseconds which takes a second for once changes their order.
    waited = iter([0.0, 9e15, 0.0, 1e3, 0.0, 2e16, 0.0, 3e16])
    means_s = iter(range(MOST_TRIES))
    turn = least_disturbed(lambda: float(next(means_s)), lambda: next(waited))
    assert turn.mean_s == 1.0
    assert turn.is_disturbed


def test_disturbed_turns_are_told() -> None:
    assert disturbance([Turn(1.0, 0.0), Turn(1.0, 0.02)]) == ""
    told = disturbance([Turn(1.0, 0.0), Turn(1.0, 0.25), Turn(1.0, 0.1)])
    assert told == "others had the cores in 2 of 3 turns, for up to 25 % of one"
