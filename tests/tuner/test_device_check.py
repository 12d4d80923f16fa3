"""How much of each level of memory a device's check reads."""

from __future__ import annotations

import pytest

from int8tune.rpc.request import Capabilities
from int8tune.tuner.device_check import read_sizes

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


def test_a_session_with_little_memory_reads_less() -> None:
    assert set(sizes_of({"L3": 32 * MIB}, 32 * MIB).values()) == {16 * KIB, 256 * KIB, 8 * MIB}
