"""What changes by itself on a whole terminal, until somebody ends it with Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from int8tune.tuner.cli.output import emit

EVERY_S = 2.0
# Looking is to take no more of a core than this share, however much there is to read.
_SHARE = 0.25
_REDRAW_EVERY_S = 0.5
_PLAIN = str.maketrans({"\u2501": "#", "\u2500": "-"})

Seen = TypeVar("Seen")


def terminal() -> Console | None:
    """Stdout, where it is a terminal that can be drawn on."""
    console = Console(highlight=False)
    return console if console.is_terminal and not console.is_dumb_terminal else None


def show_until_interrupted(
    console: Console, look: Callable[[], Seen], draw: Callable[[Seen, int, int], list[str]]
) -> None:
    """Draw what is seen now, over and over; what was seen last stays on the terminal.

    Args:
        draw: lines of so many columns at most, as many as there are rows at most.

    Raises:
        Interruption: by a signal, which is how this ends.
    """
    drawing = _Drawing(look(), draw)
    try:
        # Without a thread of its own: what goes wrong while it is drawn ends the program.
        with Live(drawing, console=console, screen=True, auto_refresh=False, redirect_stderr=False) as live:
            for drawing.seen in again_and_again(look, live.refresh):
                live.refresh()
    finally:
        show(drawing.draw(drawing.seen, console.width, console.height))


def again_and_again(look: Callable[[], Seen], meanwhile: Callable[[], None] = lambda: None) -> Iterator[Seen]:
    """What is seen, every two seconds, or less often where looking takes long."""
    while True:
        began = time.monotonic()
        yield look()
        again_at = time.monotonic() + max(EVERY_S, (time.monotonic() - began) / _SHARE)
        while time.monotonic() < again_at:
            meanwhile()
            time.sleep(_REDRAW_EVERY_S)


def show(lines: Sequence[str]) -> None:
    """Write lines to stdout; bars of characters that it has none of are drawn of others."""
    emit(_drawable("\n".join(lines), sys.stdout.encoding))


def _drawable(text: str, encoding: str | None) -> str:
    return text if "utf" in (encoding or "").lower() else text.translate(_PLAIN)


class _Drawing(Generic[Seen]):
    """The lines as they are at the moment they are drawn."""

    def __init__(self, seen: Seen, draw: Callable[[Seen, int, int], list[str]]) -> None:
        self.seen = seen
        self.draw = draw

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = self.draw(self.seen, options.max_width, console.height)
        text = _drawable("\n".join(lines[: console.height]), console.encoding)
        yield Text(text, no_wrap=True, overflow="crop")
