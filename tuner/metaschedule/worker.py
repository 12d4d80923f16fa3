"""The process of one search: `python -m tuner.metaschedule.worker`, which TVM may abort or hang.

It leaves what it found in its folder, whole or not at all.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from compiler.linker import link_module
from results.atomic import write_atomic
from rpc import processes
from rpc.request import Program
from schedules.template import Rejection
from schedules.workload import parse_workload
from tuner.metaschedule.form import PeerForm, peer_form
from tuner.metaschedule.job import DATABASE, FOUND_FILE, Found, SearchJob, found_to_json, job_from_json
from tuner.verify import write_cases


def main(run: Callable[[SearchJob], Found] | None = None) -> None:
    """Do the job of a file, by `run` in place of a search if that is given. Exits with 1 and a line on failure."""
    parser = argparse.ArgumentParser(description="Search a layer for the process that started this one.")
    parser.add_argument("job", type=Path)
    parser.add_argument("--parent", type=int, required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes.signal_when_parent_ends(signal.SIGKILL)
    if os.getppid() != options.parent:
        return
    job = job_from_json(options.job.read_text(encoding="utf-8"))
    os.sched_setaffinity(0, job.cores)
    try:
        found = (run or search_layer)(job)
    except Exception as error:  # whatever TVM raises says something about this search only
        sys.exit(f"{type(error).__name__}: {' '.join(str(error).split())}"[:300])
    write_atomic(Path(job.folder) / FOUND_FILE, found_to_json(found))


def search_layer(job: SearchJob) -> Found:
    """Search a layer and build the best candidate with the cases of the suite."""
    from tuner.metaschedule.definition import layer_function
    from tuner.metaschedule.intrinsic import register_dot
    from tuner.metaschedule.search import search

    form = peer_form(parse_workload(job.workload), job.target)
    if isinstance(form, Rejection):
        raise ValueError(form.reason)
    work = Path(job.folder) / DATABASE
    work.mkdir()
    searched = search(layer_function(form), job, job.intrinsic or register_dot(job.target), work)
    program = None if searched.best is None else _build(searched.best, form, job)
    return Found(searched.trials, searched.failed, searched.search_s, program, version("apache-tvm"))


def _build(best: Any, form: PeerForm, job: SearchJob) -> Program:
    from tuner.metaschedule.definition import kernel_of
    from tuner.metaschedule.search import TASK, build_candidate, tvm_target

    folder = Path(job.folder)
    library = folder / "best.so"
    link_module(build_candidate(best, tvm_target(job), None), library)
    cases = write_cases(parse_workload(job.workload), kernel_of(form, best[TASK]), Path(job.suite), folder)
    return Program(str(library), hashlib.sha256(library.read_bytes()).hexdigest(), TASK, cases)


if __name__ == "__main__":
    main()
