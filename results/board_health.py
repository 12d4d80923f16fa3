"""How the boards of a campaign were while it ran: their canaries, and when and why they were off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from int8tune.results.record import BoardEvent, BoardEventKind
from int8tune.results.stats import median
from int8tune.results.wall_clock import WallClock


class BoardVerdict(StrEnum):
    """How a board was, the worst first."""

    OFF = "off"
    """It is off where the records end."""
    WAS_OFF = "was off"
    DISTURBED = "disturbed"
    """Canaries were bad, and good again before it was taken off."""
    WELL = "well"


@dataclass(frozen=True, slots=True)
class Canary:
    """A kernel of known work that a board ran.

    Attributes:
        at_s: since the campaign began.
        seconds: of a call; 0 where the board did not say.
        fault: what was wrong; empty where it was good.
    """

    at_s: float
    seconds: float
    fault: str


@dataclass(frozen=True, slots=True)
class OffTime:
    """A time in which a board got no trials.

    Attributes:
        from_s, until_s: since the campaign began; the latter is None where the records end before.
        kind: `QUARANTINED`, what it said was not believed, or `LOST`, it could not be reached; at first.
        cause: why it went off.
    """

    from_s: float
    until_s: float | None
    kind: BoardEventKind
    cause: str


@dataclass(frozen=True, slots=True)
class BoardHealth:
    """One board.

    Attributes:
        canary_s: median seconds per call of its good canaries; None without any.
        off_s: how long it was off, of the campaign's `total_s`.
    """

    name: str
    canaries: tuple[Canary, ...]
    off: tuple[OffTime, ...]
    canary_s: float | None
    off_s: float
    total_s: float

    @property
    def bad(self) -> int:
        """How many canaries were."""
        return sum(bool(canary.fault) for canary in self.canaries)

    @property
    def off_share(self) -> float:
        return self.off_s / self.total_s if self.total_s else 0.0

    @property
    def verdict(self) -> BoardVerdict:
        if self.off:
            return BoardVerdict.OFF if self.off[-1].until_s is None else BoardVerdict.WAS_OFF
        return BoardVerdict.DISTURBED if self.bad else BoardVerdict.WELL

    @property
    def cause(self) -> str:
        """Why it was off the last time, or else what was wrong with its last bad canary; empty of one that is well."""
        if self.off:
            return self.off[-1].cause
        return next((canary.fault for canary in reversed(self.canaries) if canary.fault), "")


def board_health(events: Iterable[BoardEvent], clock: WallClock) -> tuple[BoardHealth, ...]:
    """The boards of a campaign, the worst first: those that are off, then by how long they were off.

    Args:
        clock: made of all the campaign's records, these among them.
    """
    by_board: dict[str, list[BoardEvent]] = {}
    for event in events:
        by_board.setdefault(event.board, []).append(event)
    boards = [_health(name, found, clock) for name, found in by_board.items()]
    order = list(BoardVerdict)
    return tuple(sorted(boards, key=lambda board: (order.index(board.verdict), -board.off_s, -board.bad, board.name)))


def _health(name: str, events: Sequence[BoardEvent], clock: WallClock) -> BoardHealth:
    canaries = tuple(
        Canary(clock.at(event.happened_at) or 0.0, event.canary_s, event.cause)
        for event in events
        if not event.kind.is_off
    )
    off = _off_times(events, clock)
    good_s = [canary.seconds for canary in canaries if canary.seconds and not canary.fault]
    off_s = sum((clock.total_s if one.until_s is None else one.until_s) - one.from_s for one in off)
    return BoardHealth(name, canaries, off, median(good_s) if good_s else None, off_s, clock.total_s)


def _off_times(events: Sequence[BoardEvent], clock: WallClock) -> tuple[OffTime, ...]:
    """From each time that a board went off to its next good canary; what is said of it meanwhile changes nothing."""
    found: list[OffTime] = []
    since: BoardEvent | None = None
    for event in events:
        if event.kind.is_off:
            since = since or event
        elif since and event.kind is not BoardEventKind.BAD_CANARY:
            found.append(_off_time(since, clock, clock.at(event.happened_at)))
            since = None
    return (*found, _off_time(since, clock, None)) if since else tuple(found)


def _off_time(since: BoardEvent, clock: WallClock, until_s: float | None) -> OffTime:
    return OffTime(clock.at(since.happened_at) or 0.0, until_s, since.kind, since.cause)
