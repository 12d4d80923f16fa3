"""A writer that is killed at any moment loses nothing that it acknowledged."""

from __future__ import annotations

import multiprocessing
import os
import random
import sqlite3
import time
from multiprocessing.context import ForkProcess
from pathlib import Path

import pytest

from int8tune.results.atomic import write_atomic
from int8tune.results.record import Candidate, Config, Measurement, Trial
from int8tune.results.store import SqliteStore
from tests.support.program.results_samples import campaign, candidate, ok

pytestmark = pytest.mark.promise(1)

FORK = multiprocessing.get_context("fork")
FEW_KILLS, KILLS, MANY_KILLS = 8, 25, 200
ROUND_LIMIT_S = 10.0


def _trial(sequence: int) -> Trial:
    """A trial whose size varies, so that kills fall into commits, page splits and checkpoints."""
    plain = ok(sequence)
    config: Config = {"tile": sequence, "note": "x" * (sequence * 37 % 900)}
    chosen = Candidate(plain.candidate.workload, plain.candidate.target, "direct", 1, config)
    return Trial(
        campaign="c1",
        sequence=sequence,
        candidate=chosen,
        outcome=plain.outcome,
        measurement=Measurement((1e-3,) * (1 + sequence % 50), 1),
        device=plain.device,
        environment={**plain.environment, "boot": str(sequence // 10)},
        started_at=plain.started_at,
    )


def _write(path: Path, first: int, acknowledged: int) -> None:
    store = SqliteStore(path)
    for sequence in range(first, first + 100_000):
        store.append([_trial(sequence)])
        os.write(acknowledged, b"+")


def _killed_after(delay_s: float, path: Path, first: int) -> int:
    """Start a writer, kill it, and return how many appends it acknowledged."""
    read_end, write_end = os.pipe()
    writer = FORK.Process(target=_write, args=(path, first, write_end))
    writer.start()
    os.close(write_end)
    try:
        count = len(os.read(read_end, 1))  # the writer is at work
        time.sleep(delay_s)
        _kill(writer)
        while chunk := os.read(read_end, 65536):
            count += len(chunk)
    finally:
        _kill(writer)
        os.close(read_end)
    return count


def _kill(process: ForkProcess) -> None:
    process.kill()
    process.join(ROUND_LIMIT_S)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "kills",
    [
        FEW_KILLS,
        pytest.param(KILLS, marks=pytest.mark.thorough),
        pytest.param(MANY_KILLS, marks=pytest.mark.slow),
    ],
)
def test_acknowledged_trials_survive_kills(tmp_path: Path, kills: int) -> None:
    path = tmp_path / "results.db"
    moments = random.Random(11)
    with SqliteStore(path) as store:
        store.append([campaign()])
    there = 0
    for _ in range(kills):
        acknowledged = _killed_after(moments.uniform(0, 0.12), path, there)
        assert acknowledged > 0
        with SqliteStore(path) as store:
            found = list(store.query(Trial))
        # One more than acknowledged may be there: the kill can fall between the commit and the message.
        assert there + acknowledged <= len(found) <= there + acknowledged + 1
        assert found == [_trial(sequence) for sequence in range(len(found))]
        there = len(found)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_a_reader_sees_all_of_a_killed_writers_trials_without_a_new_writer(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with SqliteStore(path) as store:
        store.append([campaign()])
    acknowledged = _killed_after(0.05, path, 0)
    with SqliteStore(path, readonly=True) as store:
        assert len(list(store.query(Trial))) >= acknowledged


@pytest.mark.parametrize("delay_s", [0.0, 0.0005, 0.001, 0.002, 0.004, 0.008])
def test_a_file_whose_creation_was_killed_can_be_used(tmp_path: Path, delay_s: float) -> None:
    path = tmp_path / "results.db"
    creator = FORK.Process(target=SqliteStore, args=(path,))
    creator.start()
    limit_s = time.monotonic() + ROUND_LIMIT_S
    while not (tmp_path / "results.db.lock").exists() and time.monotonic() < limit_s:
        pass
    time.sleep(delay_s)
    _kill(creator)
    with SqliteStore(path) as store:
        store.append([campaign(), ok(0)])
        assert [trial.candidate for trial in store.query(Trial)] == [candidate(0)]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["results.db", "results.db.lock"]


def _rewrite(path: Path) -> None:
    for number in range(100_000):
        write_atomic(path, f"{number}\n" * 20_000)


def test_a_killed_rewrite_leaves_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "best.jsonl"
    moments = random.Random(5)
    write_atomic(path, "0\n" * 20_000)
    for _ in range(10):
        writer = FORK.Process(target=_rewrite, args=(path,))
        writer.start()
        time.sleep(moments.uniform(0.005, 0.04))
        _kill(writer)
        lines = path.read_text().splitlines()
        assert len(lines) == 20_000
        assert len(set(lines)) == 1
