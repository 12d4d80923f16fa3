"""Kernels that measure the device itself: its int8 peak and the bandwidth of its memories.

Probes have fixed inputs and known outputs, so they are verified like any candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from schedules.target import Target

# Chains of dependent sums that run side by side: more than the instruction's latency times its throughput.
# A multiply-add needs a register for the weights of each chain, too.
DOT_CHAINS, MULTIPLY_ADD_CHAINS, READ_CHAINS = 24, 12, 12
PEAK_STEPS = 8000
LINE_BYTES = 64


@dataclass(frozen=True, slots=True)
class Probe:
    """A PrimFunc with one case.

    Attributes:
        work: what one call does, int8 operations (a multiply and an add are two) or bytes read.
    """

    function: Any
    inputs: tuple[npt.NDArray[Any], ...]
    expected: npt.NDArray[Any]
    work: int


def peak_probe(target: Target) -> Probe:
    """A loop of the target's fastest int8 multiply-add on registers and one cache line."""
    from schedules.compute_probes import peak_dot, peak_multiply_add

    rng = np.random.default_rng(0)
    lanes = target.vector_lanes
    if target.profile == "x86-avx512vnni":
        chains, taps = DOT_CHAINS, 4
        data = rng.integers(0, 256, taps).astype(np.uint8)
        weight = rng.integers(-128, 128, (lanes, taps)).astype(np.int8)
        expected = np.arange(chains)[:, None] + weight.astype(np.int64) @ data * PEAK_STEPS
        function = peak_dot(chains, PEAK_STEPS)
    else:
        chains, taps = MULTIPLY_ADD_CHAINS, 1
        data = rng.integers(0, 256, PEAK_STEPS).astype(np.uint8)
        weight = rng.integers(-128, 128, (chains, lanes)).astype(np.int8)
        expected = weight.astype(np.int64) * int(data.astype(np.int64).sum())
        function = peak_multiply_add(chains, PEAK_STEPS, lanes)
    work = 2 * chains * PEAK_STEPS * lanes * taps
    return Probe(function, (data, weight), expected.astype(np.int32), work)


def bandwidth_probe(size_bytes: int) -> Probe:
    """A loop that reads `size_bytes` (rounded down to whole lines) and sums them as int32."""
    from schedules.compute_probes import read_lines

    lines = max(READ_CHAINS, size_bytes // LINE_BYTES // READ_CHAINS * READ_CHAINS)
    data = np.arange(lines * LINE_BYTES // 4, dtype=np.int32).reshape(lines, LINE_BYTES // 4)
    sums = data.reshape(-1, READ_CHAINS, LINE_BYTES // 4).astype(np.int64).sum(axis=0)
    expected = (sums & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    return Probe(read_lines(lines, LINE_BYTES // 4, READ_CHAINS), (data,), expected, data.nbytes)
