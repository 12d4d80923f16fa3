"""Results of a bench with times that were made up, for tests of what they say."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from int8tune.results.bench import LayerFacts
from int8tune.results.record import BenchResult, Candidate, Entrant, Outcome

CONV = "conv2d-u8s8-1x28x28x128-k3x3x128-s1-p1-float.c-u8"
DEPTHWISE = "dwconv2d-u8s8-1x56x56x128-k3x3x1-s1-p1-float.c-u8"
DENSE = "dense-u8s8-1x1024-o1001-float.c-u8"
FACTS: Mapping[str, LayerFacts] = {
    CONV: LayerFacts(115_605_504, "conv 3x3"),
    DEPTHWISE: LayerFacts(3_612_672, "depthwise"),
    DENSE: LayerFacts(1_025_024, "dense"),
}
CLASSES = ("conv 3x3", "depthwise", "dense")
STARTED = "2026-03-01T12:00:00+00:00"
ENVIRONMENT = {"cpu": "AMD EPYC 9B45", "int8tune": "0.1.0"}
ROUNDS = 20


def times_s(median_s: float, noise: float = 0.01, seed: int = 0, rounds: int = ROUNDS) -> tuple[float, ...]:
    """Times around a median."""
    return tuple((median_s * np.exp(np.random.default_rng(seed).normal(0, noise, rounds))).tolist())


def peer(name: str, median_s: float, overhead_s: float = 0.0, noise: float = 0.01, workload: str = CONV) -> Entrant:
    """A library and its times, in which `overhead_s` is included."""
    seed = sum(name.encode())
    overhead = times_s(overhead_s, noise, seed + 1) if overhead_s else ()
    return Entrant(name, "1.0", workload, Outcome.OK, times_s(median_s, noise, seed), overhead)


def exact(name: str, median_s: float, overhead_s: float = 0.0, workload: str = CONV) -> Entrant:
    """A library whose times are all the same."""
    return peer(name, median_s, overhead_s, 0.0, workload)


def failed(name: str, outcome: Outcome = Outcome.RUN_FAILED, error: str = "killed by SIGSEGV") -> Entrant:
    return Entrant(name, "1.0", CONV, outcome, error=error)


def result(ours: Entrant | float, *peers: Entrant, workload: str = CONV, is_tuned: bool = True) -> BenchResult:
    """One layer, with the peak at 1 TOP/s."""
    own = ours if isinstance(ours, Entrant) else Entrant("int8tune", "0.1.0", workload, Outcome.OK, times_s(ours))
    return BenchResult(
        bench="b1",
        candidate=Candidate(workload, "x86-avx512vnni", "x86.conv", 1, {"tile": 7}),
        is_tuned=is_tuned,
        device="local",
        threads=1,
        ours=own,
        peers=peers,
        peak_ops_per_s=times_s(1e12, 0.001, 9),
        environment=ENVIRONMENT,
        started_at=STARTED,
    )
