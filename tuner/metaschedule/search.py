"""A search by MetaSchedule, whatever it is for. This module imports TVM."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch

from int8tune.tuner.lab.metaschedule import FAILED_S
from int8tune.tuner.metaschedule.job import SearchJob
from int8tune.tuner.metaschedule.search_setup import INTRINSICS, SearchSetup

# Candidates between two lessons of its cost model. TVM's own 64 would leave short searches without any.
BATCH = 16
# Of its evolution, TVM's own; for searches of a few trials, fewer for each.
POPULATION, POPULATION_PER_TRIAL = 512, 32


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search leaves.

    Attributes:
        best: the scheduled module with the smallest mean time; None where no candidate ran.
    """

    best: Any
    trials: int
    failed: int
    search_s: float


def search(function: Any, job: SearchJob, setup: SearchSetup, work: Path) -> Searched:
    """Search schedules of a function; `work` takes the database and what is built meanwhile."""
    # What `tune_tir` would import: 15 s of intrinsics for GPUs, which are start-up and no search.
    importlib.import_module(INTRINSICS)
    started = time.monotonic()
    database = ms.tune_tir(
        function,
        setup.target,
        str(work),
        max_trials_global=job.trials,
        num_trials_per_iter=min(BATCH, job.trials),
        builder=setup.builder,
        runner=setup.runner,
        space=setup.space,
        strategy=EvolutionarySearch(population_size=min(POPULATION, POPULATION_PER_TRIAL * job.trials)),
        num_tuning_cores=len(job.cores),
        seed=job.seed,
    )
    search_s = time.monotonic() - started
    failed = [min(map(float, record.run_secs)) >= FAILED_S for record in database.get_all_tuning_records()]
    best = None if all(failed) else ms.tir_integration.compile_tir(database, function, setup.target).mod
    return Searched(best, len(failed), sum(failed), search_s)
