"""How long our own paths through the store take: `make bench-self`."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from int8tune.results.codec import checksum, codec_of, encode
from int8tune.results.record import Trial
from int8tune.results.store import SqliteStore
from int8tune.results.upkeep.merging import merge_stores
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


@pytest.mark.benchmark(group="store")
def test_benchmark_encode(benchmark: BenchmarkFixture) -> None:
    """1,000 trials to the values of their rows."""
    trials, table = [ok(number) for number in range(1000)], codec_of(Trial).table

    def rows() -> int:
        joined = {"campaign_id": 1, "environment_id": 1}
        return len({checksum(table, encode(trial) | joined) for trial in trials})

    assert benchmark(rows) > 990


@pytest.mark.benchmark(group="store")
def test_benchmark_merge(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """Two stores with the same 1,000 trials."""
    for name in ("a", "b"):
        with SqliteStore(tmp_path / f"{name}.db") as store:
            store.append([campaign(), *(ok(number) for number in range(1000))])
    stores, out = [tmp_path / "a.db", tmp_path / "b.db"], tmp_path / "both.db"

    def merged() -> int:
        out.unlink(missing_ok=True)
        return merge_stores(stores, out).trials

    assert benchmark.pedantic(merged, rounds=5, warmup_rounds=1) == 1000  # type: ignore[no-untyped-call]
