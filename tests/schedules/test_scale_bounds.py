"""Bounded scales: no product leaves int32, and no output changes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from int8tune.schedules.numerics import RANGES
from int8tune.schedules.operands import MAX_SCALE, MIN_SCALE
from int8tune.schedules.oracle.reference import scale_binary32
from int8tune.schedules.scale_bounds import bounded_scales, bounds_scales
from int8tune.schedules.workload import Workload, parse_workload

INT32_MIN, INT32_MAX = RANGES["s32"]
BOUNDED = (
    "dwconv2d-u8s8-1x8x8x32-k3x3x1-s1-p1-float.c-u8",
    "dwconv2d-s8u8-1x8x8x32-k5x5x1-s1-p2-wz-float.c-clamp-s8",
    "conv2d-u8s8-1x8x8x128-k1x1x32-s1-p0-float.c-addu8-u8",
    "dense-u8u8-1x64-o32-wz-float.c-u8",
)
UNBOUNDED = (
    "conv2d-u8s8-1x8x8x130-k1x1x32-s1-p0-float.c-u8",
    "dense-u8u8-1x65-o32-wz-float.c-u8",
    "dwconv2d-u8s8-1x8x8x32-k3x3x1-s1-p1-float.t-u8",
    "dwconv2d-u8s8-1x8x8x32-k3x3x1-s1-p1-fixed.c-u8",
    "dwconv2d-u8s8-1x8x8x32-k3x3x1-s1-p1-fused.c-u8",
    "dwconv2d-u8s8-1x8x8x32-k3x3x1-s1-p1-s32",
)


def largest_sum(workload: Workload) -> int:
    weight = 255 if workload.numerics.weight_zero_point or workload.numerics.weight == "u8" else 128
    return workload.reduction * 255 * weight


def feasible_sums(bias: int, largest: int) -> list[int]:
    """The ends of what a channel's sums can be, and what is near zero, wrapped like int32."""
    candidates = [bias + end for end in (-largest, -1, 0, 1, largest)]
    candidates += [near for near in (-3, -2, -1, 0, 1, 2, 3) if abs(near - bias) <= largest]
    return [int(np.int64(value).astype(np.int32)) for value in candidates]


@pytest.mark.parametrize("key", BOUNDED)
@pytest.mark.matrix(at_most=2)
def test_outputs_are_the_same(key: str) -> None:
    workload = parse_workload(key)
    largest = largest_sum(workload)
    near = [largest * turn + shift for turn in (-2, -1, 0, 1, 2) for shift in (-1, 0, 1)]
    biases = [INT32_MIN, INT32_MIN + largest, *near, INT32_MAX - largest, INT32_MAX]
    edges = [2.0**31 / (abs(bias) + largest) for bias in biases]
    scales = [MIN_SCALE, 1.0, 254.0, 255.0, 256.0, MAX_SCALE, *edges, *(edge * (1 + 1e-6) for edge in edges)]
    low, high = RANGES[workload.numerics.output]
    for bias, plain in itertools.product(biases, np.array(scales, np.float32)):
        scale = bounded_scales(workload, np.array([plain]), np.array([bias], np.int32))
        sums = np.array(feasible_sums(bias, largest), np.int64)
        products = sums.astype(np.float32) * scale
        assert np.abs(products).max() < 2.0**31, (bias, plain)
        for zero_point in (low, high, 0):
            was, now = (np.clip(scale_binary32(sums, s) + zero_point, low, high) for s in (plain[None], scale))
            assert np.array_equal(was, now), (bias, plain, zero_point)


def test_scales_in_use_stay_as_they_are() -> None:
    workload = parse_workload(BOUNDED[0])
    scale = np.array([1e-4, 0.5, 1.5, 100.0], np.float32)
    assert bounded_scales(workload, scale, np.array([0, 20_000, -20_000, 300_000], np.int32)) is not scale
    assert np.array_equal(bounded_scales(workload, scale, np.array([0, 20_000, -20_000, 300_000], np.int32)), scale)


@pytest.mark.parametrize("key", UNBOUNDED)
def test_where_scales_can_not_be_bounded(key: str) -> None:
    """The smallest sum but zero would no longer saturate, a scale is of many channels, or there is none."""
    workload = parse_workload(key)
    assert not bounds_scales(workload)
    scale = np.array([MAX_SCALE], np.float32)
    assert bounded_scales(workload, scale, np.array([INT32_MAX], np.int32)) is scale
