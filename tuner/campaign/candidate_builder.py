"""The builds of a campaign: each workload's suite first, then its candidates, in folders that go in time."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from int8tune.results.record import Candidate, Outcome
from int8tune.rpc.request import Program
from int8tune.tuner.builder.base import Pool
from int8tune.tuner.builder.job import Built, Job
from int8tune.tuner.builder.parcel import files_of
from int8tune.tuner.campaign.plan import Task
from int8tune.tuner.errors import CampaignError, ResultsFolderError
from int8tune.tuner.folders import HeldFolder
from int8tune.tuner.verify import suite_memory_bytes

BUILD_LIMIT_S = 30.0
SUITE_LIMIT_S = 300.0
# Of this machine's memory, what suites that nobody waits for yet may take while they are computed.
SHARE_OF_MEMORY = 0.25


class CandidateBuilder:
    """Turns candidates into programs. A candidate asked for twice while its program is kept is built once."""

    def __init__(
        self,
        pool: Pool,
        folder: Path,
        build_limit_s: float = BUILD_LIMIT_S,
        estimate_cpu: str = "",
        probe: Program | None = None,
    ) -> None:
        """A builder whose programs lie in a folder.

        Args:
            estimate_cpu: as `tuner.builder.job.Job` has it, of all candidates.
            probe: what the device times around each program, whose files are needed, too.
        """
        self._pool = pool
        self._folder = folder
        self._held = HeldFolder(folder)
        self._build_limit_s = build_limit_s
        self._estimate_cpu = estimate_cpu
        self._probe = probe
        self._suites: dict[str, tuple[Path, ...]] = {}
        self._begun: dict[str, tuple[Task, float]] = {}
        self._waiting: dict[str, list[Job]] = defaultdict(list)
        self._kept: dict[str, Built] = {}
        self._ready: list[Built] = []

    @property
    def busy(self) -> bool:
        """Whether enough is queued to keep the pool's cores at work."""
        waiting = sum(map(len, self._waiting.values()))
        return self._pool.pending + waiting > self._pool.width

    @property
    def idle(self) -> bool:
        """Whether nothing is being built, or waits to be collected."""
        return not (self._pool.pending or self._waiting or self._ready)

    def require_files(self, *programs: Program) -> None:
        """What fails without its files says nothing about a candidate, or a device.

        Raises:
            ResultsFolderError: what was built for these programs, the probe or the open tasks is not there any more.
        """
        self._held.require()
        wanted = [*programs, self._probe] if self._probe else programs
        built = [Path(file) for program in wanted for file in files_of(program)]
        for file in [*itertools.chain(*self._suites.values()), *built]:
            if not file.exists():
                raise ResultsFolderError(f"a file of the results was removed while it was in use: {file}")

    def pause_guest(self, wanted: bool) -> None:
        """Keep builds off the core that measures, or no longer."""
        self._pool.pause_guest(wanted)

    def prepare(self, coming: Iterable[Task]) -> None:
        """Compute the suites of tasks whose turns are still to come, on cores that would have nothing to do."""
        for task in coming:
            if self._pool.pending >= self._pool.width:
                return
            if task.workload.key not in self._suites and task.workload.key not in self._begun:
                if not self._has_memory_for(task):
                    return
                self._begin_suite(task)

    def late_suites(self, after_s: float) -> list[Task]:
        """Tasks with candidates that wait for a suite which has been computed for so long."""
        now = time.monotonic()
        return [task for key, (task, at) in self._begun.items() if key in self._waiting and now - at >= after_s]

    def start(self, task: Task, candidate: Candidate) -> None:
        """Build a candidate; it comes out of `collect` under its id."""
        if candidate.id in self._kept:
            self._ready.append(self._kept[candidate.id])
            return
        key = task.workload.key
        suite = self._suite(task)
        folder = str(self._folder / candidate.id)
        job = Job(
            candidate.id,
            task.target,
            folder,
            self._build_limit_s,
            key,
            candidate,
            str(suite),
            estimate_cpu=self._estimate_cpu,
        )
        if key in self._suites:
            self._pool.submit(job)
            return
        if key not in self._begun:
            self._begin_suite(task)
        self._waiting[key].append(job)

    def collect(self, limit_s: float, wake: int) -> list[Built]:
        """Builds that have ended, after waiting for at most `limit_s` for one, or until `wake` can be read.

        Raises:
            CampaignError: the suite of a workload could not be written.
        """
        ready, self._ready = self._ready, []
        for built in self._pool.collect(0.0 if ready else limit_s, wake):
            kind, _, key = built.id.partition(" ")
            if kind == "suite":
                self._finish_suite(key, built)
            else:
                self._kept[built.id] = built
                ready.append(built)
        return ready

    def drop(self, candidate: Candidate) -> None:
        """Remove a candidate's program and everything it was built with."""
        self._kept.pop(candidate.id, None)
        shutil.rmtree(self._folder / candidate.id, ignore_errors=True)

    def drop_suite(self, task: Task) -> None:
        """Remove what a finished task's candidates share."""
        self._suites.pop(task.workload.key, None)
        for name in (f"suite-{task.index}", f"suite-{task.index}.job"):
            shutil.rmtree(self._folder / name, ignore_errors=True)

    def _suite(self, task: Task) -> Path:
        return self._folder / f"suite-{task.index}"

    def _begin_suite(self, task: Task) -> None:
        key, suite = task.workload.key, str(self._suite(task))
        self._begun[key] = task, time.monotonic()
        self._pool.submit(Job(f"suite {key}", task.target, f"{suite}.job", SUITE_LIMIT_S, key, suite=suite))

    def _has_memory_for(self, task: Task) -> bool:
        tasks = [*(begun for begun, _ in self._begun.values()), task]
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return sum(suite_memory_bytes(one.workload) for one in tasks) <= SHARE_OF_MEMORY * memory_bytes

    def _finish_suite(self, key: str, built: Built) -> None:
        if built.outcome is not Outcome.OK:
            self.require_files()
            raise CampaignError(f"the reference outputs of {key} could not be computed: {built.error}")
        task, _ = self._begun.pop(key)
        self._suites[key] = tuple(self._suite(task).glob("*"))  # none where a cluster keeps it
        for job in self._waiting.pop(key, ()):
            self._pool.submit(job)
