"""What a campaign tells whoever watches it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from int8tune.results.record import Duel, Trial
from int8tune.tuner.campaign.plan import Task


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a campaign stands.

    Attributes:
        trials_resumed: trials that were recorded before this run; they count among `trials_done`.
        time_left_s: estimate from this run's pace, None until it has one.
        last: what was recorded last, with its task.
        best_rates: operations per second of each task, or per cycle as estimated, by index; absent until it has an
            exact trial.
    """

    tasks: int
    tasks_done: int
    trials: int
    trials_done: int
    trials_resumed: int
    elapsed_s: float
    time_left_s: float | None
    last: tuple[Task, Trial] | None
    best_rates: dict[int, float | None]


class Listener(Protocol):
    """Watches a campaign; called on the campaign's thread, so it must be quick."""

    def progress(self, progress: Progress) -> None:
        """Something was recorded, or a task has come to its end."""

    def duels(self, task: Task, duels: Sequence[Duel]) -> None:
        """A finished task's contenders were timed against its default."""

    def notice(self, text: str) -> None:
        """Something a person should know, such as a lost device."""


class Silence:
    """A listener that ignores everything."""

    def progress(self, progress: Progress) -> None:
        pass

    def duels(self, task: Task, duels: Sequence[Duel]) -> None:
        pass

    def notice(self, text: str) -> None:
        pass
