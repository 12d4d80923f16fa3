"""Builds on the workers of a Dask cluster, for machines that are too small to build beside what they measure.

Dask's scheduler and its workers execute what they are sent, by whoever can reach them: an address is taken only with
TLS, or on this machine, and none of them may listen beyond loopback without TLS. Jobs and results travel as text and
bytes, never as pickled objects of ours.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import os
import queue
import re
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from int8tune.results.record import Outcome
from int8tune.rpc.wire import framing
from int8tune.tuner.builder.job import Built, Job, built_from_json, job_to_json
from int8tune.tuner.builder.listening import scheduler_listens_openly
from int8tune.tuner.builder.parcel import Places, moved, path_of, unpack
from int8tune.tuner.builder.pool import MOST_ATTEMPTS
from int8tune.tuner.errors import BuildClusterError, ParcelError

CONNECT_LIMIT_S = 10.0
RECEIVE_LIMIT_S = 60.0
END_LIMIT_S = 3.0
# A job waits for at most one other on its worker; beyond that, the worker is taken as frozen.
FROZEN_AFTER_S = 60.0
WIDTH_AGE_S = 5.0
_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):(\d{1,5})")


@dataclass(frozen=True, slots=True)
class _Sent:
    """A job under way, by `time.monotonic`."""

    job: Job
    future: Any
    attempt: int
    deadline: float


class ClusterPool:
    """A pool (`tuner.builder.base`) whose builds are done by the workers of a Dask cluster.

    A job that is lost with its worker is done again by Dask, until so many workers were lost that it has failed.

    Attributes:
        address: of Dask's scheduler, `tcp://127.0.0.1:8786` or `tls://HOST:PORT`; TLS is set up in Dask's own settings.
        server: the module that workers run as their build server.
    """

    def __init__(self, address: str, server: str = "int8tune.tuner.builder.server") -> None:
        self._address = checked_address(address)
        self._server = server
        self._client: Any = None
        self._sent: dict[str, _Sent] = {}
        self._suites: dict[str, tuple[Any, dict[str, str]]] = {}
        self._done: list[Built] = []
        self._ended: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._bell = -1
        self._width = (0, 0.0)

    def __enter__(self) -> Self:
        self._client = _connect(self._address)
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def width(self) -> int:
        """Threads of all workers that are there now."""
        threads, until = self._width
        if time.monotonic() > until:
            threads = sum(self._of_cluster("nthreads").values())
            self._width = threads, time.monotonic() + WIDTH_AGE_S
        return max(1, threads)

    @property
    def pending(self) -> int:
        """Jobs that were submitted and not collected."""
        return len(self._sent) + len(self._done)

    def submit(self, job: Job) -> None:
        """Start a job; callers keep `pending` at or a little above `width`."""
        self._submit(job, 1)

    def collect(self, limit_s: float, wake: int | None = None) -> list[Built]:
        """The jobs that have ended, after waiting for at most `limit_s` for one, or until `wake` can be read."""
        deadline = time.monotonic() + limit_s
        if self._sent or wake is not None:
            framing.wait_readable([self._bell, *([] if wake is None else [wake])], deadline)
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        while not self._ended.empty():
            id_, future = self._ended.get_nowait()
            if id_ in self._sent and self._sent[id_].future is future:
                self._finish(self._sent.pop(id_))
        self._give_up_late_ones()
        done, self._done = self._done, []
        return done

    def pause_guest(self, wanted: bool) -> None:
        """Nothing: whoever starts workers on this machine keeps them off its measuring core."""

    def close(self) -> None:
        """Cancel what is under way and leave the cluster as it is. Closing twice is allowed."""
        if self._client is None:
            return
        client, self._client = self._client, None
        for sent in self._sent.values():
            with contextlib.suppress(Exception):  # a cluster that is lost
                sent.future.cancel()
        self._sent, self._suites = {}, {}
        with contextlib.suppress(Exception):
            client.close(timeout=END_LIMIT_S)
        os.close(self._bell)

    def _submit(self, job: Job, attempt: int) -> None:
        from int8tune.tuner.builder.remote import build_remotely, versions

        self._suites = {folder: suite for folder, suite in self._suites.items() if Path(folder).exists()}
        suite, known = self._suites[job.suite] if job.candidate else (None, {})
        request = {"job": job_to_json(job), "server": self._server, "versions": versions(), "known": known}
        key = f"{job.id}-{uuid.uuid4().hex}"  # Dask does equal keys once
        future = self._of_cluster("submit", build_remotely, json.dumps(request), suite, key=key, pure=False)
        deadline = time.monotonic() + 2 * job.limit_s + FROZEN_AFTER_S
        self._sent[job.id] = _Sent(job, future, attempt, deadline)
        future.add_done_callback(lambda done: self._ring(job.id, done))

    def _ring(self, id_: str, future: Any) -> None:
        """Called by a thread of Dask's."""
        self._ended.put((id_, future))
        with contextlib.suppress(OSError):  # closed
            os.eventfd_write(self._bell, 1)

    def _finish(self, sent: _Sent) -> None:
        from distributed import KilledWorker

        try:
            self._done.append(self._receive(sent, sent.future.result(timeout=RECEIVE_LIMIT_S)))
        except BuildClusterError:
            raise
        except KilledWorker:
            self._fail(sent, "WorkerLost", "each worker that built this was lost, as often as the scheduler allows")
        except CancelledError as error:
            raise self._lost() from error
        except Exception as error:  # whatever a worker or the way from it raises
            if sent.attempt < MOST_ATTEMPTS:
                self._submit(sent.job, sent.attempt + 1)
            else:
                self._fail(sent, type(error).__name__, f"on the build cluster: {error}")

    def _receive(self, sent: _Sent, parcel: bytes) -> Built:
        """Bring a result's files here."""
        places = {"job": Path(sent.job.folder), "suite": Path(sent.job.suite)}
        _, known = self._suites.get(sent.job.suite, (None, {}))
        said, digests = unpack(parcel, places, known)
        if "refused" in said:
            raise BuildClusterError(f"a worker of the build cluster can't be used: {said['refused']}")
        shared = {name: digest for name, digest in digests.items() if name.startswith("suite/")}
        if sent.job.candidate:
            known.update(shared)
        elif shared:
            self._suites[sent.job.suite] = (sent.future, shared)
        return _arrived(sent.job, said, places, digests)

    def _give_up_late_ones(self) -> None:
        now = time.monotonic()
        for sent in [sent for sent in self._sent.values() if sent.deadline < now]:
            if not self._of_cluster("nthreads"):
                raise BuildClusterError(f"the build cluster has no workers any more: {self._address}")
            del self._sent[sent.job.id]
            sent.future.cancel()
            if sent.attempt < MOST_ATTEMPTS:
                self._submit(sent.job, sent.attempt + 1)
            else:
                self._fail(sent, "WorkerLost", f"no worker of the build cluster answered, {MOST_ATTEMPTS} times")

    def _fail(self, sent: _Sent, error_class: str, text: str) -> None:
        line = " ".join(text.split())[:300]
        self._done.append(Built(sent.job.id, Outcome.BUILD_FAILED, error_class=error_class, error=line))

    def _of_cluster(self, method: str, *arguments: Any, **options: Any) -> Any:
        try:
            return getattr(self._client, method)(*arguments, **options)
        except (OSError, RuntimeError, CancelledError) as error:
            raise self._lost() from error

    def _lost(self) -> BuildClusterError:
        return BuildClusterError(f"the build cluster's scheduler was lost: {self._address}")


def checked_address(text: str) -> str:
    """The address of a scheduler that nobody else can speak to.

    Raises:
        BuildClusterError: it is none, or it is open to a network.
    """
    match = _ADDRESS.fullmatch(text)
    if not match:
        raise BuildClusterError(f"a build cluster has an address such as tcp://127.0.0.1:8786: {text[:80]}")
    if match[1] == "tcp" and not _is_loopback(match[2].strip("[]")):
        raise BuildClusterError(
            f"a build cluster on another machine needs TLS, tls://HOST:PORT, or a tunnel: {text[:80]}"
        )
    return text


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _connect(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise BuildClusterError(f"builds on a cluster need Dask: {error}; pip install 'int8tune[dask]'") from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what it reports is raised here, too
    connect: Any = Client
    try:
        client = connect(address, timeout=CONNECT_LIMIT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:  # out of reach, or TLS is not set up
        raise BuildClusterError(f"the build cluster's scheduler can't be reached: {address}") from error
    try:
        _check_scheduler(client, address)
        client.wait_for_workers(1, timeout=CONNECT_LIMIT_S)
    except TimeoutError as error:
        client.close(timeout=END_LIMIT_S)
        raise BuildClusterError(f"no worker has joined the build cluster: {address}") from error
    except BuildClusterError:
        client.close(timeout=END_LIMIT_S)
        raise
    return client


def _check_scheduler(client: Any, address: str) -> None:
    """Raises: BuildClusterError: others than the users of its machine reach it. Workers say the same with each job."""
    try:
        addresses = client.run_on_scheduler(scheduler_listens_openly)
    except Exception as error:  # whatever a scheduler without this program raises
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise BuildClusterError(
            f"the build cluster's scheduler can't say where it listens: {address}: {said}"
        ) from error
    if addresses:
        raise BuildClusterError(
            f"the build cluster's scheduler listens beyond loopback without TLS, {', '.join(addresses)}: {address}"
        )


def _arrived(job: Job, said: Mapping[str, Any], places: Places, digests: Mapping[str, str]) -> Built:
    """The result with paths of this machine.

    Raises:
        ParcelError: it is not this job's, or its library is not the one that was built.
    """
    try:
        built = built_from_json(said["built"])
    except (KeyError, TypeError, ValueError) as error:
        raise ParcelError(f"a build's result is damaged: {error}") from error
    if built.id != job.id:
        raise ParcelError(f"the result of {job.id} is that of another job: {built.id[:80]}")
    if built.program is None:
        return built
    if digests.get(built.program.library) != built.program.sha256:
        raise ParcelError(f"the library of {job.id} is not the one that was built: its sha256 differs")
    return replace(built, program=moved(built.program, lambda name: str(path_of(name, places))))
