"""How long this process had work and no core.

Wall-clock times of a busy machine are those of two programs. Linux counts for each thread how long it was ready to run
and waited (`/proc/PID/task/TID/schedstat`, Documentation/scheduler/sched-stats.rst).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TASKS = Path("/proc/self/task")
# A turn of which others had more is taken again, so often at most.
MOST_WAITING, MOST_TRIES = 0.03, 4


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn.

    Attributes:
        mean_s: seconds per call.
        waiting: the share of the turn in which a thread waited for a core.
    """

    mean_s: float
    waiting: float

    @property
    def is_disturbed(self) -> bool:
        return self.waiting > MOST_WAITING


def waited_s() -> float:
    """Seconds that threads of this process have waited so far, all together; 0 where the system does not say."""
    total_ns = 0
    for task in TASKS.iterdir() if TASKS.is_dir() else ():
        with contextlib.suppress(OSError, IndexError, ValueError):  # the thread has ended meanwhile
            total_ns += int((task / "schedstat").read_text().split()[1])
    return total_ns / 1e9


def least_disturbed(run: Callable[[], float], waited_s: Callable[[], float] = waited_s) -> Turn:
    """The first turn that nobody disturbed; without one, the least disturbed of some.

    Args:
        run: takes a turn; the seconds per call.
    """
    best: Turn | None = None
    for _ in range(MOST_TRIES):
        before_s, started_s = waited_s(), time.perf_counter()
        mean_s = run()
        taken_s = time.perf_counter() - started_s
        turn = Turn(mean_s, max(waited_s() - before_s, 0.0) / taken_s)
        if best is None or turn.waiting < best.waiting:
            best = turn
        if not turn.is_disturbed:
            break
    assert best is not None
    return best
