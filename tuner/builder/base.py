"""The contract of a pool of builds."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from int8tune.tuner.builder.job import Built, Job


class Pool(Protocol):
    """Takes jobs and gives back what came of them, in any order, with their files in the jobs' folders.

    A build that fails, crashes or hangs is a `Built`, and so is one that was lost more than once with what built it. A
    candidate's suite was built by the same pool before. A pool is used by one thread, within its context.
    """

    def __enter__(self) -> Self:
        """Start it.

        Raises:
            BuildPoolError: nothing is there to build with. `submit` and `collect` raise it when that is lost for good.
        """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def width(self) -> int:
        """Jobs that run at once."""

    @property
    def pending(self) -> int:
        """Jobs that were submitted and not collected."""

    def submit(self, job: Job) -> None:
        """Start a job; callers keep `pending` at or a little above `width`."""

    def collect(self, limit_s: float, wake: int | None = None) -> list[Built]:
        """The jobs that have ended, after waiting for at most `limit_s` for one, or until `wake` can be read."""

    def pause_guest(self, wanted: bool) -> None:
        """Keep builds off this machine's measuring core from now on, or no longer. It is so when this returns."""

    def close(self) -> None:
        """End everything that was started here. Closing twice is allowed."""
