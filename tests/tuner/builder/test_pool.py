"""The pool of builds: which core a build runs on, and that the measuring core is quiet when it must be."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from int8tune.results.record import Candidate, Outcome
from int8tune.rpc.wire import framing
from int8tune.schedules.target import Target
from int8tune.tuner.builder.child import MOST_JOBS, Child
from int8tune.tuner.builder.job import RESULT_FILE, Built, Job, built_to_json
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.cores import measuring_and_build_cores
from int8tune.tuner.errors import BuildPoolError
from tests.support.program.build_processes import build_server
from tests.support.program.campaigns import SMALL
from tests.support.program.waiting import wait_until

pytestmark = [pytest.mark.alone, pytest.mark.promise(11)]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[BuildPool]:
    measuring, building = measuring_and_build_cores()
    with BuildPool(building, measuring[-1], tmp_path / "log", "tests.support.stand_ins.faulty_build_server") as pool:
        yield pool


def hanging_job(target: Target, folder: Path, number: int, limit_s: float = 60.0) -> Job:
    candidate = Candidate(SMALL, target.name, "faulty", 1, {"fault": "hang"})
    return Job(str(number), target, str(folder / str(number)), limit_s, SMALL, candidate, str(folder / "suite"))


def builds() -> list[psutil.Process]:
    """What builds now."""
    return build_server().children()


def guests() -> list[psutil.Process]:
    measuring, _ = measuring_and_build_cores()
    return [build for build in builds() if build.cpu_affinity() == list(measuring)]


def by_one_builder(pool: BuildPool) -> None:
    """Leave the builds to the core that is not measured on; where all have one core, there is one builder anyway."""
    pool.pause_guest(pool.width > 1)


@pytest.mark.thorough
def test_the_measuring_core_builds_but_not_while_hushed(pool: BuildPool, generic: Target, tmp_path: Path) -> None:
    for number in range(pool.width):
        pool.submit(hanging_job(generic, tmp_path, number))
    wait_until(lambda: len(builds()) == pool.width and len(guests()) == 1)
    pool.pause_guest(True)
    (guest,) = guests()
    wait_until(lambda: guest.status() == psutil.STATUS_STOPPED)  # signalled, but seen only after its next turn
    assert all(build.status() != psutil.STATUS_STOPPED for build in builds() if build != guest)
    pool.pause_guest(False)
    wait_until(lambda: guest.status() != psutil.STATUS_STOPPED)


def test_no_guest_starts_while_hushed(pool: BuildPool, generic: Target, tmp_path: Path) -> None:
    pool.pause_guest(True)
    for number in range(pool.width):
        pool.submit(hanging_job(generic, tmp_path, number))
    wait_until(lambda: len(builds()) == pool.width - 1)
    assert guests() == []
    pool.pause_guest(False)
    wait_until(lambda: len(guests()) == 1)


@pytest.mark.thorough
def test_time_in_which_a_guest_is_stopped_does_not_count(pool: BuildPool, generic: Target, tmp_path: Path) -> None:
    pool.pause_guest(True)
    for number in range(pool.width - 1):
        pool.submit(hanging_job(generic, tmp_path, number))
    pool.pause_guest(False)
    pool.submit(hanging_job(generic, tmp_path, 99, limit_s=1.5))
    wait_until(lambda: len(guests()) == 1)
    pool.pause_guest(True)
    assert pool.collect(2.0) == []
    pool.pause_guest(False)
    (built,) = pool.collect(5.0)
    assert built.outcome is Outcome.BUILD_TIMEOUT
    assert 1.4 < built.build_s < 3.0


def test_a_builder_takes_the_next_job_until_one_fails(pool: BuildPool, generic: Target, tmp_path: Path) -> None:
    by_one_builder(pool)

    def done_by(job: Job) -> tuple[Outcome, set[int]]:
        pool.submit(job)
        (built,) = pool.collect(30.0)
        return built.outcome, {build.pid for build in builds()}

    suites = [
        Job(str(n), generic, str(tmp_path / f"{n}.job"), 60.0, SMALL, suite=str(tmp_path / str(n))) for n in (1, 2)
    ]
    first, second = map(done_by, suites)
    assert first == second
    assert first[0] is Outcome.OK
    raising = Candidate(SMALL, generic.name, "faulty", 1, {"fault": "raise"})
    outcome, after = done_by(Job("3", generic, str(tmp_path / "3"), 60.0, SMALL, raising, str(tmp_path / "1")))
    assert outcome is Outcome.BUILD_FAILED
    assert not after & first[1]
    assert not done_by(suites[0])[1] & first[1]


@pytest.mark.thorough
def test_a_builder_is_replaced_after_some_jobs(pool: BuildPool, generic: Target, tmp_path: Path) -> None:
    by_one_builder(pool)
    seen = []
    for number in range(MOST_JOBS + 1):
        pool.submit(
            Job(str(number), generic, str(tmp_path / f"{number}.job"), 60.0, SMALL, suite=str(tmp_path / "suite"))
        )
        assert pool.collect(30.0)[0].outcome is Outcome.OK
        seen.append({build.pid for build in builds()})
    assert len(set.union(*seen[: MOST_JOBS - 1])) == 1
    assert not seen[-1] & seen[0]


def test_a_build_killed_from_outside_is_tried_again_once(pool: BuildPool, generic: Target, tmp_path: Path) -> None:
    by_one_builder(pool)
    pool.submit(hanging_job(generic, tmp_path, 1))
    wait_until(lambda: len(builds()) == 1)
    (first,) = builds()
    first.kill()
    wait_until(lambda: pool.collect(0.1) == [] and bool(builds()) and first not in builds())
    (second,) = builds()
    second.kill()
    (built,) = pool.collect(10.0)
    assert (built.outcome, built.error_class) == (Outcome.BUILD_FAILED, "Killed")
    assert "killed by SIGKILL" in built.error


def test_a_stopped_build_leaves_its_linker_alone(generic: Target, tmp_path: Path) -> None:
    """A linker that was stopped between its fork and its first instructions would outlive all others."""
    ours, theirs = socket.socketpair()
    before = set(psutil.Process().children())
    child = Child(lambda _: subprocess.run(["sleep", "60"], check=True), os.sched_getaffinity(0), theirs)
    child.start(Job("1", generic, str(tmp_path / "1"), 60.0, SMALL))
    (build,) = set(psutil.Process().children()) - before
    wait_until(lambda: [linker.name() for linker in build.children()] == ["sleep"])
    (linker,) = build.children()
    wait_until(lambda: linker.status() == psutil.STATUS_SLEEPING)
    child.stop()
    wait_until(lambda: build.status() == psutil.STATUS_STOPPED)
    assert linker.status() == psutil.STATUS_SLEEPING
    child.close()
    wait_until(lambda: not linker.is_running() or linker.status() == psutil.STATUS_ZOMBIE)
    ours.close()
    theirs.close()


def leave_a_result_and_end(job: Job) -> None:
    (Path(job.folder) / RESULT_FILE).write_text(json.dumps(built_to_json(Built(job.id, Outcome.OK))))
    os.write(2, b"first words\nlast words\n")
    os._exit(3)


def test_a_build_that_ends_before_it_is_done_has_failed(generic: Target, tmp_path: Path) -> None:
    """Whatever it left; the last line that it wrote is told."""
    ours, theirs = socket.socketpair()
    child = Child(leave_a_result_and_end, os.sched_getaffinity(0), theirs)
    child.start(Job("1", generic, str(tmp_path / "1"), 60.0, SMALL))
    framing.wait_readable(child.descriptors, time.monotonic() + 10)
    built = child.finish()
    ours.close()
    theirs.close()
    assert (built.outcome, built.error_class) == (Outcome.BUILD_FAILED, "Crash")
    assert built.error == "the compiler's process exited with status 3 last words"


def test_a_server_that_does_not_start_is_told_in_its_own_words(tmp_path: Path) -> None:
    pool = BuildPool([], min(os.sched_getaffinity(0)), tmp_path / "log", "no_such_server")
    with pytest.raises(BuildPoolError, match=r"^the build server did not start: .*: No module named no_such_server$"):
        pool.__enter__()


def test_a_closed_pool_leaves_no_process(pool: BuildPool, generic: Target, tmp_path: Path) -> None:
    for number in range(pool.width):
        pool.submit(hanging_job(generic, tmp_path, number))
    wait_until(lambda: len(builds()) == pool.width)
    family = [build_server(), *build_server().children(recursive=True)]
    pool.pause_guest(True)
    pool.close()
    _, alive = psutil.wait_procs(family, timeout=5)
    assert alive == []
