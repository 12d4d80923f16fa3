"""Everything that is waited for, each with its name, whom it concerns, and when it is over."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from enum import StrEnum


class Wait(StrEnum):
    """The names of waits."""

    SESSION = "session"
    SILENCE = "silence"
    COOLDOWN = "cooldown"
    NEXT_CHECK = "next check"
    IDLE = "idle"
    BUILD = "build"
    QUEUE = "queue"
    BOARD = "board"


Key = tuple[Wait, Hashable]


class Waits:
    """Deadlines by name and owner. Setting one again moves it."""

    def __init__(self, spare: int = 64) -> None:
        """`spare`: of what is waited for no more, as many are kept at most beyond as many as are waited for."""
        self._spare = spare
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._queued: dict[Key, float] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._due)

    def set(self, wait: Wait, owner: Hashable, due_s: float) -> None:
        key = (wait, owner)
        self._due[key] = due_s
        # One that is in the heap with an earlier time is moved when that comes: a deadline that is always put off,
        # as by heartbeats, costs nothing.
        if self._queued.get(key, due_s + 1) > due_s:
            self._push(key, due_s)

    def drop(self, wait: Wait, owner: Hashable) -> None:
        self._due.pop((wait, owner), None)
        if len(self._heap) > 2 * len(self._due) + self._spare:
            self._sweep()

    def due_s(self, wait: Wait, owner: Hashable) -> float | None:
        return self._due.get((wait, owner))

    def next_s(self) -> float | None:
        """When the first of them is over, or something earlier."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def take(self, now_s: float) -> Key | None:
        """One that is over by now; it is waited for no more."""
        self._settle()
        if not self._heap or self._heap[0][0] > now_s:
            return None
        key = self._pop()
        del self._due[key]
        return key

    def _settle(self) -> None:
        """Let the heap's first item be one that is waited for, at its time."""
        while self._heap:
            due_s, _, key = self._heap[0]
            wanted_s = self._due.get(key)
            if wanted_s == due_s:
                return
            self._pop()
            if wanted_s is not None and key not in self._queued:
                self._push(key, wanted_s)

    def _sweep(self) -> None:
        """Take out what is waited for no more: a limit of a day would keep its trial's name for a day."""
        self._heap = [item for item in self._heap if item[2] in self._due and self._queued[item[2]] == item[0]]
        heapq.heapify(self._heap)
        self._queued = {key: due_s for due_s, _, key in self._heap}

    def _push(self, key: Key, due_s: float) -> None:
        self._serial += 1
        self._queued[key] = due_s
        heapq.heappush(self._heap, (due_s, self._serial, key))

    def _pop(self) -> Key:
        due_s, _, key = heapq.heappop(self._heap)
        if self._queued.get(key) == due_s:
            del self._queued[key]
        return key
