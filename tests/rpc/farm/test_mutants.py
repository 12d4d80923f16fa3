"""Each way to break the scheduler is noticed by what is tested of the farm's promises."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from int8tune.rpc.farm.simulation.values import FaultKind
from tests.support.farm import promises
from tests.support.farm.mutants import MUTANTS, Mutant, applied
from tests.support.run.thinned import one_in

# From what is quick and notices most of them to what takes longest.
CHECKS: tuple[Callable[[], list[str]], ...] = (
    lambda: promises.one_final_state(range(60)),
    promises.single_board_off_after_streak,
    promises.boards_gone_for_good,
    lambda: promises.flaky_boards_go_off(range(2)),
    promises.dead_boards,
    lambda: promises.sick_boards(range(2)),
    lambda: promises.jumping_clock(1),
    lambda: promises.killed_coordinators(range(1, 100, 9)),
    lambda: promises.right_verdicts(range(4), (FaultKind.FLAKY,))[1],
    promises.fairness,
    lambda: promises.one_final_state(range(60, 400)),
)


@pytest.mark.parametrize("mutant", one_in(16, MUTANTS), ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_broken_scheduler_is_noticed(mutant: Mutant) -> None:
    with applied(mutant):
        assert any(_notices(check) for check in CHECKS)


@pytest.mark.thorough
def test_the_scheduler_as_it_is_is_not_broken() -> None:
    assert not any(_notices(check) for check in CHECKS)


def _notices(check: Callable[[], list[str]]) -> bool:
    """A scheduler that fails is broken, too."""
    try:
        return bool(check())
    except Exception:
        return True
