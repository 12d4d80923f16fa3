"""A campaign that is killed at random moments ends with the same candidates as one that is left alone."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from int8tune.results.record import Trial
from int8tune.results.store import SqliteStore
from int8tune.schedules.registry import template_for
from int8tune.schedules.workload import parse_workload
from tests.support.program.cli_program import CONV, DEPTHWISE, wait_for_trials, write_table
from tests.support.run.probes import host_target

pytestmark = pytest.mark.promise(7, 19)

# Trials of a layer for each kill: with two layers, more than are recorded before the last one.
TRIALS_PER_KILL = 2


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("table") / "small.json")


def space_sizes() -> list[int]:
    """How many configs each layer of the table has on this machine: on some CPUs fewer than a campaign may try."""
    target = host_target()
    return [template_for(one, target).space(one, target).size for one in map(parse_workload, (CONV, DEPTHWISE))]


def tune(table: Path, results: Path, strategy: str, trials: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "int8tune", "tune", str(table), "--results", str(results)]
    command += ["--strategy", strategy, "--trials", str(trials), "--seed", "7"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def finish(table: Path, results: Path, strategy: str, trials: int) -> None:
    assert tune(table, results, strategy, trials).wait(timeout=90) == 0


def trials_in(results: Path) -> dict[str, Trial]:
    if not (results / "records.db").exists():
        return {}
    store = SqliteStore(results / "records.db", readonly=True)
    trials = list(store.query(Trial))
    store.close()
    by_id = {trial.candidate.id: trial for trial in trials}
    assert len(by_id) == len(trials)
    return by_id


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a campaign, which must not have ended before; it takes its children with it."""
    family = psutil.Process(process.pid).children(recursive=True)
    assert process.poll() is None
    process.kill()
    process.wait(timeout=10)
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []


@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("strategy", "kills"),
    [("random", 1), *(pytest.param(strategy, 12, marks=pytest.mark.slow) for strategy in ("random", "grid"))],
)
def test_kills_lose_nothing_and_repeat_nothing(table: Path, tmp_path: Path, strategy: str, kills: int) -> None:
    """Half of the kills come while the campaign starts, half after one to three trials more."""
    trials = TRIALS_PER_KILL * kills
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    finish(table, alone, strategy, trials)
    rng = random.Random(strategy)
    recorded: dict[str, Trial] = {}
    for number in range(kills):
        process = tune(table, killed, strategy, trials)
        if number % 2:
            wait_for_trials(killed, len(recorded) + rng.randint(1, 3))
        time.sleep(rng.uniform(0, 0.3 if number % 2 else 1.5))
        kill(process)
        now = trials_in(killed)
        assert {key: now[key] for key in recorded} == recorded
        recorded = now
    assert len(recorded) >= kills // 2
    finish(table, killed, strategy, trials)
    final = trials_in(killed)
    assert {key: final[key] for key in recorded} == recorded
    assert set(final) == set(trials_in(alone))
    assert len(final) == sum(min(trials, size) for size in space_sizes())
    assert not (killed / ".work").exists()
    finish(table, killed, strategy, trials)  # nothing is left to do
    assert trials_in(killed) == final
