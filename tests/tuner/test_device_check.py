"""How much of each level of memory a device's check reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from int8tune.results.record import Outcome
from int8tune.rpc.request import Capabilities
from int8tune.tuner.builder.job import Built, Job
from int8tune.tuner.device_check import build_probes, read_sizes
from tests.support.run.probes import any_target

KIB, MIB = 1 << 10, 1 << 20


def sizes_of(caches: dict[str, int], limit: int | None = None) -> dict[str, int]:
    device = Capabilities("x86_64", "a CPU", "znver5", "x86_64-linux-gnu", frozenset(), (0,), caches, {})
    return read_sizes(device, limit)


@pytest.mark.parametrize(
    ("caches", "sizes"),
    [
        ({"L1": 32 * KIB, "L2": 1 * MIB, "L3": 32 * MIB}, (16 * KIB, 512 * KIB, 16 * MIB, 128 * MIB)),
        ({}, (16 * KIB, 256 * KIB, 4 * MIB, 64 * MIB)),
        # What a virtual machine is told of a server's cache.
        ({"L1": 48 * KIB, "L2": 2 * MIB, "L3": 480 * MIB}, (24 * KIB, 768 * KIB, 32 * MIB, 512 * MIB)),
    ],
)
def test_half_of_a_cache_is_read_and_of_a_huge_one_less(caches: dict[str, int], sizes: tuple[int, ...]) -> None:
    found = sizes_of(caches)
    assert tuple(found[level] for level in ("L1", "L2", "L3", "memory")) == sizes


class AtOnce:
    """A pool in which all is built as soon as it is submitted."""

    def __init__(self) -> None:
        self._built: list[Built] = []

    def submit(self, job: Job) -> None:
        self._built.append(Built(job.id, Outcome.OK))

    def collect(self, _limit_s: float) -> list[Built]:
        done, self._built = self._built, []
        return done


def test_levels_are_in_the_order_of_their_distance(tmp_path: Path) -> None:
    """Whichever probe is built first: the largest takes longest."""
    sizes = {"memory": 4 * MIB, "L2": 64 * KIB, "L1": 16 * KIB}
    assert list(build_probes(AtOnce(), any_target("generic"), tmp_path, sizes).reads) == ["L1", "L2", "memory"]
