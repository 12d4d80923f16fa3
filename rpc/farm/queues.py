"""Who is next: campaigns share the boards of a target by the time that they used there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from int8tune.rpc.farm.values import Board, Trial

# However high its priority, a campaign gets at most so many times what one of priority 1 gets beside it, and however
# low, at least one part in so many.
MOST_PRIORITY = 10.0
# A session's time until one was seen.
USUAL_S = 1.0
_NEWEST = 0.2


@dataclass(slots=True)
class _Bucket:
    """Trials of one campaign, target and set of tags: first those that were tried before, then in their order."""

    again: list[Trial] = field(default_factory=list)
    fresh: deque[Trial] = field(default_factory=deque)


@dataclass(slots=True)
class _Line:
    """A campaign's trials for one target.

    Attributes:
        used: its board time there over its weight; who has used least is next.
        usual_s: what its sessions take.
    """

    used: float = 0.0
    usual_s: float = USUAL_S
    waiting: int = 0
    buckets: dict[frozenset[str], _Bucket] = field(default_factory=dict)


class Queues:
    """Trials that wait for a board."""

    def __init__(self) -> None:
        self._weights: dict[str, float] = {}
        self._lines: dict[str, dict[str, _Line]] = {}
        self._now: dict[str, float] = {}
        self._queued: dict[str, Trial] = {}
        self._demand: dict[tuple[str, frozenset[str]], int] = {}

    def __len__(self) -> int:
        return len(self._queued)

    def __contains__(self, trial: str) -> bool:
        return trial in self._queued

    @property
    def demand(self) -> dict[tuple[str, frozenset[str]], int]:
        """How many trials wait, by target and tags."""
        return self._demand

    def waiting(self, target: str, tags: frozenset[str]) -> list[str]:
        """Trials that wait for a board of this target with these tags."""
        return [trial.id for trial in self._queued.values() if (trial.target, trial.tags) == (target, tags)]

    def length(self, campaign: str) -> int:
        """How many trials of a campaign wait."""
        return sum(lines[campaign].waiting for lines in self._lines.values() if campaign in lines)

    def open(self, campaign: str, priority: float) -> None:
        least = 1 / MOST_PRIORITY
        self._weights[campaign] = min(priority, MOST_PRIORITY) if priority > least else least

    def close(self, campaign: str) -> None:
        self._weights.pop(campaign, None)
        for trial in [trial for trial in self._queued.values() if trial.campaign == campaign]:
            self.remove(trial.id)
        for lines in self._lines.values():
            lines.pop(campaign, None)

    def push(self, trial: Trial, again: bool) -> None:
        line = self._lines.setdefault(trial.target, {}).setdefault(trial.campaign, _Line())
        if not line.waiting:
            # Time in which a campaign wanted nothing is not saved up.
            line.used = max(line.used, self._now.get(trial.target, 0.0))
        if trial.tags not in line.buckets:
            # Those that fewer boards can have come first.
            buckets = {**line.buckets, trial.tags: _Bucket()}
            line.buckets = dict(sorted(buckets.items(), key=lambda item: (-len(item[0]), sorted(item[0]))))
        bucket = line.buckets[trial.tags]
        (bucket.again if again else bucket.fresh).append(trial)
        self._queued[trial.id] = trial
        self._count(trial, 1)

    def remove(self, trial: str) -> None:
        """Forget a trial; it stays in its bucket until it is met there."""
        if found := self._queued.pop(trial, None):
            self._count(found, -1)

    def take(self, board: Board, allowed: Callable[[str], bool]) -> Trial | None:
        """The next trial for this board.

        Args:
            allowed: whether the board may have a trial that was tried before.
        """
        lines = self._lines.get(board.target, {})
        waiting = [(line.used, name) for name, line in lines.items() if line.waiting]
        for used, name in sorted(waiting):
            if trial := self._take(lines[name], board, allowed):
                self._now[board.target] = max(self._now.get(board.target, 0.0), used)
                self.remove(trial.id)
                return trial
        return None

    def charge(self, trial: Trial, seconds: float | None, charged_s: float = 0.0) -> float:
        """Count board time as used: what is usual while a session is under way, then the rest of what it took.

        Args:
            seconds: what it took; None: it has just begun.
            charged_s: what was counted when it began.

        Returns:
            what was counted.
        """
        line = self._lines.get(trial.target, {}).get(trial.campaign)
        if line is None:
            return 0.0
        weight = self._weights.get(trial.campaign, 1.0)
        if seconds is None:
            line.used += line.usual_s / weight
            return line.usual_s
        line.used += (seconds - charged_s) / weight
        line.usual_s += _NEWEST * (seconds - line.usual_s)
        return seconds

    def _take(self, line: _Line, board: Board, allowed: Callable[[str], bool]) -> Trial | None:
        for tags, bucket in line.buckets.items():
            if not tags <= board.tags:
                continue
            bucket.again = [trial for trial in bucket.again if trial.id in self._queued]
            for place, trial in enumerate(bucket.again):
                if allowed(trial.id):
                    return bucket.again.pop(place)
            while bucket.fresh:
                trial = bucket.fresh.popleft()
                if trial.id in self._queued:
                    return trial
        return None

    def _count(self, trial: Trial, more: int) -> None:
        key = (trial.target, trial.tags)
        self._demand[key] = self._demand.get(key, 0) + more
        if not self._demand[key]:
            del self._demand[key]
        if line := self._lines.get(trial.target, {}).get(trial.campaign):
            line.waiting += more
