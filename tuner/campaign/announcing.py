"""A campaign tells other processes how it is: about once a second, and how it ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from int8tune.results.record import Duel
from int8tune.results.text import printable
from int8tune.rpc.process.status_files import LONGEST_TEXT, Writer
from int8tune.tuner.campaign.board_reports import Pace
from int8tune.tuner.campaign.events import Listener, Progress
from int8tune.tuner.campaign.plan import Task
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.campaign_status import (
    FAILED,
    INTERRUPTED,
    CampaignStatus,
    campaigns_folder,
    place_of,
    status_path,
    write_campaign_status,
)

EVERY_S = 1.0
KEPT_S = 30 * 86400.0


@contextmanager
def announced(spec: CampaignSpec, results: str | Path, listener: Listener) -> Iterator[Announcer]:
    """A listener that tells another one, and says how the campaign is until it ends.

    The campaign's own end is told by `Announcer.end`; without that, it failed or was interrupted.
    """
    announcer = Announcer(spec, results, listener)
    try:
        yield announcer
    except Exception as error:
        announcer.end(FAILED, " ".join(str(error).split()) or type(error).__name__)
        raise
    except BaseException:
        announcer.end(INTERRUPTED)
        raise


class Announcer:
    """A `Listener` that writes a file about once a second. What can't be written is said once."""

    def __init__(self, spec: CampaignSpec, results: str | Path, listener: Listener) -> None:
        self._spec = spec
        self._listener = listener
        self._pace = Pace()
        self._next_s = 0.0
        self._has_failed = False
        now = time.time()
        self._status = CampaignStatus(
            place=place_of(results),
            campaign=spec.name,
            network=printable(spec.network.name)[:LONGEST_TEXT],
            tasks=len(spec.network.layers),
            tasks_done=0,
            trials=len(spec.network.layers) * spec.trials_per_task,
            trials_done=0,
            resumed=0,
            per_minute=0.0,
            started_at=now,
            left_s=None,
            written_at=now,
            ending="",
            error="",
            writer=Writer.this(),
        )
        _remove_old(now)
        self._write()

    def progress(self, progress: Progress) -> None:
        self._status = replace(
            self._status,
            tasks=progress.tasks,
            tasks_done=progress.tasks_done,
            trials=progress.trials,
            trials_done=progress.trials_done,
            resumed=progress.trials_resumed,
            per_minute=self._pace.per_minute(time.monotonic(), progress.trials_done),
            left_s=self._left_s(progress),
        )
        if time.monotonic() >= self._next_s:
            self._write()
        self._listener.progress(progress)

    def duels(self, task: Task, duels: Sequence[Duel]) -> None:
        self._listener.duels(task, duels)

    def notice(self, text: str) -> None:
        self._listener.notice(text)

    def end(self, ending: str, error: str = "") -> None:
        """Say that the campaign is over, and why."""
        self._status = replace(
            self._status, ending=ending, error=printable(error)[:LONGEST_TEXT], left_s=None, per_minute=0.0
        )
        if not self._has_failed:
            self._write()

    def _left_s(self, progress: Progress) -> float | None:
        limit_s = self._spec.time_limit_s
        within = [] if limit_s is None else [max(0.0, limit_s - progress.elapsed_s)]
        by_pace = [] if progress.time_left_s is None else [progress.time_left_s]
        return min(within + by_pace, default=None)

    def _write(self) -> None:
        self._next_s = time.monotonic() + EVERY_S
        self._status = replace(self._status, written_at=time.time())
        try:
            write_campaign_status(self._status)
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self._next_s = float("inf")
        if not self._has_failed:
            self._has_failed = True
            path = status_path(self._status.place, self._status.campaign)
            self._listener.notice(f"`int8tune watch` won't show how far this is: {path}: {error.strerror}")


def _remove_old(now: float) -> None:
    """Files of campaigns that nobody asks for any more."""
    with suppress(OSError):
        for path in campaigns_folder().iterdir():
            with suppress(OSError):
                if now - path.lstat().st_mtime > KEPT_S:
                    path.unlink()
