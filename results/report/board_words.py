"""What reports say of boards: which are unwell, since when, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from int8tune.results.board_health import BoardHealth, BoardVerdict
from int8tune.results.record import BoardEventKind
from int8tune.results.report import format

_STATES = {
    BoardEventKind.QUARANTINED: "quarantined, what it says is not believed",
    BoardEventKind.LOST: "lost, it can't be reached",
}


def unwell(boards: Sequence[BoardHealth]) -> list[BoardHealth]:
    """Those that are or were off, or had bad canaries; the worst first."""
    return [board for board in boards if board.verdict is not BoardVerdict.WELL]


def boards_in_words(boards: Sequence[BoardHealth]) -> str:
    """Which boards are unwell, such as `1 of 3 boards is unwell: pi-2`; empty without boards."""
    found = unwell(boards)
    if not boards:
        return ""
    if not found:
        return (
            ("the board is well", "both boards are well")[len(boards) - 1]
            if len(boards) < 3
            else f"all {len(boards)} boards are well"
        )
    names = ", ".join(f"{board.name} ({board.verdict})" for board in found)
    return f"{len(found)} of {len(boards)} board{'s' * (len(boards) > 1)} {_are(len(found))} unwell: {names}"


def board_in_words(board: BoardHealth) -> str:
    """How a board was, and why, such as `off since 3 min 12 s, quarantined: the canary's values were wrong`."""
    verb = "was" if board.bad == 1 else "were"
    bad = f"{board.bad or 'none'} of {len(board.canaries)} canaries {verb} bad"
    if board.verdict is BoardVerdict.OFF:
        last = board.off[-1]
        state = _STATES[last.kind]
        return f"off since {format.seconds(last.from_s)} after the start ({state}): {board.cause}; {bad}"
    if board.verdict is BoardVerdict.WAS_OFF:
        times = "once" if len(board.off) == 1 else f"{len(board.off)} times"
        spent = f"{format.seconds(board.off_s)} in all, {format.percent(board.off_share)} of the campaign"
        return f"was off {times}, {spent}, the last time: {board.cause}; {bad}"
    if board.verdict is BoardVerdict.DISTURBED:
        return f"never off, {bad}, the last one: {board.cause}"
    count = len(board.canaries)
    return f"never off, {'its canary was' if count == 1 else f'all {count} canaries were'} good"


def board_as_dict(board: BoardHealth) -> dict[str, Any]:
    """A board as JSON values: times in seconds since the campaign began, shares of 1."""
    return {
        "board": board.name,
        "verdict": board.verdict.value,
        "cause": board.cause,
        "canaries": len(board.canaries),
        "bad_canaries": board.bad,
        "canary_s": board.canary_s,
        "off_s": board.off_s,
        "off_share": board.off_share,
        "off": [
            {"from_s": one.from_s, "until_s": one.until_s, "kind": one.kind.value, "cause": one.cause}
            for one in board.off
        ],
    }


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
