"""The resident process that builds: `python -m int8tune.tuner.builder.server`, started by a pool.

It imports TVM once and forks children for the jobs, one for each core: an aborting or hanging compiler costs its job
alone, and memory that a compiler leaks goes with its child some jobs later. It speaks over an inherited socket.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import math
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Callable

from int8tune.rpc.errors import DeviceLostError
from int8tune.rpc.process import processes
from int8tune.rpc.wire import framing
from int8tune.tuner.builder.child import Child
from int8tune.tuner.builder.job import Built, Job, built_to_json, job_from_json

IDLE_CHECK_S = 60.0
SEND_LIMIT_S = 10.0
END_LIMIT_S = 3.0


class BuildWorkers:
    """The children of a server: one for each building core, and a guest on the core that measures.

    While builds are paused there, the guest is stopped and gets no job.
    """

    def __init__(self, build: Callable[[Job], None], sock: socket.socket, cores: list[int], guest: int | None) -> None:
        self._build = build
        self._sock = sock
        self._cores = cores
        self._guest_core = guest
        self._queue: deque[Job] = deque()
        self._builders: list[Child] = []
        self._guest: Child | None = None
        self._is_paused = False

    @property
    def children(self) -> list[Child]:
        return [*self._builders, *filter(None, [self._guest])]

    def add(self, job: Job) -> None:
        self._queue.append(job)
        self._start()

    def pause_guest(self, wanted: bool) -> None:
        self._is_paused = wanted
        if self._guest:
            (self._guest.stop if wanted else self._guest.go_on)()
        self._start()

    def finished(self, ready: set[int]) -> list[Built]:
        """What the children have done that are ready or late; they get other jobs, or others take their places."""
        now, built = time.monotonic(), []
        for child in self.children:
            if child.deadline <= now or ready & set(child.descriptors):
                if child.job is not None:
                    built.append(child.finish())
                    if not child.worn:
                        continue
                child.close()
                self._builders = [other for other in self._builders if other is not child]
                self._guest = None if self._guest is child else self._guest
        self._start()
        return built

    def _start(self) -> None:
        idle = [child for child in self._builders if child.job is None]
        while self._queue and (idle or len(self._builders) < len(self._cores)):
            if not idle:
                self._builders.append(Child(self._build, self._cores, self._sock))
                idle.append(self._builders[-1])
            idle.pop().start(self._queue.popleft())
        if self._queue and self._guest_core is not None and not self._is_paused:
            if self._guest is None:
                self._guest = Child(self._build, [self._guest_core], self._sock)
            if self._guest.job is None:
                self._guest.start(self._queue.popleft())


def main() -> None:
    parser = argparse.ArgumentParser(description="Build kernels for the process that started this one.")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True, help="the process that started this one")
    parser.add_argument("--core", type=int, action="append", default=[], help="a core that builds")
    parser.add_argument("--guest", type=int, help="the core that measures, where builds are stopped meanwhile")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes.signal_when_parent_ends(signal.SIGKILL)
    if os.getppid() != options.parent:
        return
    processes.adopt_orphans()
    if options.core:
        os.sched_setaffinity(0, options.core)
    sock = socket.socket(fileno=options.fd)
    try:
        with contextlib.suppress(DeviceLostError):
            _serve(sock, options.core, options.guest)
    finally:
        processes.end_children(END_LIMIT_S)


def _serve(sock: socket.socket, cores: list[int], guest: int | None) -> None:
    """Obey `{"job": ...}` and `{"pause_guest": true or false}`, which is acknowledged; send `{"built": ...}`."""
    gc.disable()  # while much is loaded that stays
    from int8tune.tuner.builder.compile import build

    _send(sock, {"ready": True})
    gc.enable()
    gc.collect()
    gc.freeze()
    workers = BuildWorkers(build, sock, cores, guest)
    while True:
        watched = [descriptor for child in workers.children for descriptor in child.descriptors]
        ready = framing.wait_readable([sock.fileno(), *watched], _wake(workers))
        if sock.fileno() in ready:
            message = framing.receive(sock, time.monotonic() + SEND_LIMIT_S)
            if "pause_guest" in message:
                workers.pause_guest(bool(message["pause_guest"]))
                _send(sock, {"paused": message["pause_guest"]})
            else:
                workers.add(job_from_json(message["job"]))  # type: ignore[arg-type]
        for built in workers.finished(ready):
            _send(sock, {"built": built_to_json(built)})


def _wake(workers: BuildWorkers) -> float:
    """When to look at the children at the latest."""
    deadline = min([child.deadline for child in workers.children], default=math.inf)
    return min(deadline, time.monotonic() + IDLE_CHECK_S)


def _send(sock: socket.socket, message: dict[str, object]) -> None:
    framing.send(sock, message, time.monotonic() + SEND_LIMIT_S)


if __name__ == "__main__":
    main()
