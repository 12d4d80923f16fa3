"""The end of GPU kernels: bytes by the float rule are requantized in a way of their own, which is the oracle's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from int8tune.schedules.numerics import RANGES
from int8tune.schedules.operands import DTYPES, MAX_SCALE, MIN_SCALE, Operands
from int8tune.schedules.registry import template_named
from int8tune.schedules.workload import parse_workload
from tests.support.gpu import emulated as emulated_gpus
from tests.support.kernels.kernels import Built, build
from tests.support.run.probes import host_target

INT32_MIN, INT32_MAX = RANGES["s32"]
TOTALS = (
    *range(-9, 10),
    *(sign * 2**bits + step for sign in (-1, 1) for bits in (8, 22, 23, 24, 30) for step in (-1, 0, 1)),
    *(INT32_MIN, INT32_MIN + 1, INT32_MAX - 1, INT32_MAX),
)
# Halves and what is next to them, scales whose products leave int32 or are hardly any, and ordinary ones.
SCALES = (
    *(0.5, np.nextafter(np.float32(0.5), np.float32(0)), np.nextafter(np.float32(0.5), np.float32(1))),
    *(1.0, 2.5, 1 / 3, 0.1, 2.0**-8, 3.0 * 2**-24, 2.0**12, 6144.0, MIN_SCALE, MAX_SCALE),
)
PAIRS = list(itertools.product(TOTALS, SCALES))
CHANNELS = -(-len(PAIRS) // 64) * 64
# How outputs are packed, and added to the lowest one.
FAULTS = {
    "no saturation": (r"__saturatef\(", "("),
    "halves rounded up": (r"0x1\.8p-1f", "0x1.800002p-1f"),
    "the lowest output left out": (r"(int8tune_pack_bytes\(v_.*), v_\d+\);", r"\1, 0);"),
}


def dense(output: str, template: str) -> Built:
    target = host_target({"cuda.dp4a": "cuda-sm75", "cuda.mma": "cuda-sm80"}[template])
    workload, chosen = parse_workload(f"dense-u8s8-2x16-o{CHANNELS}-float.c-clamp-{output}"), template_named(template)
    return build(workload, target, chosen.space(workload, target).default, chosen)


def cases(kernel: Built) -> list[Operands]:
    """Sums that are their biases, of all totals and scales, in all kinds of ranges of outputs."""
    low, high = RANGES[kernel.workload.numerics.output]
    pairs = [*PAIRS, *([PAIRS[0]] * (CHANNELS - len(PAIRS)))]
    shared: dict[str, Any] = {
        "data": np.zeros(kernel.workload.data_shape, np.uint8),
        "weight": np.ones(kernel.workload.weight_shape, DTYPES["s8"]),
        "bias": np.array([total for total, _ in pairs], np.int32),
        "scale": np.array([scale for _, scale in pairs], np.float32),
    }
    ranges = ((low, high, low), (low, high, high), (low, high, low + 101), (low + 100, high, low + 100))
    narrow = ((low + 7, high - 9, low + 30), (high, high, low), (low, low, high))
    return [
        Operands(**shared, clamp_low=least, clamp_high=most, output_zero_point=zero_point)
        for least, most, zero_point in (*ranges, *narrow)
    ]


@pytest.mark.matrix(at_most=1)
@pytest.mark.parametrize("template", ["cuda.dp4a", "cuda.mma"])
@pytest.mark.parametrize("output", ["u8", "s8"])
def test_packed_bytes_are_the_oracles(output: str, template: str) -> None:
    kernel = dense(output, template)
    for operands in cases(kernel):
        assert kernel.is_exact(operands)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.matrix(at_most=1)
def test_a_wrong_epilogue_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host_target("cuda-sm75")
    emulated_gpus.compile_with_fault(monkeypatch, *FAULTS[fault])
    kernel = dense("u8", "cuda.dp4a")
    assert not all(kernel.is_exact(operands) for operands in cases(kernel))
