"""What every pool of builds does: the contract, for this machine's processes and for a Dask cluster's."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import pytest

from int8tune.results.record import Candidate, Outcome
from int8tune.rpc.request import Request, Timing
from int8tune.rpc.transports.local import LocalTransport
from int8tune.rpc.wire import framing
from int8tune.schedules.target import Target
from int8tune.tuner.builder.base import Pool
from int8tune.tuner.builder.cluster import ClusterPool
from int8tune.tuner.builder.job import Built, Job
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.cores import measuring_and_build_cores
from tests.support.program.campaigns import SMALL
from tests.support.program.dask_processes import DaskProcesses
from tests.support.stand_ins.faulty_templates import BUILD_FAULTS

LIMIT_S = 60.0
ENDS = {
    "raise": (Outcome.BUILD_FAILED, "this template raises"),
    "abort": (Outcome.BUILD_FAILED, "killed by SIGABRT"),
    "exit": (Outcome.BUILD_FAILED, "exited with status 0"),
    "hang": (Outcome.BUILD_TIMEOUT, "killed after 2 s"),
    "memory": (Outcome.BUILD_FAILED, "MemoryError"),
}


def suite_job(target: Target, folder: Path) -> Job:
    return Job("suite", target, str(folder / "suite.job"), LIMIT_S, SMALL, suite=str(folder / "suite"))


def candidate_job(target: Target, folder: Path, fault: str, id_: str = "", limit_s: float = LIMIT_S) -> Job:
    candidate = Candidate(SMALL, target.name, "faulty", 1, {"fault": fault})
    id_ = id_ or fault
    return Job(id_, target, str(folder / id_), limit_s, SMALL, candidate, str(folder / "suite"))


def collect(pool: Pool, count: int, limit_s: float = LIMIT_S) -> dict[str, Built]:
    found: dict[str, Built] = {}
    deadline = time.monotonic() + limit_s
    while len(found) < count:
        assert time.monotonic() < deadline
        found |= {built.id: built for built in pool.collect(1.0)}
    return found


def build_suite(pool: Pool, target: Target, folder: Path) -> None:
    pool.submit(suite_job(target, folder))
    assert collect(pool, 1)["suite"].outcome is Outcome.OK


class PoolContract(ABC):
    """A subclass gives `pool`: one that was entered, whose builds know the faulty template."""

    @abstractmethod
    def pool(self) -> Iterator[Pool]:
        """A fixture."""

    @pytest.mark.thorough
    def test_a_program_is_here_and_runs(self, pool: Pool, generic: Target, tmp_path: Path) -> None:
        build_suite(pool, generic, tmp_path)
        assert len(list((tmp_path / "suite").glob("*.npz"))) >= 8
        pool.submit(candidate_job(generic, tmp_path, "none"))
        assert pool.pending == 1
        built = collect(pool, 1)["none"]
        assert pool.pending == 0
        assert built.outcome is Outcome.OK, built.error
        assert built.program is not None
        assert Path(built.program.library).parent == tmp_path / "none"
        assert hashlib.sha256(Path(built.program.library).read_bytes()).hexdigest() == built.program.sha256
        with LocalTransport() as transport:
            reply = transport.run(Request((built.program,), Timing(2, 0.001), run_limit_s=10.0))
        assert reply.outcome is Outcome.OK, reply.error

    def test_builds_that_share_a_suite_share_its_files(self, pool: Pool, generic: Target, tmp_path: Path) -> None:
        build_suite(pool, generic, tmp_path)
        for fault in ("none", "none_again"):
            pool.submit(candidate_job(generic, tmp_path, fault))
        one, other = collect(pool, 2).values()
        assert one.program is not None
        assert other.program is not None
        assert one.binary == other.binary != ""
        for mine, its in zip(one.program.cases, other.program.cases, strict=True):
            assert (mine.inputs[0], mine.expected) == (its.inputs[0], its.expected)
            assert Path(mine.expected).parent == tmp_path / "suite"

    @pytest.mark.thorough
    def test_every_fault_is_a_result(self, pool: Pool, generic: Target, tmp_path: Path) -> None:
        build_suite(pool, generic, tmp_path)
        for fault in BUILD_FAULTS:
            pool.submit(candidate_job(generic, tmp_path, fault, limit_s=2.0 if fault == "hang" else LIMIT_S))
        found = collect(pool, len(BUILD_FAULTS))
        for fault, (outcome, text) in ENDS.items():
            assert found[fault].outcome is outcome
            assert text in f"{found[fault].error_class} {found[fault].error}"
            assert found[fault].program is None
        pool.submit(candidate_job(generic, tmp_path, "none"))
        assert collect(pool, 1)["none"].outcome is Outcome.OK

    def test_a_wait_ends_when_it_is_woken(self, pool: Pool, generic: Target, tmp_path: Path) -> None:
        build_suite(pool, generic, tmp_path)
        pool.submit(candidate_job(generic, tmp_path, "hang"))
        waking, waker = os.pipe()
        timer = threading.Timer(0.2, os.write, (waker, b"!"))
        timer.start()
        began = time.monotonic()
        assert pool.collect(30.0, waking) == []
        assert time.monotonic() - began < 10
        assert framing.wait_readable([waking], 0.0), "it ended before"
        timer.join(5)
        os.close(waking)
        os.close(waker)

    @pytest.mark.thorough
    def test_it_is_hushed_and_closed_twice(self, pool: Pool) -> None:
        assert pool.width >= 1
        pool.pause_guest(True)
        pool.pause_guest(True)
        pool.pause_guest(False)
        pool.close()
        pool.close()


class TestBuildPool(PoolContract):
    @pytest.fixture
    def pool(self, tmp_path: Path) -> Iterator[Pool]:
        measuring, building = measuring_and_build_cores()
        with BuildPool(
            building, measuring[-1], tmp_path / "log", "tests.support.stand_ins.faulty_build_server"
        ) as pool:
            yield pool


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskProcesses]:
    pytest.importorskip("distributed", reason="needs the extra `dask`")
    started = DaskProcesses(tmp_path_factory.mktemp("dask"))
    for _ in range(2):
        started.add_worker()
    yield started
    started.close()


class TestClusterPool(PoolContract):
    @pytest.fixture
    def pool(self, cluster: DaskProcesses) -> Iterator[Pool]:
        with ClusterPool(cluster.address, "tests.support.stand_ins.faulty_build_server") as pool:
            yield pool
