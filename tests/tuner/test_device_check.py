"""How much of each level of memory a device's check reads, and which of its moments count."""

from __future__ import annotations

from pathlib import Path

import pytest

from int8tune.results.record import Outcome
from int8tune.rpc.request import Capabilities, Case, Program, Reply, Request
from int8tune.rpc.transports.fake import FakeTransport
from int8tune.tuner.builder.job import Built, Job
from int8tune.tuner.device_check import Probes, build_probes, check_device, read_sizes
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


def probe(name: str, work: int) -> Built:
    case = Case((), "expected.npy")
    return Built(f"probe {name}", Outcome.OK, Program(name, "0" * 64, "probe", (case,)), work=work)


# A moment is five repeats, of which a session of a memory has three.
NOISY, SLOW, QUIET = (4.0, 8.0, 4.0, 8.0, 4.0), (3.0, 3.0, 3.0, 3.0, 3.0), (2.0, 2.0, 2.0, 2.0, 2.0)


@pytest.mark.parametrize(
    ("work", "sessions", "median_s"),
    [
        (64, [NOISY + NOISY + SLOW], 3.0),
        (64, [NOISY + NOISY + NOISY, NOISY + QUIET + SLOW], 2.0),
        # It takes seconds to fill so much memory.
        (64 * MIB, [NOISY + NOISY + NOISY], 4.0),
    ],
)
def test_a_memory_s_bandwidth_is_that_of_its_quietest_moment(
    work: int, sessions: list[tuple[float, ...]], median_s: float
) -> None:
    left = list(sessions)

    def answer(request: Request) -> Reply:
        is_peak = request.programs[0].library == "peak"
        times_s = (1.0,) * request.timing.repeats if is_peak else left.pop(0)
        assert len(times_s) == request.timing.repeats
        return Reply(Outcome.OK, (times_s,))

    transport = FakeTransport(answer)
    transport.start()
    probes = Probes(probe("peak", 10), {"L2": probe("L2", work)})
    measured = check_device(transport, probes, "local", any_target("generic"), {})
    assert measured.bandwidth_bytes_per_s == {"L2": work / median_s}
    assert (measured.peak_ops_per_s, measured.noise) == (10, 0)
    assert left == []
