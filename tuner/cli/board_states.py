"""How boards are, in words: what their campaigns said last, and how long ago."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from int8tune.results.report.format import microseconds
from int8tune.rpc.errors import StatusFileError
from int8tune.rpc.farm.status_file import BoardReport, read_report
from int8tune.rpc.farm.values import State
from int8tune.tuner.cli.output import aligned

IDLE = "idle"
NONE = "-"
HEADER = ("board", "campaign", "state", "waits for", "canary", "trials/min")
_CAMPAIGN = 1
_INDENT = "    "
_OFF = (State.QUARANTINED, State.LOST)
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


@dataclass(frozen=True, slots=True)
class BoardState:
    """A board, and what its last campaign said of it; `fault` is why that can't be read."""

    name: str
    report: BoardReport | None
    fault: str = ""

    @property
    def running(self) -> BoardReport | None:
        """The report of a campaign that still runs."""
        return self.report if self.report and self.report.is_current else None


def read_states(folder: Path, boards: Sequence[str]) -> list[BoardState]:
    """Of each board, from the folder in which campaigns say how they are."""
    return [_read(folder, board) for board in boards]


def state_fields(state: BoardState) -> dict[str, Any]:
    """What there is to say of a board, as JSON has it: moments in UTC."""
    report, running = state.report, state.running
    canary = None
    if report and report.canary_at is not None:
        canary = {
            "at": _moment(report.canary_at),
            "good": not report.canary_fault,
            "call_s": report.canary_s or None,
            "fault": report.canary_fault,
        }
    return {
        "state": running.state.value if running else IDLE,
        "since": _moment(running.since) if running else None,
        "waits_for": running.waits_for if running else None,
        "until": _moment(running.until) if running else None,
        "cause": running.cause if running else _last_words(state),
        "campaign": report.campaign if report else None,
        "canary": canary,
        "trials": report.trials if report else None,
        "trials_per_minute": round(running.per_minute, 1) if running else None,
        "last_seen": _moment(report.written_at) if report else None,
    }


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
        if words := state.running.cause if state.running else _last_words(state):
            text += textwrap.wrap(words, columns, initial_indent=_INDENT, subsequent_indent=_INDENT)
    return "\n".join(text)


def lasted(seconds: float) -> str:
    """`40 s`, `12 min`, `5 h`, `3 d`: no more than a person wants to know."""
    for unit_s, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _read(folder: Path, board: str) -> BoardState:
    try:
        return BoardState(board, read_report(folder, board))
    except StatusFileError as error:
        return BoardState(board, None, str(error))


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


def _last_words(state: BoardState) -> str:
    """What was wrong with a board when its campaign ended, or with what is said of it."""
    report = state.report
    if report and report.state in _OFF:
        return f"was {report.state}: {report.cause}"
    return f"its state can't be read: {state.fault}" if state.fault else ""


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
