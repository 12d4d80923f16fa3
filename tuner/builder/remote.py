"""A build on a worker of a Dask cluster, which imports this module by its name: text in, bytes out."""

from __future__ import annotations

import functools
import json
import os
import tempfile
import threading
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from distributed import get_worker

from int8tune.tuner.builder.job import Built, Job, built_to_json, job_from_json
from int8tune.tuner.builder.listening import worker_listens_openly
from int8tune.tuner.builder.parcel import Places, files_of, moved, name_of, pack, unpack
from int8tune.tuner.builder.pool import MOST_ATTEMPTS, BuildPool
from int8tune.tuner.errors import BuildPoolError

JOB, SUITE = "job", "suite"
"""The places of a parcel: what a job makes for itself, and what all candidates of its workload share."""

RESTART_LIMIT_S = 60.0


def versions() -> dict[str, str]:
    """What must be the same on both ends: it decides which code a config becomes."""
    return {name: version(name) for name in ("int8tune", "apache-tvm")}


def build_remotely(request: str, suite: bytes | None = None) -> bytes:
    """Do one job; a process of its own does it, as on one machine.

    Args:
        request: a JSON object: `job`, `server` (the module of the build server), `versions`, and `known`, the sha256
            by name of the files that need not be sent.
        suite: what this function gave for the suite of the job's workload.

    Returns:
        A parcel that says `built`, with its files, or `refused`, why this worker is not one to build with.
    """
    asked = json.loads(request)
    worker = get_worker()
    if asked["versions"] != versions():
        return _refusal(f"it has other versions than this machine, {_listed(versions())}")
    if addresses := worker_listens_openly(worker):
        return _refusal(f"it listens beyond loopback without TLS, {', '.join(addresses)}")
    job = job_from_json(asked["job"])
    with tempfile.TemporaryDirectory(prefix="build-", dir=worker.local_directory) as root:
        places = {JOB: Path(root) / JOB, SUITE: Path(root) / SUITE}
        if suite is not None:
            unpack(suite, places, {})
        here = replace(job, folder=str(places[JOB]), suite=str(places[SUITE]))
        built = _build(here, asked["server"], Path(worker.local_directory))
        return _pack_built(built, places, asked["known"], is_suite=not (job.candidate or job.probe))


def _refusal(why: str) -> bytes:
    return pack({"refused": f"{get_worker().address}: {why}"}, {}, (), {})


def _listed(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in found.items())


def _build(job: Job, server: str, folder: Path) -> Built:
    """Do a job at this thread's own build server.

    Raises:
        BuildPoolError: the server gave no answer.
    """
    pool = _pool(threading.get_ident(), server, folder)
    pool.submit(job)
    deadline = time.monotonic() + MOST_ATTEMPTS * (job.limit_s + RESTART_LIMIT_S)
    while time.monotonic() < deadline:
        for built in pool.collect(1.0):
            if built.id == job.id:
                return built
    raise BuildPoolError(f"the build server did not answer in time: {job.id}")


@functools.cache
def _pool(thread: int, server: str, folder: Path) -> BuildPool:
    """The build server of a thread of this worker, which keeps TVM loaded and ends with the thread."""
    cores = sorted(os.sched_getaffinity(0))
    pool = BuildPool(cores, cores[-1], folder / f"build-server-{thread}.log", server)
    return pool.__enter__()


def _pack_built(built: Built, places: Places, known: dict[str, str], *, is_suite: bool) -> bytes:
    names: list[str] = []
    if is_suite:
        names = [name_of(str(path), places) for path in sorted(places[SUITE].glob("*.npz"))]
    elif built.program:
        names = [name_of(path, places) for path in files_of(built.program)]
        built = replace(built, program=moved(built.program, lambda path: name_of(path, places)))
    return pack({"built": built_to_json(built)}, places, names, known)
