"""Each way to break the scheduler is noticed by what is tested of the farm's promises."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import farm_promises as promises
import pytest
from farm_mutants import MUTANTS, Mutant, applied

LIMIT_S = 10
# From what notices most of them to what takes longest.
CHECKS: tuple[Callable[[], list[str]], ...] = (
    lambda: promises.one_final_state(range(150)),
    promises.single_board_off_after_streak,
    lambda: promises.killed_coordinators(range(1, 100, 9)),
    promises.dead_boards,
    promises.hung_kernels,
    lambda: promises.flaky_boards_go_off(range(2)),
    lambda: promises.jumping_clock(1),
    lambda: promises.sick_boards(range(1)),
    promises.fairness,
    lambda: promises.right_verdicts(range(2))[1],
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_broken_scheduler_is_noticed(mutant: Mutant) -> None:
    with applied(mutant):
        assert any(_notices(check) for check in CHECKS)


def test_the_scheduler_as_it_is_is_not_broken() -> None:
    assert not any(_notices(check) for check in CHECKS)


def _notices(check: Callable[[], list[str]]) -> bool:
    try:
        with _limited():
            return bool(check())
    except Exception:
        return True


@contextmanager
def _limited() -> Iterator[None]:
    """A scheduler that goes round in circles is broken, too."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"not over after {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
