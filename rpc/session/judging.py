"""What sessions on this machine and on boards have in common: how they fail, and what is said of them.

This module loads no TVM: the processes that speak with boards do without.
"""

from __future__ import annotations

from collections.abc import Callable

from int8tune.results.record import Outcome
from int8tune.rpc.protocol import Timed
from int8tune.rpc.request import Reply
from int8tune.rpc.wire.foreign_text import one_line
from int8tune.rpc.wire.npy import CaseError

# Where the device drifts all the time, this is enough to say so.
MOST_TIMINGS = 3
_LONGEST_ERROR = 600
_LONGEST_CLASS = 60


class FailedError(Exception):
    """The session has come to an outcome that is not `ok`."""

    def __init__(self, outcome: Outcome, error_class: str, error: str) -> None:
        super().__init__(error)
        self.outcome = outcome
        self.error_class = error_class[:_LONGEST_CLASS]


def failed_reply(error: CaseError | FailedError) -> Reply:
    """The answer to a request whose session failed, or whose cases can't be read."""
    text = one_line(str(error), _LONGEST_ERROR)
    if isinstance(error, CaseError):
        return Reply(Outcome.DEVICE_LOST, error_class="CaseUnreadable", error=text)
    return Reply(error.outcome, error_class=error.error_class, error=text)


def place_of(program: int, programs: int, case: int, when: str) -> str:
    """Where a session is, in words."""
    return f"case {case}{when}" if programs == 1 else f"program {program}, case {case}{when}"


def steadiest(time_once: Callable[[], Timed], most_drift: float | None) -> tuple[Timed, int]:
    """The steadiest of as many timings as it takes until the device is steady, and how many those were."""
    timings = [time_once()]
    while most_drift is not None and timings[-1].drift > most_drift and len(timings) < MOST_TIMINGS:
        timings.append(time_once())
    return min(timings, key=lambda timed: timed.drift), len(timings)


def observed(timed: Timed, timings: int, load_1min: float | None, frequency_hz: float | None) -> dict[str, float]:
    """What was seen around a timing, as far as it is known."""
    values = {
        "load_1min": load_1min,
        "frequency_hz": frequency_hz,
        "probe_before_s": timed.probe_before_s,
        "probe_after_s": timed.probe_after_s,
        "timings": float(timings),
        "interrupted": float(timed.void),
    }
    return {name: value for name, value in values.items() if value is not None}
