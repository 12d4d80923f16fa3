"""Ctrl-C and SIGTERM.

Commands that record what they do enter a `StopRequest`: the first signal asks for a clean end, the second ends the
program at once. Ctrl-C ends all others by an exception.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from tuner.cli.failures import INTERRUPTED

STOPPING = "stopping after the measurement under way, Ctrl-C again stops at once"

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = b"\r\x1b[?25h\n"
_Handler = Callable[[int, FrameType | None], Any] | int | None


class Interruption(BaseException):
    """Ctrl-C, in a command that has no `StopRequest`. No `KeyboardInterrupt`, which the parser would end in silence."""


def interrupt_on_ctrl_c() -> None:
    """From now on SIGINT raises an `Interruption`."""
    signal.signal(signal.SIGINT, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Interruption


class StopRequest:
    """Whether somebody asked the program to stop, while it is entered.

    The second time the program ends without any further step of its own: its children die with it.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[signal.Signals, _Handler] = {}

    def __call__(self) -> bool:
        return self.requested

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._receive) for number in _SIGNALS}
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, _number: int, _frame: FrameType | None) -> None:
        if not self.requested:
            self.requested = True
            return
        if os.isatty(2):
            os.write(2, _SHOW_CURSOR)
        os._exit(INTERRUPTED)
