"""A search by MetaSchedule from outside: a process with a limit, after which nothing of it is left."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import int8tune
from int8tune.rpc.errors import LeftoverError, ProtocolError
from int8tune.rpc.process import processes
from int8tune.tuner.errors import NoMetaScheduleError
from int8tune.tuner.metaschedule.job import FOUND_FILE, JOB_FILE, Found, SearchJob, found_from_json, job_to_json

WORKER = "int8tune.tuner.metaschedule.worker"
POLL_S = 0.1
END_LIMIT_S = 5.0
MARK = "INT8TUNE_METASCHEDULE"
LOG_FILE = "search.log"
_SHOWN = 300
# What MetaSchedule imports beside TVM, and where it is in TVM.
_MODULES = ("tvm", "xgboost", "psutil", "cloudpickle")
_PLACE = Path("s_tir/meta_schedule/__init__.py")


class SearchFailedError(Exception):
    """A search that ended without a result; one line says why."""


def require_metaschedule() -> None:
    """Check what is installed, without importing it.

    Raises:
        NoMetaScheduleError: something is missing; the message names it.
    """
    missing = [name for name in _MODULES if importlib.util.find_spec(name) is None]
    if not missing:
        spec = importlib.util.find_spec("tvm")
        folders = (spec.submodule_search_locations if spec else None) or []
        missing = [] if any((Path(folder) / _PLACE).exists() for folder in folders) else ["tvm.s_tir.meta_schedule"]
    if missing:
        raise NoMetaScheduleError(f"MetaSchedule needs modules that are not installed: {', '.join(missing)}")


def run_search(
    job: SearchJob, limit_s: float, stop_requested: Callable[[], bool], worker: str = WORKER
) -> Found | None:
    """What a search finds, or None once a stop is requested.

    Raises:
        SearchFailedError: it crashed, failed, did not end within the limit, or wrote nonsense.
    """
    folder = Path(job.folder)
    (folder / JOB_FILE).write_text(job_to_json(job), encoding="utf-8")
    mark = f"{MARK}={uuid.uuid4().hex}"
    process = _start(folder, mark, worker)
    try:
        deadline = time.monotonic() + limit_s
        while process.poll() is None:
            if stop_requested():
                return None
            if time.monotonic() > deadline:
                raise SearchFailedError(f"did not end within {limit_s:g} s")
            time.sleep(POLL_S)
    finally:
        _end(process, mark)
    if process.returncode != 0:
        raise SearchFailedError(_last_words(process.returncode, folder / LOG_FILE))
    try:
        return found_from_json((folder / FOUND_FILE).read_text(encoding="utf-8"))
    except (OSError, ProtocolError, ValueError) as error:
        raise SearchFailedError(f"left no result that can be read: {error}") from error


def _start(folder: Path, mark: str, worker: str) -> subprocess.Popen[bytes]:
    root = str(Path(int8tune.__file__).parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    # Of the libraries' own pools of threads; builds and the search are processes and threads of MetaSchedule's.
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TVM_NUM_THREADS"), "1")
    name, value = mark.split("=")
    folders = {"TMPDIR": str(folder), "PYTHONPATH": path, name: value}
    with (folder / LOG_FILE).open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", worker, str(folder / JOB_FILE), "--parent", str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **threads, **folders, "TVM_BIND_THREADS": "0"},
            start_new_session=True,
        )


def _end(process: subprocess.Popen[bytes], mark: str) -> None:
    """Kill what is left of a search: MetaSchedule's workers, too, whatever became of their parent."""
    processes.kill(process.pid)
    process.wait(END_LIMIT_S)
    try:
        processes.end_marked(mark, END_LIMIT_S)
    except LeftoverError as error:
        raise SearchFailedError(str(error)) from error


def _last_words(code: int, log: Path) -> str:
    """How it ended, and the last line of what it printed where it ended by itself."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return " ".join([processes.how_it_ended(code), *([f"({lines[-1][:_SHOWN]})"] if lines else [])])
