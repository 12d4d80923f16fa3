"""Ctrl-C, or a notebook's stop button, while something runs that can end cleanly."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self


class Interrupts:
    """Whether somebody asked for a stop, while it is entered.

    The first SIGINT asks for a clean end once what runs looks for it, and is a `KeyboardInterrupt` before that, when
    nothing can be lost yet. The second is a `KeyboardInterrupt` in any case. Where SIGINT has another meaning than
    Python's own, or in other threads than the main one, it keeps that: then `stop` alone asks.
    """

    def __init__(self, stop: Callable[[], bool] | None = None) -> None:
        self._stop = stop
        self._is_asked = self._requested = self._is_ours = False

    def __call__(self) -> bool:
        self._is_asked = True
        return self._requested or (self._stop is not None and self._stop())

    def prepare(self) -> None:
        """Something begins whose preparation nobody needs to end cleanly.

        Raises:
            KeyboardInterrupt: there was a SIGINT since the last call.
        """
        self._is_asked = False
        if self._requested:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        in_main = threading.current_thread() is threading.main_thread()
        self._is_ours = in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._is_ours:
            signal.signal(signal.SIGINT, self._receive)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _receive(self, _number: int, _frame: FrameType | None) -> None:
        if self._requested or not self._is_asked:
            raise KeyboardInterrupt
        self._requested = True
