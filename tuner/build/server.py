"""The resident process that builds: `python -m tuner.build.server`, started by a pool.

It imports TVM once and forks a child per job, so that an aborting or hanging compiler costs that job alone, and memory
that a compiler leaks goes with its child. It speaks over an inherited socket.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from results.record import Outcome
from rpc import framing, processes
from rpc.errors import DeviceLostError
from tuner.build.job import Built, Job, built_from_json, built_to_json, job_from_json

IDLE_CHECK_S = 60.0
SEND_LIMIT_S = 10.0
END_LIMIT_S = 3.0
LOG_FILE = "build.log"
LONGEST_TAIL = 300
MOST_MEMORY_BYTES = 16 << 30


@dataclass(frozen=True, slots=True)
class Running:
    """A child and its job."""

    job: Job
    pid: int
    pidfd: int
    started: float

    @property
    def deadline(self) -> float:
        return self.started + self.job.limit_s


def main() -> None:
    parser = argparse.ArgumentParser(description="Build kernels for the process that started this one.")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--cores", required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes.signal_when_parent_ends(signal.SIGKILL)
    processes.adopt_orphans()
    if options.cores:
        os.sched_setaffinity(0, {int(core) for core in options.cores.split(",")})
    sock = socket.socket(fileno=options.fd)
    try:
        with contextlib.suppress(DeviceLostError):
            _serve(sock)
    finally:
        processes.end_children(END_LIMIT_S)


def _serve(sock: socket.socket) -> None:
    """Start a child for each job that comes in and report each that ends, until the pool closes the connection."""
    from tuner.build.compile import build

    framing.send(sock, {"ready": True}, time.monotonic() + SEND_LIMIT_S)
    gc.collect()
    gc.freeze()
    children: dict[int, Running] = {}
    while True:
        wake = min([child.deadline for child in children.values()], default=time.monotonic() + IDLE_CHECK_S)
        ready = framing.wait_readable([sock.fileno(), *children], wake)
        if sock.fileno() in ready:
            message = framing.receive(sock, time.monotonic() + SEND_LIMIT_S)
            child = _fork(job_from_json(message), build, sock)
            children[child.pidfd] = child
        now = time.monotonic()
        for child in [child for child in children.values() if child.pidfd in ready or child.deadline <= now]:
            del children[child.pidfd]
            framing.send(sock, built_to_json(_end(child)), time.monotonic() + SEND_LIMIT_S)


def _fork(job: Job, build: Callable[[Job], None], sock: socket.socket) -> Running:
    server = os.getpid()
    pid = os.fork()
    if pid == 0:
        _live(job, build, sock, server)
    return Running(job, pid, os.pidfd_open(pid), time.monotonic())


def _live(job: Job, build: Callable[[Job], None], sock: socket.socket, server: int) -> NoReturn:
    """The child's whole life. It never returns into the server's code, whatever happens."""
    status = 1
    try:
        os.setsid()
        processes.signal_when_parent_ends(signal.SIGKILL)
        if os.getppid() == server:
            sock.close()
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
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


def _end(child: Running) -> Built:
    """Kill what is left of the child's group, reap it and say how the job ended."""
    timed_out = not framing.wait_readable([child.pidfd], time.monotonic())
    processes.kill(child.pid)
    framing.wait_readable([child.pidfd], time.monotonic() + END_LIMIT_S)
    _, status = os.waitpid(child.pid, 0 if not timed_out else os.WNOHANG)
    os.close(child.pidfd)
    took_s = time.monotonic() - child.started
    if timed_out:
        text = f"the build was killed after {child.job.limit_s:g} s"
        return Built(child.job.id, Outcome.BUILD_TIMEOUT, error_class="Timeout", error=text, build_s=took_s)
    result = Path(child.job.folder) / "result.json"
    if status == 0 and result.exists():
        return built_from_json(json.loads(result.read_text(encoding="utf-8")))
    how = processes.how_it_ended(os.waitstatus_to_exitcode(status))
    text = " ".join([f"the compiler's process {how}", _tail(Path(child.job.folder) / LOG_FILE)]).strip()
    return Built(child.job.id, Outcome.BUILD_FAILED, error_class="Crash", error=text, build_s=took_s)


def _tail(log: Path) -> str:
    """The last line of a log."""
    if not log.exists():
        return ""
    lines = log.read_bytes()[-4096:].decode(errors="replace").strip().splitlines()
    return lines[-1][:LONGEST_TAIL] if lines else ""


if __name__ == "__main__":
    main()
