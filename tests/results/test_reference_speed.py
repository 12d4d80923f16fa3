"""A piece of work that no change of this program touches: how fast the machine is while our own paths are timed."""

from __future__ import annotations

import json
import zlib

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

# As many as `tests.own_speed` puts between the others.
COUNT = 16


@pytest.mark.benchmark(group="reference")
@pytest.mark.parametrize("place", range(COUNT))
@pytest.mark.thorough
def test_speed_of_the_reference(benchmark: BenchmarkFixture, place: int) -> None:
    def work() -> int:
        values = {f"name-{number}": [number * 1.25, str(number)] for number in range(4000)}
        return zlib.crc32(json.dumps(sorted(values.items())).encode())

    assert place < COUNT
    assert benchmark.pedantic(work, rounds=30, warmup_rounds=2) > 0  # type: ignore[no-untyped-call]
