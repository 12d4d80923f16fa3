"""The order of a campaign's builds: suites of layers whose turns come later are computed on cores without work."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import pytest

from int8tune.results.memory import MemoryStore
from int8tune.results.record import Outcome
from int8tune.rpc.request import Case, Program
from int8tune.schedules.target import named_target
from int8tune.tuner.builder.job import Built, Job
from int8tune.tuner.campaign.candidate_builder import CandidateBuilder
from int8tune.tuner.campaign.events import Silence
from int8tune.tuner.campaign.loop import CampaignLoop
from int8tune.tuner.campaign.loop_context import LoopContext
from int8tune.tuner.campaign.plan import Task, make_plan
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.errors import ResultsFolderError
from tests.support.program.campaigns import campaign_loop, network_of

KEYS = [f"conv2d-u8s8-1x8x8x16-k1x1x{channels}-s1-p0-float.c-u8" for channels in range(16, 112, 16)]


class WaitingPool:
    """Keeps jobs until the test says that they have ended."""

    width = 4

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.done: list[Built] = []
        self.limits_s: list[float] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def pending(self) -> int:
        return len(self.jobs) + len(self.done)

    @property
    def ids(self) -> list[str]:
        return [job.id for job in self.jobs]

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def end(self, *ids: str) -> None:
        self.done += [Built(job.id, Outcome.OK) for job in self.jobs if job.id in ids]
        self.jobs = [job for job in self.jobs if job.id not in ids]

    def collect(self, limit_s: float, wake: int | None = None) -> list[Built]:  # noqa: ARG002
        self.limits_s.append(limit_s)
        done, self.done = self.done, []
        return done

    def pause_guest(self, wanted: bool) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def tasks() -> tuple[Task, ...]:
    return make_plan(network_of(*KEYS), named_target("generic-x86-64"))


def suite(task: Task) -> str:
    return f"suite {task.workload.key}"


def test_suites_of_later_layers_fill_the_cores_that_have_no_work(tasks: tuple[Task, ...], tmp_path: Path) -> None:
    pool = WaitingPool()
    builds = CandidateBuilder(pool, tmp_path)
    builds.start(tasks[0], tasks[0].default)
    builds.prepare(tasks[1:])
    assert pool.ids == [suite(task) for task in tasks[:4]]
    pool.end(suite(tasks[0]), suite(tasks[2]))
    builds.collect(0.0, 0)
    # The candidate comes before another suite.
    builds.prepare(tasks[1:])
    assert pool.ids == [suite(tasks[1]), suite(tasks[3]), tasks[0].default.id, suite(tasks[4])]
    pool.end(suite(tasks[1]))
    builds.collect(0.0, 0)
    builds.start(tasks[1], tasks[1].default)
    builds.start(tasks[3], tasks[3].default)
    assert pool.ids[-1] == tasks[1].default.id, "its suite was ready, that of the other layer is not"
    assert pool.ids.count(suite(tasks[3])) == 1


def test_nothing_is_waited_for_while_a_program_is_ready(tasks: tuple[Task, ...], tmp_path: Path) -> None:
    pool, (task, *_) = WaitingPool(), tasks
    builds = CandidateBuilder(pool, tmp_path)
    builds.start(task, task.default)
    for ended in (suite(task), task.default.id):
        pool.end(ended)
        builds.collect(5.0, 0)
    builds.start(task, task.default)  # built before, and kept
    assert [built.id for built in builds.collect(5.0, 0)] == [task.default.id]
    assert pool.limits_s == [5.0, 5.0, 0.0]


def test_suites_ahead_take_a_part_of_the_memory_only(
    tasks: tuple[Task, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = WaitingPool()
    builds = CandidateBuilder(pool, tmp_path)
    monkeypatch.setattr("int8tune.tuner.campaign.candidate_builder.suite_memory_bytes", lambda _: 1 << 50)
    builds.start(tasks[0], tasks[0].default)
    builds.prepare(tasks[1:])
    assert pool.ids == [suite(tasks[0])]


def test_a_layer_whose_kernels_wait_for_its_suite_is_named(tasks: tuple[Task, ...], tmp_path: Path) -> None:
    pool = WaitingPool()
    builds = CandidateBuilder(pool, tmp_path)
    builds.start(tasks[0], tasks[0].default)
    builds.prepare(tasks[1:])
    assert builds.late_suites(0.0) == [tasks[0]]
    assert builds.late_suites(60.0) == []
    pool.end(suite(tasks[0]))
    builds.collect(0.0, 0)
    assert builds.late_suites(0.0) == []


class Notices(Silence):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def notice(self, text: str) -> None:
        self.texts.append(text)


@pytest.mark.thorough
def test_a_campaign_says_once_what_it_waits_for(
    tasks: tuple[Task, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a suite is late is up to the machine: here the first layer's is, whenever it is asked for."""
    monkeypatch.setattr(CandidateBuilder, "late_suites", lambda _workshop, _after_s: [tasks[0]])
    notices = Notices()
    spec = CampaignSpec("c", network_of(*KEYS[:2]), "random", trials_per_task=1)
    with campaign_loop(spec, tasks[:2], MemoryStore(), tmp_path) as loop:
        assert isinstance(loop, CampaignLoop)
        object.__setattr__(loop._context, "listener", notices)
        loop.run()
    said = "computing the reference outputs of conv2d 1x1 8x8x16->16, which its kernels wait for"
    assert notices.texts == [said]


@pytest.mark.parametrize("board", ["", "pi-1"])
def test_a_record_names_the_board_that_answered_last(board: str) -> None:
    nothing: Any = None
    device: Any = SimpleNamespace(board=board)
    around = LoopContext(nothing, nothing, device, "farm", {"os": "linux"}, nothing, lambda: False)
    assert around.environment_now == {"os": "linux"} | ({"board": board} if board else {})


def test_a_file_of_the_probe_that_is_removed_is_told(tmp_path: Path) -> None:
    """The probe's files may be the first to go when a folder is being removed: no device is to blame."""
    library, array = (tmp_path / name for name in ("probe.so", "0.npy"))
    probe = Program(str(library), "", "main", (Case((str(array),), str(array)),))
    for file in (library, array):
        file.touch()
    builds = CandidateBuilder(WaitingPool(), tmp_path, probe=probe)
    builds.require_files()
    array.unlink()
    with pytest.raises(ResultsFolderError, match=r"removed while it was in use: .*0\.npy$"):
        builds.require_files()
