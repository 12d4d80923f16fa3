"""Builds on a Dask cluster: workers and schedulers that are lost, other versions, and whole campaigns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from int8tune.results.record import Outcome, Trial
from int8tune.results.store import SqliteStore
from int8tune.schedules.target import Target
from int8tune.tuner.builder import cluster as cluster_pools
from int8tune.tuner.builder.cluster import ClusterPool, checked_address
from int8tune.tuner.builder.job import Job
from int8tune.tuner.cli.program import run
from int8tune.tuner.errors import BuildClusterError
from tests.support.program.campaigns import SMALL
from tests.support.program.cli_program import LIMIT_S, int8tune, start, wait_for_trials, write_table
from tests.support.program.dask_processes import DaskProcesses
from tests.tuner.builder.test_contract import build_suite, candidate_job, collect

# What it takes to import it is not spent before a test needs it.
pytestmark = pytest.mark.skipif(find_spec("distributed") is None, reason="needs the extra `dask`")

SERVER = "tests.support.stand_ins.faulty_build_server"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaskProcesses]:
    """A scheduler that allows no job to lose two workers, and no worker yet."""
    monkeypatch.setattr(cluster_pools, "CONNECT_LIMIT_S", 60.0)  # workers of a busy machine take their time
    folder = tmp_path / "dask"
    folder.mkdir()
    started = DaskProcesses(folder, {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"})
    yield started
    started.close()


def wait_for_build(worker: psutil.Process) -> psutil.Process:
    """The process in which a worker's build server builds."""
    deadline = time.monotonic() + 30
    while not (found := [child for server in worker.children() for child in server.children()]):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found[0]


def kill_a_busy_one(workers: list[psutil.Process]) -> bool:
    """Kill the worker that builds, if one does; its build server and the build go with it."""
    for worker in workers:
        family = worker.children(recursive=True)
        if len(family) > 1:
            worker.kill()
            assert psutil.wait_procs(family, timeout=10)[1] == []
            workers.remove(worker)
            return True
    return False


@pytest.mark.thorough
def test_a_killed_worker_costs_a_retry(cluster: DaskProcesses, generic: Target, tmp_path: Path) -> None:
    workers = [cluster.add_worker(), cluster.add_worker()]
    with ClusterPool(cluster.address, SERVER) as pool:
        build_suite(pool, generic, tmp_path)
        pool.submit(candidate_job(generic, tmp_path, "hang", limit_s=6.0))
        while not kill_a_busy_one(workers):
            time.sleep(0.02)
        assert collect(pool, 1)["hang"].outcome is Outcome.BUILD_TIMEOUT


@pytest.mark.thorough
def test_a_build_whose_workers_are_killed_again_has_failed(
    cluster: DaskProcesses, generic: Target, tmp_path: Path
) -> None:
    workers = [cluster.add_worker(), cluster.add_worker()]
    kills = 0
    with ClusterPool(cluster.address, SERVER) as pool:
        build_suite(pool, generic, tmp_path)
        pool.submit(candidate_job(generic, tmp_path, "hang"))
        while not (ended := pool.collect(0.1)):
            if kill_a_busy_one(workers):
                kills += 1
                workers.append(cluster.add_worker())
    (lost,) = ended
    assert (lost.outcome, lost.error_class) == (Outcome.BUILD_FAILED, "WorkerLost")
    assert 2 <= kills <= 4  # a worker may have had the only copy of the suite: that is built again, too


@pytest.mark.thorough
def test_a_scheduler_that_is_lost_ends_it(cluster: DaskProcesses, generic: Target, tmp_path: Path) -> None:
    worker = cluster.add_worker()
    with ClusterPool(cluster.address, SERVER) as pool:
        build_suite(pool, generic, tmp_path)
        pool.submit(candidate_job(generic, tmp_path, "hang"))
        wait_for_build(worker)
        cluster.scheduler.kill()
        with pytest.raises(BuildClusterError, match=f"scheduler was lost: {cluster.address}$"):
            collect(pool, 1)


def test_workers_of_other_versions_are_refused(
    cluster: DaskProcesses, generic: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add_worker()
    monkeypatch.setattr("int8tune.tuner.builder.remote.versions", lambda: {"int8tune": "0.0.1"})
    with ClusterPool(cluster.address) as pool:
        assert pool.width == 1
        pool.submit(Job("suite", generic, str(tmp_path / "job"), LIMIT_S, SMALL, suite=str(tmp_path / "suite")))
        with pytest.raises(
            BuildClusterError, match=r"worker .* can't be used: tcp://.* other versions than this machine, int8tune \d"
        ):
            collect(pool, 1)


def trials_in(results: Path, campaign: str) -> list[Trial]:
    with SqliteStore(results / "records.db", readonly=True) as store:
        return sorted(store.query(Trial, campaign=campaign), key=lambda trial: trial.sequence)


@pytest.mark.alone
@pytest.mark.slow
def test_a_campaign_is_the_same_on_a_cluster_whose_workers_die(cluster: DaskProcesses, tmp_path: Path) -> None:
    results = tmp_path / "results"
    options = ["tune", write_table(tmp_path / "small.json"), "--results", results, "--strategy", "grid", "--trials", 4]
    assert int8tune(*options, "--name", "here").code == 0
    first = cluster.add_worker()
    cluster.add_worker()
    process = start(*options, "--name", "there", "--build-cluster", cluster.address)
    try:
        wait_for_trials(results, 8 + 2)
        first.kill()
        _, err = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
    assert process.returncode == 0, err.decode()
    here, there = trials_in(results, "here"), trials_in(results, "there")
    assert len(here) == 8
    assert {trial.outcome for trial in here} == {Outcome.OK}
    ends = [[(trial.candidate, trial.outcome, trial.binary) for trial in trials] for trials in (here, there)]
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("address", "code", "message"),
    [
        ("tcp://127.0.0.1:1", 1, "error: the build cluster's scheduler can't be reached: tcp://127.0.0.1:1"),
        ("tcp://10.0.0.5:8786", 2, "a build cluster on another machine needs TLS, tls://HOST:PORT, or a tunnel: tcp"),
        ("127.0.0.1", 2, "a build cluster has an address such as tcp://127.0.0.1:8786: 127.0.0.1"),
    ],
)
def test_a_cluster_that_can_not_be_used_is_one_line(
    address: str,
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cluster_pools, "CONNECT_LIMIT_S", 1.0)
    table, results = write_table(tmp_path / "small.json"), tmp_path / "results"
    assert run(["tune", str(table), "--results", str(results), "--build-cluster", address]) == code
    lines = capsys.readouterr().err.splitlines()
    (error,) = [line for line in lines if line.startswith("error: ")]
    assert message in error
    assert lines[-1].startswith("hint: ")


@pytest.mark.thorough
def test_a_cluster_without_workers_is_said_so(cluster: DaskProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_pools, "CONNECT_LIMIT_S", 1.0)
    with pytest.raises(BuildClusterError, match="no worker has joined the build cluster: "):
        ClusterPool(cluster.address).__enter__()


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:8786", "tcp://[::1]:1", "tcp://localhost:8786", "tls://farm:8786"]
)
def test_loopback_and_tls_are_taken(address: str) -> None:
    assert checked_address(address) == address
