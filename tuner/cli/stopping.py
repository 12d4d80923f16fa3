"""Ctrl-C, SIGTERM and SIGHUP (the terminal is gone), which mean the same.

Until its command begins, a signal ends the program at once: nothing was begun. Then the first one is an exception,
which takes down what was started. Commands that record what they do enter a `StopRequest`, which asks them for a clean
end instead, once they look for it. The second signal ends the program at once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from int8tune.rpc.process.standard_streams import write_last_words

INTERRUPTED = 130
STOPPING = "stopping after the measurement under way, Ctrl-C again stops at once"

_HANGUP = (signal.SIGHUP,) if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else ()  # nohup has it ignored
_SIGNALS = (signal.SIGINT, signal.SIGTERM, *_HANGUP)
_INSIST_EVERY_S = 0.2
_INSIST_IF_LOST_S = 0.02
_SHOW_CURSOR = b"\r\x1b[?25h\n"
_Handler = Callable[[int, FrameType | None], Any] | int | None


class Interruption(BaseException):
    """Somebody wants the program to end. No `KeyboardInterrupt`, which the parser would end in silence."""


def end_at_signals() -> None:
    """From now on a signal ends the program: an exception could be lost in one of the imports."""
    _handle(_say_and_exit)


def interrupt_at_signals() -> None:
    """From now on a signal raises an `Interruption`, and the next one ends the program.

    One that comes in a destructor, or in a callback of compiled code, is an exception that nobody gets: it is raised
    again, until somebody does.
    """
    sys.unraisablehook = _insist_if_lost
    _handle(_interrupt)


def ignore_signals() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    _handle(signal.SIG_IGN)


def _handle(handler: _Handler) -> None:
    for number in _SIGNALS:
        signal.signal(number, handler)


def _say_and_exit(_number: int, _frame: FrameType | None) -> NoReturn:
    write_last_words(b"interrupted\n")
    os._exit(INTERRUPTED)


def _insist_if_lost(ignored: sys.UnraisableHookArgs) -> None:
    if not isinstance(ignored.exc_value, Interruption):
        sys.__unraisablehook__(ignored)
        return
    signal.signal(signal.SIGALRM, _interrupt_unless_ending)
    signal.setitimer(signal.ITIMER_REAL, _INSIST_IF_LOST_S, _INSIST_IF_LOST_S)


def _interrupt_unless_ending(_number: int, _frame: FrameType | None) -> None:
    if not _is_ending():
        raise Interruption


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    _handle(_exit)
    raise Interruption


def _exit(_number: int, _frame: FrameType | None) -> NoReturn:
    """Without any further step: the program's children die with it."""
    if os.isatty(2):
        write_last_words(_SHOW_CURSOR)
    os._exit(INTERRUPTED)


class StopRequest:
    """Whether somebody asked the program to stop, while it is entered.

    It is called by who can end cleanly. As long as nobody has called it, something is being prepared that has nothing
    to lose, and may take long: the first signal is an `Interruption` then, too.
    """

    def __init__(self) -> None:
        self.requested = False
        self._is_asked = False
        self._before: dict[signal.Signals, _Handler] = {}

    def __call__(self) -> bool:
        self._is_asked = True
        return self.requested

    def is_requested(self) -> bool:
        """The same for those who only look."""
        return self.requested

    def prepare(self) -> None:
        """Something is being prepared again: until the next call, the first signal is an `Interruption`.

        Raises:
            Interruption: there was a signal since the last call.
        """
        self._is_asked = False
        if self.requested:
            raise Interruption

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._receive) for number in _SIGNALS}
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._insist)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in self._before.items():
            is_alarm = number is signal.SIGALRM
            signal.signal(number, _exit if self.requested and not is_alarm else handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGHUP:
            return  # a terminal that is closed sends it twice, by the shell and by the kernel
        if self.requested:
            _exit(number, frame)
        self.requested = True
        if not self._is_asked:
            signal.setitimer(signal.ITIMER_REAL, _INSIST_EVERY_S, _INSIST_EVERY_S)
            raise Interruption

    def _insist(self, _number: int, _frame: FrameType | None) -> None:
        """An exception that comes at any moment can be lost, such as in compiled code that ignores all of them."""
        if not self._is_asked:
            _interrupt_unless_ending(_number, _frame)


def _is_ending() -> bool:
    """Whether an `Interruption` is taking down what was started."""
    error = sys.exc_info()[1]
    while error is not None:
        if isinstance(error, Interruption):
            return True
        error = error.__context__
    return False
