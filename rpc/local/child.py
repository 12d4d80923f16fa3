"""The process of one session, as the server sees it: forked, asked under a deadline, and gone at the end."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from int8tune.rpc.errors import DeviceLostError
from int8tune.rpc.process import processes
from int8tune.rpc.wire import framing

_END_LIMIT_S = 3.0
_LONGEST_TAIL = 300


class ChildEndedError(Exception):
    """The child ended, or closed its connection, before it answered; the text says how."""

    def __init__(self, how: str, *, was_killed: bool) -> None:
        """`was_killed`: by a SIGKILL that is not the server's."""
        super().__init__(how)
        self.was_killed = was_killed


class Child:
    """A forked process that leads a session of its own, and serves the other end of a socket.

    Its standard output goes nowhere, its standard error to memory; it holds no other descriptor of the server's.
    """

    def __init__(self, serve: Callable[[socket.socket], NoReturn], memory_limit_bytes: int) -> None:
        self._stderr = os.memfd_create("stderr")
        self._sock, theirs = socket.socketpair()
        self._status: int | None = None
        server = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            _live(serve, theirs, self._stderr, server, memory_limit_bytes)
        theirs.close()
        self._pidfd = os.pidfd_open(self._pid)

    def ask(self, command: Mapping[str, object], deadline: float, tuner: int) -> dict[str, object]:
        """Send a command and wait for its answer.

        Raises:
            ChildEndedError: it ended before it answered.
            ProtocolError: its answer is no message.
            TimeoutError: it did not answer before the deadline.
            DeviceLostError: the connection `tuner` was closed by the other side meanwhile.
        """
        ready: set[int] = set()
        with contextlib.suppress(DeviceLostError):
            framing.send(self._sock, command, deadline)
            ready = framing.wait_readable([self._sock.fileno(), self._pidfd, tuner], deadline)
            if not ready:
                raise TimeoutError
            if self._sock.fileno() in ready:
                return framing.receive(self._sock, deadline)
        if tuner in ready:
            raise DeviceLostError("the tuner closed the connection")
        raise self._end()

    def close(self) -> None:
        """Kill and reap the child and everything it started.

        Raises:
            LeftoverError: some of it could not be ended.
        """
        processes.kill(self._pid)
        self._reap(_END_LIMIT_S)
        processes.end_children(_END_LIMIT_S)
        self._sock.close()
        os.close(self._pidfd)
        os.close(self._stderr)

    def _reap(self, limit_s: float) -> None:
        if self._status is None and framing.wait_readable([self._pidfd], time.monotonic() + limit_s):
            _, self._status = os.waitpid(self._pid, os.WNOHANG)

    def _end(self) -> ChildEndedError:
        self._reap(limit_s=1.0)
        if self._status is None:
            return ChildEndedError("closed its connection before it answered", was_killed=False)
        code = os.waitstatus_to_exitcode(self._status)
        how = processes.how_it_ended(code) + (" before it answered" if code >= 0 else "")
        tail = processes.tail(self._stderr, _LONGEST_TAIL)
        return ChildEndedError(f"{how}: {tail}" if tail else how, was_killed=processes.was_killed(code))


def _live(
    serve: Callable[[socket.socket], NoReturn], sock: socket.socket, stderr: int, server: int, memory_limit_bytes: int
) -> NoReturn:
    """The child's whole life. It never returns into the server's code, whatever happens."""
    try:
        os.setsid()
        # TVM's own handler of a segmentation fault reads debug information first, which takes part of a run's limit.
        for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV):
            signal.signal(number, signal.SIG_DFL)
        processes.signal_when_parent_ends(signal.SIGKILL)
        if os.getppid() == server:
            _keep_only(sock.fileno(), stderr)
            processes.limit_resources(memory_limit_bytes)
            gc.disable()
            serve(sock)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(1)


def _keep_only(sock: int, stderr: int) -> None:
    """Close every descriptor but these two; `stderr` becomes standard error, input and output are the null device."""
    null = os.open(os.devnull, os.O_RDWR)
    for source, target in ((null, 0), (null, 1), (stderr, 2)):
        os.dup2(source, target)
    for descriptor in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if descriptor > 2 and descriptor != sock:
            with contextlib.suppress(OSError):  # the one that listed the folder
                os.close(descriptor)
