"""Processes that must not outlive their purpose, by the means of Linux: prctl(2), rlimits and /proc."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

from int8tune.rpc.errors import LeftoverError
from int8tune.rpc.process.limits import lower

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_MOST_FILE_BYTES = 1 << 20


def signal_when_parent_ends(number: signal.Signals) -> None:
    """Have the kernel send this signal when the parent's thread that forked this process ends."""
    _prctl(_PR_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """Become the parent of all descendants whose parents end, so that none of them gets out of sight."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def limit_resources(memory_bytes: int) -> None:
    """No core dumps, no large files, so much more address space than now, and first in line for the OOM killer."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    ceiling = pages * resource.getpagesize() + memory_bytes
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, _MOST_FILE_BYTES),
        (resource.RLIMIT_AS, ceiling),
    ):
        lower(limit, value)
    with contextlib.suppress(OSError):  # /proc is read-only in some containers
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def kill(pid: int) -> None:
    """Kill a process and the group it leads, if they still are."""
    for send in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            send(pid, signal.SIGKILL)


def reap(pid: int, limit_s: float) -> int | None:
    """The exit code of a child of this process, as `os.waitstatus_to_exitcode` gives it; None if it has not ended."""
    deadline = time.monotonic() + limit_s
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return None
        time.sleep(0.001)


def was_killed(code: int | None) -> bool:
    """Whether it was ended by SIGKILL, which Linux sends where memory runs out, from a code as `how_it_ended` takes."""
    return code == -signal.SIGKILL


def how_it_ended(code: int | None) -> str:
    """In words, from the exit code that `subprocess` and `os.waitstatus_to_exitcode` give; None if it still runs."""
    if code is None:
        return "it still runs"
    if code >= 0:
        return f"exited with status {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"


def tail(descriptor: int, longest: int) -> str:
    """The end of what a process wrote to a file, at most so many bytes, as text."""
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, longest, max(0, size - longest)).decode(errors="replace").strip()


def end_children(limit_s: float) -> None:
    """Kill and reap every child of this process, and those that come up as orphans while it does.

    Raises:
        LeftoverError: some were still there after `limit_s`.
    """
    _repeat_until_none(lambda: _children() if _has_children() else [], limit_s)


def end_marked(mark: str, limit_s: float) -> None:
    """Kill every process that was started with `mark`, a `NAME=value`, in its environment.

    Raises:
        LeftoverError: some were still there after `limit_s`.
    """
    needle = mark.encode()
    _repeat_until_none(lambda: [pid for pid in _pids() if needle in _read(pid, "environ").split(b"\0")], limit_s)


def _repeat_until_none(find: Callable[[], list[int]], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while pids := find():
        if time.monotonic() > deadline:
            raise LeftoverError(f"processes could not be ended within {limit_s:g} s: {pids}")
        for pid in pids:
            kill(pid)
        time.sleep(0.001)


def _has_children() -> bool:
    """Reap the children that have ended; whether any are left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True


def _children() -> list[int]:
    me = os.getpid()
    # proc(5): the parent is the second field after the command's name, which ends with the last bracket.
    return [pid for pid in _pids() if (rest := _read(pid, "stat").rpartition(b")")[2].split()) and int(rest[1]) == me]


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _read(pid: int, name: str) -> bytes:
    """A file of a process; empty when it has ended or belongs to someone else."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def started_ticks(pid: int) -> int:
    """When a process was started, in clock ticks since the machine was; 0 if there is none, or it has ended."""
    # proc(5): the state, and the nineteenth field after it; they follow the command's name.
    rest = _read(pid, "stat").rpartition(b")")[2].split()
    return int(rest[19]) if len(rest) > 19 and rest[0] not in b"ZX" else 0


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")
