"""How far a compilation is, for those who wait for it."""

from __future__ import annotations

from collections.abc import Callable

# Takes what is being done, how much of it is done, and how much there is of it.
Report = Callable[[str, int, int], None]


def prefixed(report: Report, about: str) -> Report:
    """A report that says what it is about before what is being done."""
    return lambda doing, done, total: report(f"{about}: {doing}", done, total)


def ignore(_doing: str, _done: int, _total: int) -> None:
    """The report of someone who does not wait."""
