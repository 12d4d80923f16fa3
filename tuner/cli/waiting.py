"""What is done meanwhile, for who waits: a line that changes on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from int8tune.compiler.report import Report
from int8tune.tuner.cli.live import GAP, PLAIN_EVERY_S, clock
from int8tune.tuner.cli.output import safe, say


class _Waiting:
    """What is being done, how far it is, and for how long it has been waited for."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._started = time.monotonic()

    def report(self, doing: str, done: int, total: int) -> None:
        self._doing = f"{doing} {done:,}/{total:,}" if total > 1 else doing

    @property
    def line(self) -> str:
        return GAP.join((self._doing, clock(time.monotonic() - self._started)))

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        yield Text(safe(self.line), no_wrap=True, overflow="crop")


@contextmanager
def waiting(doing: str) -> Iterator[Report]:
    """Show on stderr what the report says until the end."""
    console = Console(stderr=True, highlight=False)
    shown = _Waiting(doing)
    if not console.is_terminal or console.is_dumb_terminal:
        yield _sparse(shown)
        return
    # Without a thread of its own: what is waited for may fork.
    with Live(
        shown, console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as live:

        def report(doing: str, done: int, total: int) -> None:
            shown.report(doing, done, total)
            live.refresh()

        yield report


def _sparse(shown: _Waiting) -> Report:
    """A report that says a line every `PLAIN_EVERY_S`."""
    next_s = time.monotonic() + PLAIN_EVERY_S

    def report(doing: str, done: int, total: int) -> None:
        nonlocal next_s
        shown.report(doing, done, total)
        if time.monotonic() >= next_s:
            next_s = time.monotonic() + PLAIN_EVERY_S
            say(shown.line)

    return report
