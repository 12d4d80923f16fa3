"""How boards are: what their campaigns said of them last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from int8tune.rpc.errors import StatusFileError
from int8tune.rpc.farm.status_file import BoardReport, read_report
from int8tune.rpc.farm.values import State

IDLE = "idle"
_OFF = (State.QUARANTINED, State.LOST)


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

    @property
    def last_words(self) -> str:
        """What was wrong with it when its campaign ended, or with what is said of it; empty where nothing was."""
        report = self.report
        if report and report.state in _OFF:
            return f"was {report.state}: {report.cause}"
        return f"its state can't be read: {self.fault}" if self.fault else ""


def read_states(folder: Path, boards: Sequence[str]) -> list[BoardState]:
    """The state of each board, from the folder in which campaigns say how they are."""
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
        "cause": running.cause if running else state.last_words,
        "campaign": report.campaign if report else None,
        "canary": canary,
        "trials": report.trials if report else None,
        "trials_per_minute": round(running.per_minute, 1) if running else None,
        "last_seen": _moment(report.written_at) if report else None,
    }


def _read(folder: Path, board: str) -> BoardState:
    try:
        return BoardState(board, read_report(folder, board))
    except StatusFileError as error:
        return BoardState(board, None, str(error))


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
