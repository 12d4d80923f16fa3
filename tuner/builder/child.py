"""A builder's process as the server sees it: forked, stopped while its core measures, killed at a job's limit."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import math
import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

from int8tune.results.bounded_json import read_json
from int8tune.results.record import Outcome
from int8tune.rpc.errors import DeviceLostError, ProtocolError
from int8tune.rpc.process import processes
from int8tune.rpc.process.limits import lower
from int8tune.rpc.request import KILLED
from int8tune.rpc.wire import framing
from int8tune.tuner.builder.job import RESULT_FILE, Built, Job, built_from_json, job_from_json, job_to_json

ARM_LIMIT_S = 3.0
END_LIMIT_S = 3.0
SEND_LIMIT_S = 10.0
# A child waits for its next job; it ends with its server.
IDLE_LIMIT_S = 1e9
# Jobs after which another child takes its place: what they leak goes with it.
MOST_JOBS = 32
LOG_FILE = "build.log"
LONGEST_TAIL = 300
MOST_MEMORY_BYTES = 16 << 30


class Child:
    """A forked process that does one job after the other, and leads a process group of its own, with its linkers.

    What a job leaves behind in it is kept small: a child whose job failed, or that has done `MOST_JOBS`, is `worn`.
    """

    def __init__(self, build: Callable[[Job], None], cores: Iterable[int], sock: socket.socket) -> None:
        """`sock`: the server's connection to the tuner, which the child closes."""
        self.job: Job | None = None
        self._jobs = 0
        self._failed = False
        self._started = 0.0
        self._stopped_at: float | None = None
        self._stopped_s = 0.0
        self._sock, theirs = socket.socketpair()
        server = os.getpid()
        waiting, armed = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._sock.close()
            _live(build, set(cores), theirs, sock, server, armed)
        theirs.close()
        os.close(armed)
        self._pidfd = os.pidfd_open(self._pid)
        # Before it is armed it could be stopped and outlive the server. It closes the pipe when it is, or ends.
        framing.wait_readable([waiting], time.monotonic() + ARM_LIMIT_S)
        os.close(waiting)

    def start(self, job: Job) -> None:
        """Give it a job; it must have none."""
        self.job = job
        self._jobs += 1
        self._started, self._stopped_s = time.monotonic(), 0.0
        # A child that has ended is found out when it is waited for.
        with contextlib.suppress(DeviceLostError, TimeoutError):
            framing.send(self._sock, {"job": job_to_json(job)}, self._started + SEND_LIMIT_S)

    @property
    def descriptors(self) -> tuple[int, int]:
        """Readable when its job is done, or when it has ended."""
        return self._sock.fileno(), self._pidfd

    @property
    def deadline(self) -> float:
        """When its job's limit is over, by `time.monotonic`; time in which it was stopped does not count."""
        if self.job is None or self._stopped_at is not None:
            return math.inf
        return self._started + self._stopped_s + self.job.limit_s

    @property
    def worn(self) -> bool:
        """Whether it must not get another job."""
        return self._failed or self._jobs >= MOST_JOBS

    def stop(self) -> None:
        """Stop it where it is, until `go_on`."""
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
            self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        if self._stopped_at is not None:
            self._stopped_s += time.monotonic() - self._stopped_at
            self._stopped_at = None
            self._signal(signal.SIGCONT)

    def finish(self) -> Built:
        """How its job ended: done, or killed at its limit, or with its process."""
        assert self.job is not None
        is_late = self.deadline <= time.monotonic()
        job, self.job = self.job, None
        done = self._says_done()
        took_s = time.monotonic() - self._started - self._stopped_s
        result = Path(job.folder) / RESULT_FILE
        if done and result.exists():
            built = built_from_json(read_json(result))
            self._failed = built.outcome is not Outcome.OK
            return dataclasses.replace(built, build_s=took_s)
        self._failed = True
        # Its connection closes a moment before it has ended.
        ended = framing.wait_readable([self._pidfd], time.monotonic() + (0.0 if is_late else END_LIMIT_S))
        status = self.close()
        if is_late and not ended:
            text = f"the build was killed after {job.limit_s:g} s"
            return Built(job.id, Outcome.BUILD_TIMEOUT, error_class="Timeout", error=text, build_s=took_s)
        code = os.waitstatus_to_exitcode(status)
        # It is gone of itself, or close() had to kill what had only closed its connection.
        error_class = KILLED if ended and processes.was_killed(code) else "Crash"
        how = processes.how_it_ended(code)
        text = " ".join([f"the compiler's process {how}", _tail(Path(job.folder) / LOG_FILE)]).strip()
        return Built(job.id, Outcome.BUILD_FAILED, error_class=error_class, error=text, build_s=took_s)

    def close(self) -> int:
        """Kill what is left of its group, and reap it; its exit status. Closing twice is allowed."""
        if self._pidfd < 0:
            return 0
        processes.kill(self._pid)
        framing.wait_readable([self._pidfd], time.monotonic() + END_LIMIT_S)
        _, status = os.waitpid(self._pid, os.WNOHANG)
        os.close(self._pidfd)
        self._sock.close()
        self._pidfd = -1
        return status

    def _says_done(self) -> bool:
        if not framing.wait_readable([self._sock.fileno()], time.monotonic()):
            return False
        try:
            return "done" in framing.receive(self._sock, time.monotonic() + SEND_LIMIT_S)
        except (DeviceLostError, ProtocolError, TimeoutError):
            return False

    def _signal(self, number: signal.Signals) -> None:
        """Not to its group: a linker that is stopped before it is armed would outlive the server."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, number)


def _live(
    build: Callable[[Job], None], cores: set[int], sock: socket.socket, tuner: socket.socket, server: int, armed: int
) -> NoReturn:
    """The child's whole life. It never returns into the server's code, whatever happens."""
    try:
        os.setsid()
        processes.signal_when_parent_ends(signal.SIGKILL)
        if os.getppid() == server:
            os.close(armed)
            tuner.close()
            os.sched_setaffinity(0, cores)
            lower(resource.RLIMIT_CORE, 0)
            lower(resource.RLIMIT_AS, MOST_MEMORY_BYTES)
            gc.disable()
            while True:
                message = framing.receive(sock, time.monotonic() + IDLE_LIMIT_S)
                _do(build, job_from_json(message["job"]))  # type: ignore[arg-type]
                framing.send(sock, {"done": True}, time.monotonic() + SEND_LIMIT_S)
                gc.collect()
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(1)


def _do(build: Callable[[Job], None], job: Job) -> None:
    """Do a job, with a log of its own."""
    folder = Path(job.folder)
    folder.mkdir(parents=True, exist_ok=True)
    log = os.open(folder / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
    build(job)


def _tail(log: Path) -> str:
    """The last line of a log."""
    if not log.exists():
        return ""
    lines = log.read_bytes()[-4096:].decode(errors="replace").strip().splitlines()
    return lines[-1][:LONGEST_TAIL] if lines else ""
