"""What there is to say of a board: how fast it measures, and what its last canary said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from int8tune.tuner.api.boards import board_fields
from int8tune.tuner.board_states import BoardState, state_fields
from int8tune.tuner.campaign.board_reports import PACE_OVER_S, Pace
from tests.support.farm.boards import board
from tests.support.program.watched_campaigns import BOARD


def test_a_pace_is_that_of_the_last_minute_and_needs_two_counts() -> None:
    pace = Pace()
    assert pace.per_minute(0.0, 0) == 0
    assert pace.per_minute(10.0, 10) == 60
    # After a pause the last count and this one are all that there is to say.
    assert pace.per_minute(10.0 + 2 * PACE_OVER_S, 10 + 2 * int(PACE_OVER_S)) == 60
    assert pace.per_minute(10.0 + 3 * PACE_OVER_S, 10 + 2 * int(PACE_OVER_S)) == 0


@pytest.mark.parametrize("fault", ["", "late"])
def test_a_canary_is_good_where_nothing_was_wrong_with_it(fault: str) -> None:
    canary = state_fields(BoardState("pi", replace(BOARD, canary_fault=fault)))["canary"]
    assert (canary["good"], canary["fault"]) == (not fault, fault)
    assert state_fields(BoardState("pi", None))["canary"] is None


def test_tags_of_a_board_are_in_order() -> None:
    assert board_fields(replace(board(), tags=frozenset("edcba")))["tags"] == "a,b,c,d,e"
    assert board_fields(board())["tags"] == "-"
