"""How long our own paths through the store take: `pytest -k "benchmark or speed or overhead" --benchmark-enable`."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from int8tune.results.record import Trial
from int8tune.results.store import SqliteStore
from tests.support.program.results_samples import campaign, candidate, ok

TRIALS = 2000


@pytest.mark.benchmark(group="store")
def test_benchmark_append(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """One trial, durable when the call returns."""
    numbers = count()
    with SqliteStore(tmp_path / "records.db") as store:
        store.append([campaign()])
        benchmark(lambda: store.append([ok(next(numbers))]))
        assert sum(1 for _ in store.query(Trial)) == next(numbers)


@pytest.mark.benchmark(group="store")
def test_benchmark_query(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """All of 2,000 trials."""
    with SqliteStore(tmp_path / "records.db") as store:
        store.append([campaign(), *(ok(number) for number in range(TRIALS))])
        assert benchmark(lambda: sum(1 for _ in store.query(Trial))) == TRIALS
        assert candidate(TRIALS - 1).id in {trial.candidate.id for trial in store.query(Trial)}
