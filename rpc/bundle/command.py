"""What `python3 BUNDLE` does on a device: the program in which a bundle is run where nothing else is."""

from __future__ import annotations

import argparse
import errno
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn, TypeVar

from int8tune.results.text import printable
from int8tune.rpc.bundle.archive import open_bundle
from int8tune.rpc.bundle.hints import DONE, HINTS, INTERRUPTED, NO_DEVICE
from int8tune.rpc.bundle.runner import Settings, Summary, run_bundle
from int8tune.rpc.errors import RpcError
from int8tune.rpc.farm.driver import RULES
from int8tune.rpc.inventory.boards import CANARY_TOLERANCES
from int8tune.rpc.process.standard_streams import make_usable

Value = TypeVar("Value")


def main(bundle: Path, arguments: Sequence[str]) -> int:
    """Run the bundle; the exit code."""
    make_usable()
    settings = _settings(bundle, arguments)
    _handle_signals(_interrupt)
    try:
        return run(bundle, settings)
    except KeyboardInterrupt:
        say("interrupted; to go on, run the same command again")
        return INTERRUPTED
    except (RpcError, OSError) as error:
        code, hint = next(HINTS[kind] for kind in type(error).__mro__ if kind in HINTS)
        say(f"error: {_words(error)}")
        say(f"hint: {hint}")
        return code


def run(path: Path, settings: Settings) -> int:
    """Run a bundle and say what comes of it; the exit code.

    Raises:
        RpcError, OSError: as `rpc.bundle.runner.run_bundle` and `rpc.bundle.archive.open_bundle` do.
    """
    bundle = open_bundle(path)
    campaign, count = bundle.manifest.campaign, len(bundle.manifest.items)
    say(f"bundle {bundle.id[:16]} of campaign {campaign}, {count:,} to measure, {bundle.manifest.target}")
    summary = run_bundle(bundle, settings, say)
    _say_end(summary)
    return NO_DEVICE if summary.failed else DONE


def say(text: str) -> None:
    """Write a line for a person to stderr."""
    sys.stderr.write(printable(text) + "\n")
    sys.stderr.flush()


def _say_end(summary: Summary) -> None:
    if summary.failed:
        say(f"{summary.failed:,} of {summary.items:,} could not be measured, the last: {summary.cause}")
        say("to measure them, run the same command again")
    elif summary.before == summary.items:
        say(f"nothing is left to do, {summary.items:,} are measured")
    else:
        say(f"measured {summary.items:,} of {summary.items:,}")
    say(f"results  {summary.results}")
    say(f"bring them home: int8tune bundle merge {shlex.quote(summary.results.name)}")


def cores(text: str) -> tuple[int, ...]:
    """Cores as `2,3`.

    Raises:
        ValueError: it is no such list, or this process may not use them.
    """
    found = tuple(int(part) for part in text.split(",") if part.isascii() and part.isdigit())
    if not found or len(found) != text.count(",") + 1 or not set(found) <= os.sched_getaffinity(0):
        allowed = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
        raise ValueError(f"--cores must be some of {allowed}: {text[:60]}")
    return found


def tolerance(text: str) -> float:
    """A canary's tolerance as a share.

    Raises:
        ValueError: it is none.
    """
    low, high = CANARY_TOLERANCES
    with suppress(ValueError):
        if low <= (share := float(text)) <= high:
            return share
    raise ValueError(f"--canary-tolerance must be a share from {low:g} to {high:g}: {text[:60]}")


def _settings(bundle: Path, arguments: Sequence[str]) -> Settings:
    parser = argparse.ArgumentParser(
        prog=f"python3 {bundle.name}",
        description="Verify and measure what this bundle holds. Killed in the middle, it goes on when it is started "
        "again. Results are written as they come.",
    )
    parser.add_argument("--folder", type=Path, default=bundle.parent, help="where results go; beside the bundle")
    parser.add_argument(
        "--cores", type=_told(cores), default=(), metavar="2,3", help="those that kernels run on; the last"
    )
    parser.add_argument(
        "--canary-tolerance",
        type=_told(tolerance),
        default=RULES.canary_tolerance,
        metavar="0.2",
        help="by which share the canary may be slower than it was before times are not believed",
    )
    parser.add_argument("--emulator", type=shlex.split, default=(), metavar="COMMAND", help=argparse.SUPPRESS)
    parsed = parser.parse_args(list(arguments))
    return Settings(parsed.folder, parsed.cores, parsed.canary_tolerance, tuple(parsed.emulator))


def _told(read: Callable[[str], Value]) -> Callable[[str], Value]:
    """Reads an argument, and its errors are said as they are."""

    def reading(text: str) -> Value:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return reading


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"no space is left: {error.filename or ''}".removesuffix(": ")
    if isinstance(error, OSError):
        return ": ".join(filter(None, [(error.strerror or str(error)).lower(), str(error.filename or "")]))
    return " ".join(str(error).split()) or type(error).__name__


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """The first signal ends what was started; the second one ends the program at once."""
    _handle_signals(lambda *_: os._exit(INTERRUPTED))
    raise KeyboardInterrupt


def _handle_signals(handler: Callable[[int, FrameType | None], object]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup has it ignored
            signal.signal(number, handler)
