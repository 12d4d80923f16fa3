"""A campaign that is killed at random moments ends with the same candidates as one that is left alone."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from campaigns import SMALL, SMALL_DEPTHWISE

from results.record import Trial
from results.store import SqliteStore

KILLS = 10
TRIALS = 20


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "small.json"
    layers = [{"name": name, "count": 1, "workload": key} for name, key in (("a", SMALL), ("b", SMALL_DEPTHWISE))]
    path.write_text(json.dumps({"format": 1, "name": "small", "description": "for tests", "layers": layers}))
    return path


def tune(table: Path, results: Path, strategy: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tuner.cli.main", "tune", str(table), "--results", str(results)]
    command += ["--strategy", strategy, "--trials", str(TRIALS), "--seed", "7"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def finish(table: Path, results: Path, strategy: str) -> None:
    assert tune(table, results, strategy).wait(timeout=90) == 0


def trials_in(results: Path) -> dict[str, Trial]:
    if not (results / "records.db").exists():
        return {}
    store = SqliteStore(results / "records.db", readonly=True)
    trials = list(store.query(Trial))
    store.close()
    by_id = {trial.candidate.id: trial for trial in trials}
    assert len(by_id) == len(trials)
    return by_id


def descendants_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("strategy", ["random", pytest.param("grid", marks=pytest.mark.slow)])
def test_ten_kills_lose_nothing_and_repeat_nothing(table: Path, tmp_path: Path, strategy: str) -> None:
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    finish(table, alone, strategy)
    rng = random.Random(strategy)
    recorded: dict[str, Trial] = {}
    interrupted = 0
    for _ in range(KILLS):
        process = tune(table, killed, strategy)
        time.sleep(rng.uniform(1.5, 4.5))
        family = descendants_of(process)
        interrupted += process.poll() is None
        process.kill()
        process.wait(timeout=10)
        _, alive = psutil.wait_procs(family, timeout=10)
        assert alive == []
        now = trials_in(killed)
        assert {key: now[key] for key in recorded} == recorded
        recorded = now
    assert interrupted >= KILLS // 2
    finish(table, killed, strategy)
    final = trials_in(killed)
    assert {key: final[key] for key in recorded} == recorded
    assert set(final) == set(trials_in(alone))
    assert len(final) == 2 * TRIALS
    assert not (killed / ".work").exists()


def test_a_finished_campaign_measures_nothing_again(table: Path, tmp_path: Path) -> None:
    finish(table, tmp_path / "results", "grid")
    before = trials_in(tmp_path / "results")
    started = time.monotonic()
    finish(table, tmp_path / "results", "grid")
    assert trials_in(tmp_path / "results") == before
    assert time.monotonic() - started < 10
