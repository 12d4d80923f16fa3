"""The process of one search: `python -m int8tune.tuner.metaschedule.worker`, which TVM may abort or hang.

It leaves what it found in its folder, whole or not at all.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

from int8tune.compiler.toolchain.nvrtc import compile_cubin
from int8tune.results.atomic import write_atomic
from int8tune.rpc.process import processes
from int8tune.rpc.request import Case, Program
from int8tune.schedules.template import Rejection
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.metaschedule.form import peer_form
from int8tune.tuner.metaschedule.job import DATABASE, FOUND_FILE, Found, SearchJob, found_to_json, job_from_json
from int8tune.tuner.metaschedule.search_setup import TASK, SearchSetup
from int8tune.tuner.verify import write_cases


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


def search_layer(job: SearchJob, compile_source: Callable[[str, str], bytes] = compile_cubin) -> Found:
    """Search a layer and build the best candidate with the cases of the suite.

    Args:
        compile_source: makes machine code of CUDA C++ for an architecture.
    """
    from int8tune.tuner.metaschedule.definition import kernel_of, layer_function
    from int8tune.tuner.metaschedule.search import search

    workload = parse_workload(job.workload)
    form = peer_form(workload, job.target)
    if isinstance(form, Rejection):
        raise ValueError(form.reason)
    folder, function = Path(job.folder), layer_function(form)
    cases = write_cases(workload, kernel_of(form, function), Path(job.suite), folder)
    work = folder / DATABASE
    work.mkdir()
    with _setup(job, cases, compile_source) as setup:
        searched = search(function, job, setup, work)
        program = None if searched.best is None else _build(searched.best, folder / "best.so", cases, setup)
    return Found(searched.trials, searched.failed, searched.search_s, program, version("apache-tvm"))


def _setup(
    job: SearchJob, cases: tuple[Case, ...], compile_source: Callable[[str, str], bytes]
) -> AbstractContextManager[SearchSetup]:
    if job.route is not None:
        from int8tune.tuner.metaschedule.gpu import gpu_setup

        return gpu_setup(job, cases, compile_source)
    from int8tune.tuner.metaschedule.cpu import cpu_setup

    return nullcontext(cpu_setup(job))


def _build(best: Any, library: Path, cases: tuple[Case, ...], setup: SearchSetup) -> Program:
    setup.link(best, library)
    return Program(str(library), hashlib.sha256(library.read_bytes()).hexdigest(), TASK, cases)


if __name__ == "__main__":
    main()
