"""A build's process as the server sees it: forked, stopped while its core measures, killed at its limit."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

from results.record import Outcome
from rpc import framing, processes
from tuner.build.job import RESULT_FILE, Built, Job, built_from_json

ARM_LIMIT_S = 3.0
END_LIMIT_S = 3.0
LOG_FILE = "build.log"
LONGEST_TAIL = 300
MOST_MEMORY_BYTES = 16 << 30


class Child:
    """A forked process that does one job and leads a process group of its own, with the linker that it starts."""

    def __init__(self, job: Job, build: Callable[[Job], None], cores: Iterable[int], sock: socket.socket) -> None:
        self.job = job
        self._started = time.monotonic()
        self._stopped_at: float | None = None
        self._stopped_s = 0.0
        server = os.getpid()
        waiting, armed = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _live(job, build, set(cores), sock, server, armed)
        os.close(armed)
        self.pidfd = os.pidfd_open(self._pid)
        # Before it is armed it could be stopped and outlive the server. It closes the pipe when it is, or ends.
        framing.wait_readable([waiting], time.monotonic() + ARM_LIMIT_S)
        os.close(waiting)

    @property
    def deadline(self) -> float:
        """When its limit is over, by `time.monotonic`; time in which it was stopped does not count."""
        if self._stopped_at is not None:
            return float("inf")
        return self._started + self._stopped_s + self.job.limit_s

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

    def end(self) -> Built:
        """Kill what is left of its group, reap it and say how the job ended."""
        timed_out = not framing.wait_readable([self.pidfd], time.monotonic())
        processes.kill(self._pid)
        framing.wait_readable([self.pidfd], time.monotonic() + END_LIMIT_S)
        _, status = os.waitpid(self._pid, os.WNOHANG)
        os.close(self.pidfd)
        took_s = time.monotonic() - self._started - self._stopped_s
        if timed_out:
            text = f"the build was killed after {self.job.limit_s:g} s"
            return Built(self.job.id, Outcome.BUILD_TIMEOUT, error_class="Timeout", error=text, build_s=took_s)
        folder = Path(self.job.folder)
        if status == 0 and (folder / RESULT_FILE).exists():
            built = built_from_json(json.loads((folder / RESULT_FILE).read_text(encoding="utf-8")))
            return dataclasses.replace(built, build_s=took_s)
        how = processes.how_it_ended(os.waitstatus_to_exitcode(status))
        text = " ".join([f"the compiler's process {how}", _tail(folder / LOG_FILE)]).strip()
        return Built(self.job.id, Outcome.BUILD_FAILED, error_class="Crash", error=text, build_s=took_s)

    def _signal(self, number: signal.Signals) -> None:
        """To the group, and to the process itself, which may not lead a group yet."""
        for send in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError):
                send(self._pid, number)


def _live(
    job: Job, build: Callable[[Job], None], cores: set[int], sock: socket.socket, server: int, armed: int
) -> NoReturn:
    """The child's whole life. It never returns into the server's code, whatever happens."""
    status = 1
    try:
        os.setsid()
        processes.signal_when_parent_ends(signal.SIGKILL)
        if os.getppid() == server:
            os.close(armed)
            sock.close()
            os.sched_setaffinity(0, cores)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
            gc.disable()
            folder = Path(job.folder)
            folder.mkdir(parents=True, exist_ok=True)
            log = os.open(folder / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for descriptor in (1, 2):
                os.dup2(log, descriptor)
            build(job)
            status = 0
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(status)


def _tail(log: Path) -> str:
    """The last line of a log."""
    if not log.exists():
        return ""
    lines = log.read_bytes()[-4096:].decode(errors="replace").strip().splitlines()
    return lines[-1][:LONGEST_TAIL] if lines else ""
