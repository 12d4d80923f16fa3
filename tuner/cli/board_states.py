"""How boards are, in words: what their campaigns said last, and how long ago."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from int8tune.results.report.format import microseconds
from int8tune.rpc.farm.status_file import BoardReport
from int8tune.tuner.board_states import IDLE, BoardState
from int8tune.tuner.cli.output import aligned

NONE = "-"
HEADER = ("board", "campaign", "state", "waits for", "canary", "trials/min")
_CAMPAIGN = 1
_INDENT = "    "
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


def states_table(states: Sequence[BoardState], now: float, columns: int) -> str:
    """A line for each board, and one for what is wrong with it.

    Where they don't fit, the campaigns are left out, then what canaries took.
    """
    rows = [HEADER, *(_row(state, now) for state in states)]
    if _width(rows) > columns:
        rows = [(*row[:_CAMPAIGN], *row[_CAMPAIGN + 1 :]) for row in rows]
    if _width(rows) > columns:
        rows = [(*row[:-2], row[-2].partition(",")[0], row[-1]) for row in rows]
    header, *lines = aligned(rows, [len(rows[0]) - 1]).splitlines()
    text = [header]
    for state, line in zip(states, lines, strict=True):
        text.append(line)
        if words := state.running.cause if state.running else state.last_words:
            text += textwrap.wrap(words, columns, initial_indent=_INDENT, subsequent_indent=_INDENT)
    return "\n".join(text)


def lasted(seconds: float) -> str:
    """`40 s`, `12 min`, `5 h`, `3 d`: no more than a person wants to know."""
    for unit_s, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _width(rows: Sequence[Sequence[str]]) -> int:
    return max(map(len, aligned(rows).splitlines()))


def _row(state: BoardState, now: float) -> tuple[str, ...]:
    report, running = state.report, state.running
    canary = _canary(report, now) if report else NONE
    if running is None:
        seen = f"last seen {lasted(now - report.written_at)} ago" if report else NONE
        return state.name, report.campaign if report else NONE, IDLE, seen, canary, NONE
    left = "" if running.until is None else f", {lasted(running.until - now)} left"
    return (
        state.name,
        running.campaign,
        f"{running.state} {lasted(now - running.since)}",
        f"{running.waits_for}{left}",
        canary,
        f"{running.per_minute:.0f}",
    )


def _canary(report: BoardReport, now: float) -> str:
    if report.canary_at is None:
        return NONE
    took = f", {microseconds(report.canary_s)} us" if report.canary_s else ""
    return f"{'bad' if report.canary_fault else 'good'} {lasted(now - report.canary_at)} ago{took}"
