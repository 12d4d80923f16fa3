"""A campaign says how its boards are: about once a second for whoever asks, and at once where one of them goes off."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from int8tune.rpc.farm.state import Status
from int8tune.rpc.farm.status_file import LONGEST_S, BoardReport, write_report
from int8tune.rpc.farm.values import State
from int8tune.rpc.process.status_files import Writer

EVERY_S = 1.0
PACE_OVER_S = 60.0
_OFF = frozenset({State.QUARANTINED, State.LOST})
_AT_WORK = frozenset({State.READY, State.BUSY, State.COOLING})


class Pace:
    """Trials a minute, over the last one."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, int]] = deque()

    def per_minute(self, now_s: float, trials: int) -> float:
        """Take in how many there are by now."""
        self._counts.append((now_s, trials))
        while now_s - self._counts[0][0] > PACE_OVER_S and len(self._counts) > 2:
            self._counts.popleft()
        since_s, before = self._counts[0]
        return 60 * (trials - before) / (now_s - since_s) if now_s > since_s else 0.0


class BoardReports:
    """Writes a file for each board. What can't be written is said once; the campaign goes on without.

    That a board is off is said, too, once until it measures again.
    """

    def __init__(self, folder: Path, campaign: str, target: str, notice: Callable[[str], None]) -> None:
        self._folder = folder
        self._campaign = campaign
        self._target = target
        self._notice = notice
        self._writer: Writer | None = Writer.this()
        self._paces: dict[str, Pace] = {}
        self._next_s = 0.0
        self._off: set[str] = set()

    def publish(self, boards: Callable[[], Sequence[Status]]) -> None:
        """Write how the boards are now, if it is time for that."""
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + EVERY_S
            found = boards()
            self._tell(found)
            self._write(found)

    def end(self, boards: Sequence[Status]) -> None:
        """Write how the boards were last, and that the campaign is over."""
        self._writer = None
        self._write(boards)
        self._next_s = float("inf")

    def _tell(self, boards: Sequence[Status]) -> None:
        for board in boards:
            if board.state in _OFF and board.board not in self._off:
                self._off.add(board.board)
                self._notice(f"`{board.board}` is {board.state}, and looked at again now and then: {board.cause}")
            elif board.state in _AT_WORK:
                self._off.discard(board.board)

    def _write(self, boards: Sequence[Status]) -> None:
        try:
            for board in boards:
                write_report(self._folder, self._report(board))
        except OSError as error:
            self._next_s = float("inf")
            self._notice(f"`int8tune devices list` won't show this campaign, {self._folder}: {error.strerror}")

    def _report(self, status: Status) -> BoardReport:
        now_s, now = time.monotonic(), time.time()

        def moment(then_s: float) -> float:
            return max(0.0, now + then_s - now_s)

        canary = status.canary
        seconds = canary.seconds if canary else 0.0
        return BoardReport(
            board=status.board,
            campaign=self._campaign,
            target=self._target,
            state=status.state,
            since=moment(status.since_s),
            waits_for=_without_id(status.waits_for),
            until=None if status.until_s is None else moment(status.until_s),
            cause=status.cause,
            canary_at=moment(canary.at_s) if canary else None,
            canary_s=seconds if 0 <= seconds <= LONGEST_S else 0.0,
            canary_fault=canary.fault if canary else "",
            trials=status.trials,
            per_minute=self._paces.setdefault(status.board, Pace()).per_minute(now_s, status.trials),
            written_at=now,
            writer=self._writer,
        )


def _without_id(waits_for: str) -> str:
    """What a board waits for, a trial's number left out, which means nothing outside of the campaign's process."""
    trial, colon, phase = waits_for.partition(": ")
    return f"trial: {phase}" if colon and trial != "canary" else waits_for
