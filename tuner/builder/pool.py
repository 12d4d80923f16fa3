"""The pool of builds: jobs in, results out."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import int8tune
from int8tune.results.record import Outcome
from int8tune.rpc.errors import DeviceLostError, ProtocolError
from int8tune.rpc.process import processes
from int8tune.rpc.request import KILLED
from int8tune.rpc.wire import framing
from int8tune.tuner.builder.job import Built, Job, built_from_json, job_to_json
from int8tune.tuner.errors import BuildPoolError

START_LIMIT_S = 60.0
SEND_LIMIT_S = 10.0
END_LIMIT_S = 3.0
MOST_ATTEMPTS = 2


class BuildPool:
    """Builds as many jobs at once as it has cores. Not thread-safe.

    The server process is restarted when it is lost; its jobs are tried once more, then they have failed. So is a job
    whose own process was killed from outside, as Linux does where memory runs out.

    Attributes:
        cores: those that build.
        guest: the core that measures; it builds, too, but not while the pool is paused.
        log: file that takes what the server prints.
        server: the module that is run as the server.
    """

    def __init__(
        self, cores: Sequence[int], guest: int, log: Path, server: str = "int8tune.tuner.builder.server"
    ) -> None:
        self._cores = tuple(cores)
        self._guest = guest
        self._log = log
        self._server = server
        self._is_paused = False
        self._jobs: dict[str, tuple[Job, int]] = {}
        self._done: list[Built] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._sock: socket.socket | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def width(self) -> int:
        """Jobs that run at once."""
        return len(self._cores) + 1

    @property
    def pending(self) -> int:
        """Jobs that were submitted and not collected."""
        return len(self._jobs) + len(self._done)

    def submit(self, job: Job) -> None:
        """Start a job; callers keep `pending` at or a little above `width`."""
        self._jobs[job.id] = (job, 1)
        self._send({"job": job_to_json(job)})

    def collect(self, limit_s: float, wake: int | None = None) -> list[Built]:
        """The jobs that have ended, after waiting for at most `limit_s` for one, or until `wake` can be read."""
        deadline = time.monotonic() + (0.0 if self._done else limit_s)
        watched = [] if wake is None else [wake]
        if self._sock and (self._jobs or watched):
            framing.wait_readable([self._sock.fileno(), *watched], deadline)
        while self._sock and framing.wait_readable([self._sock.fileno()], 0.0):
            self._receive()
        done, self._done = self._done, []
        return done

    def pause_guest(self, wanted: bool) -> None:
        """Keep builds off the measuring core from now on, or no longer. It is so when this returns."""
        if self._sock is None or wanted == self._is_paused:
            return
        self._is_paused = wanted
        self._send({"pause_guest": wanted})
        deadline = time.monotonic() + SEND_LIMIT_S
        while "paused" not in self._receive() and time.monotonic() < deadline:
            pass

    def close(self) -> None:
        """End the server and its children. Closing twice is allowed."""
        if self._sock:
            self._sock.close()
        if self._process:
            try:
                self._process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                processes.kill(self._process.pid)
                self._process.wait(END_LIMIT_S)
        self._sock, self._process = None, None

    def _send(self, message: Mapping[str, object]) -> None:
        if self._sock is None:
            self._start()
        assert self._sock is not None
        try:
            framing.send(self._sock, message, time.monotonic() + SEND_LIMIT_S)
        except (DeviceLostError, TimeoutError):
            self._restart()

    def _receive(self) -> Mapping[str, object]:
        """Read one message and keep the job that it reports; a server that is lost is started again."""
        assert self._sock is not None
        try:
            message = framing.receive(self._sock, time.monotonic() + SEND_LIMIT_S)
        except (DeviceLostError, ProtocolError, TimeoutError):
            self._restart()
            return {"paused": False}
        if "built" in message:
            self._take(built_from_json(message["built"]))  # type: ignore[arg-type]
        return message

    def _take(self, built: Built) -> None:
        if built.id not in self._jobs:
            return
        job, attempts = self._jobs[built.id]
        if built.error_class == KILLED and attempts < MOST_ATTEMPTS:
            self._jobs[job.id] = (job, attempts + 1)
            self._send({"job": job_to_json(job)})
            return
        del self._jobs[built.id]
        self._done.append(built)

    def _restart(self) -> None:
        """Start again with the jobs that were lost; those that were lost before have failed."""
        if self._process:
            processes.kill(self._process.pid)
        self.close()
        jobs, self._jobs = self._jobs, {}
        for job, attempts in jobs.values():
            if attempts < MOST_ATTEMPTS:
                self._jobs[job.id] = (job, attempts + 1)
            else:
                text = f"the build server was lost {attempts} times while it built this"
                self._done.append(Built(job.id, Outcome.BUILD_FAILED, error_class="ServerLost", error=text))
        self._start()
        paused, self._is_paused = self._is_paused, False
        self.pause_guest(paused)
        for job, _ in list(self._jobs.values()):
            self._send({"job": job_to_json(job)})

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        root = str(Path(int8tune.__file__).parents[1])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TVM_NUM_THREADS"), "1")
        command = [sys.executable, "-P", "-m", self._server, "--fd", str(theirs.fileno())]
        with theirs, self._log.open("ab") as log:
            cores = [f"--core={core}" for core in self._cores]
            self._process = subprocess.Popen(
                [*command, *cores, f"--guest={self._guest}", f"--parent={os.getpid()}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                env={**os.environ, **threads, "PYTHONPATH": path},
                start_new_session=True,
            )
        self._sock = ours
        try:
            framing.receive(ours, time.monotonic() + START_LIMIT_S)
        except BaseException as error:
            processes.kill(self._process.pid)
            self.close()
            if not isinstance(error, (DeviceLostError, TimeoutError)):
                raise
            lines = self._log.read_text(errors="replace").strip().splitlines() or ["no word of it"]
            raise BuildPoolError(f"the build server did not start: {lines[-1]}") from error
