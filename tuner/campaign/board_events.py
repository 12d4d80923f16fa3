"""What a campaign's records keep of its boards: each canary, and when and why one went off or came back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from int8tune.results.record import BoardEvent, BoardEventKind
from int8tune.results.text import one_line
from int8tune.rpc.farm.entries import CanaryJudged, Entry, Turned
from int8tune.rpc.farm.values import State

_OFF = {State.QUARANTINED: BoardEventKind.QUARANTINED, State.LOST: BoardEventKind.LOST}


def _utc_now() -> datetime:
    return datetime.now(UTC)


class BoardEvents:
    """Makes records of what a farm decides; `hand_over` has those of several decisions kept at once."""

    def __init__(
        self, campaign: str, keep: Callable[[Sequence[BoardEvent]], None], now: Callable[[], datetime] = _utc_now
    ) -> None:
        """
        Args:
            keep: adds records to the store.
        """
        self._campaign = campaign
        self._keep = keep
        self._now = now
        self._off: set[str] = set()
        self._waiting: list[BoardEvent] = []

    def note(self, entries: Sequence[Entry]) -> None:
        """Take in what the farm decided."""
        for entry in entries:
            if isinstance(entry, CanaryJudged):
                self._add(entry.board, self._kind(entry), entry.seconds, entry.fault)
            elif isinstance(entry, Turned) and entry.state in _OFF:
                self._off.add(entry.board)
                self._add(entry.board, _OFF[entry.state], 0.0, entry.cause)

    def hand_over(self) -> None:
        """Have kept what was noted since the last time.

        Raises:
            StoreError: it could not be written.
        """
        if self._waiting:
            self._keep(self._waiting)
            self._waiting = []

    def _kind(self, canary: CanaryJudged) -> BoardEventKind:
        if canary.fault:
            return BoardEventKind.BAD_CANARY
        if canary.board in self._off:
            self._off.discard(canary.board)
            return BoardEventKind.BACK
        return BoardEventKind.GOOD_CANARY

    def _add(self, board: str, kind: BoardEventKind, canary_s: float, cause: str) -> None:
        moment = self._now().isoformat(timespec="milliseconds")
        self._waiting.append(BoardEvent(self._campaign, board, kind, canary_s, one_line(cause), moment))
