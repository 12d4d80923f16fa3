"""Workloads: keys that parse back, layers that can't exist, and counts."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from int8tune.schedules.errors import WorkloadError
from int8tune.schedules.numerics import ROUNDING_RULES, Numerics, Requantize, Residual
from int8tune.schedules.workload import (
    MAX_EXTENT,
    MAX_REDUCTION,
    Conv2d,
    Dense,
    DepthwiseConv2d,
    Window,
    Workload,
    parse_workload,
)
from tests.support.kernels.layers import residuals

POINT = Window((1, 1))


@st.composite
def numerics(draw: st.DrawFn) -> Numerics:
    kinds: st.SearchStrategy[Any] = st.sampled_from(["u8", "s8"])
    rule: Any = draw(st.sampled_from(ROUNDING_RULES))
    output: Any = draw(st.sampled_from(["u8", "s8", "s32"]))
    exceptions = rule == "fused" and draw(st.booleans())
    step = None if output == "s32" else Requantize(rule, draw(st.booleans()), exceptions)
    clamp = output != "s32" and draw(st.booleans())
    residual = draw(residuals(rule)) if output != "s32" and draw(st.booleans()) else None
    return Numerics(draw(kinds), draw(kinds), output, step, draw(st.booleans()), clamp, residual)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    kernel, stride, dilation, padding = st.integers(1, 7), st.integers(1, 4), st.integers(1, 3), st.integers(0, 3)
    return Window(
        kernel=draw(st.tuples(kernel, kernel)),
        stride=draw(st.tuples(stride, stride)),
        padding=draw(st.tuples(padding, padding, padding, padding)),
        dilation=draw(st.tuples(dilation, dilation)),
    )


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    size, channels = st.integers(19, 300), st.integers(1, 100)
    form = draw(st.sampled_from([Conv2d, DepthwiseConv2d, Dense]))
    if form is Dense:
        return Dense(draw(size), draw(st.integers(1, MAX_REDUCTION)), draw(size), draw(numerics()))
    shape = draw(st.integers(1, 8)), draw(size), draw(size)
    if form is DepthwiseConv2d:
        return DepthwiseConv2d(*shape, draw(channels), draw(windows()), draw(st.integers(1, 3)), draw(numerics()))
    groups = draw(st.integers(1, 5))
    return Conv2d(*shape, groups * draw(channels), groups * draw(channels), draw(windows()), groups, draw(numerics()))


@settings(deadline=None)
@given(workloads())
def test_keys_parse_back(workload: Workload) -> None:
    assert parse_workload(workload.key) == workload
    assert parse_workload(workload.key).key == workload.key
    assert workload.key.isascii()
    assert not set(workload.key) & set(" /\\\"'")


@settings(deadline=None)
@given(workloads(), workloads())
def test_different_workloads_have_different_keys(one: Workload, other: Workload) -> None:
    assert (one == other) == (one.key == other.key)


@pytest.mark.parametrize(
    "key",
    [
        "conv2d-u8s8-1x56x56x64-k3x3x128-s1-p1-float.c-u8",
        "conv2d-s8s8-2x56x28x64-k3x1x128-s2x1-p1.0.2.0-d1x2-g4-wz-fixed.t-clamp-s8",
        "dwconv2d-u8u8-1x112x112x32-k3x3x1-s2-p0.0.1.1-wz-fixed.t-clamp-u8",
        "dense-s8s8-128x768-o3072-s32",
        "conv2d-s8s8-1x56x56x64-k1x1x256-s1-p0-fixed.c-adds8-clamp-s8",
        "dense-u8s8-1x64-o64-wz-float.c-clamp-addu8-u8",
        "dense-u8s8-1x64-o64-float.c-clamp-adds8.first-clamp-u8",
        "conv2d-s8s8-1x56x56x64-k1x1x256-s1-p0-fixed.t-adds8.fused-clamp-s8",
        "conv2d-s8s8-1x56x56x64-k1x1x256-s1-p0-fused.cx-s8",
        "dense-s8s8-1x56-o64-fine.c-adds8-s8",
        "dwconv2d-u8u8-1x112x112x32-k3x3x1-s1-p1-wz-fused.t-clamp-addu8-u8",
    ],
)
def test_keys_read_like_the_documented_ones(key: str) -> None:
    assert parse_workload(key).key == key


def test_workloads_are_values() -> None:
    key = "conv2d-u8s8-1x56x56x64-k3x3x128-s1-p1-float.c-u8"
    assert len({parse_workload(key), parse_workload(key)}) == 1
    with pytest.raises(FrozenInstanceError):
        parse_workload(key).numerics = Numerics()  # type: ignore[misc]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "unknown operator ``, known: conv2d, dwconv2d, dense"),
        ("pool-u8s8-1x8", "unknown operator `pool`"),
        ("dense", "is not a dense key, which look like `dense-u8s8-1x1024-o1000-float.c-u8`"),
        ("dense-u8s8-1x4-o4-float.c-u8 ", "is not a dense key"),
        ("dense-u8s8-1x4-o4-float.c-u8\n", "is not a dense key"),
        ("dense-u8s8-1x04-o4-float.c-u8", "is not a dense key"),
        ("dense-u8s8-0x4-o4-float.c-u8", "is not a dense key"),
        ("dense-u8s8--1x4-o4-float.c-u8", "is not a dense key"),
        ("dense-u8f8-1x4-o4-float.c-u8", "is not a dense key"),
        ("dense-u8s8-1x4-o4-float.c-f32", "is not a dense key"),
        ("dense-u8s8-1x4-o4-even.c-u8", "is not a dense key"),
        ("dense-u8s8-1x4-o4-fused.x-u8", "is not a dense key"),
        ("dense-u8s8-1x4-o4-float.cx-u8", "exceptions need the rounding rule fused: float"),
        ("dense-u8s8-1x4-o4-fixed.tx-u8", "exceptions need the rounding rule fused: fixed"),
        ("dense-u8s8-1x4-o4-fine.cx-u8", "exceptions need the rounding rule fused: fine"),
        ("dense-u8s8-1x٣-o4-float.c-u8", "is not a dense key"),
        ("dense-u8s8-1x4-o4-u8", "an output of type u8 needs a requantize step"),
        ("dense-u8s8-1x4-o4-float.c-s32", "an output of type s32 takes no requantize step"),
        ("dense-u8s8-1x4-o4-clamp-s32", "a clamp needs an 8-bit output"),
        ("dense-u8s8-1x4-o4-addu8-s32", "a residual needs an 8-bit output: nothing is added to s32 sums"),
        ("dense-u8s8-1x4-o4-float.c-adds32-u8", "is not a dense key"),
        ("dense-u8s8-1x4-o4-addu8-float.c-u8", "is not a dense key"),
        ("dense-u8s8-1x4-o4-fixed.c-addu8.first-u8", "first summand by the rounding rule float only: fixed"),
        (
            "dense-u8s8-1x4-o4-float.c-addu8.fused-u8",
            "rule fused of its own beside the rounding rule fixed only: float",
        ),
        ("dense-u8s8-1x4-o4-float.c-addu8-first-u8", "is not a dense key"),
        ("dense-u8s8-1x999999999-o4-s32", "features must be integers of 1 to 1048576"),
        ("dense-u8s8-1x33026-o4-s32", "sums of 33026 products may overflow int32, the limit is 33025 products"),
        ("dense-u8s8-1000000x30000-o4-s32", "data of shape (1000000, 30000) need over 2147483648 bytes"),
        ("conv2d-u8s8-1x8x8x4-k3x3x4-s1-p1.1.1.1-s32", "is not in its shortest form: conv2d-u8s8-1x8x8x4-k3x3x4-s1-p1"),
        ("conv2d-u8s8-1x8x8x4-k3x3x4-s2x2-p1-s32", "is not in its shortest form"),
        ("conv2d-u8s8-1x8x8x4-k3x3x4-s1-p1-d1-s32", "is not in its shortest form"),
        ("conv2d-u8s8-1x8x8x4-k3x3x4-s1-p1-d2x2-s32", "is not in its shortest form"),
        ("conv2d-u8s8-1x8x8x4-k3x3x4-s1-p1-g1-s32", "is not in its shortest form"),
        ("conv2d-u8s8-1x8x8x4-k3x3x4-s1-p01-s32", "is not in its shortest form"),
        ("conv2d-u8s8-1x8x8x4-k3x3x4-s1-p1.1-s32", "padding is one number or four"),
        ("conv2d-u8s8-1x8x8x4-k3x3x4-s1-p9999999-s32", "padding must be integers of 0 to 1048576"),
        ("conv2d-u8s8-1x8x8x4-k3x3x4-s1-p1-g3-s32", "groups must divide both channel counts: 3 groups, 4 in, 4 out"),
        ("conv2d-u8s8-1x2x8x4-k3x3x4-s1-p0-s32", "the window spans 3 rows, the padded image has only 2"),
        ("dwconv2d-u8s8-1x8x4x4-k3x3x1-s1-p0-d2-s32", "the window spans 5 columns, the padded image has only 4"),
        ("dwconv2d-u8s8-1x8x8x4-k3x3x1-s1-p0-g2-s32", "is not a dwconv2d key"),
    ],
)
def test_keys_of_no_layer_are_refused_with_a_reason(key: str, reason: str) -> None:
    with pytest.raises(WorkloadError) as error:
        parse_workload(key)
    assert reason in str(error.value)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_no_text_breaks_the_parser(text: str) -> None:
    with pytest.raises(WorkloadError):
        parse_workload(text)


@settings(deadline=None)
@given(workloads(), st.data())
def test_no_edited_key_breaks_the_parser(workload: Workload, data: st.DataObject) -> None:
    key = workload.key
    at = data.draw(st.integers(0, len(key)))
    edited = key[:at] + data.draw(st.text("0123456789x.-gpsdu", max_size=3)) + key[at + data.draw(st.integers(0, 2)) :]
    with contextlib.suppress(WorkloadError):
        assert parse_workload(edited).key == edited


NOT_EXTENTS = [0, -1, True, 1.0, "1", None, MAX_EXTENT + 1, np.int64(4)]


@pytest.mark.parametrize("bad", NOT_EXTENTS)
def test_extents_are_positive_integers_within_the_limit(bad: Any) -> None:
    for position in range(5):
        with pytest.raises(WorkloadError, match=f"must be integers of 1 to {MAX_EXTENT}"):
            Conv2d(*_with_bad([1, 8, 8, 4, 4, POINT], position, bad))
    for position in range(4):
        with pytest.raises(WorkloadError, match=f"must be integers of 1 to {MAX_EXTENT}"):
            DepthwiseConv2d(*_with_bad([1, 8, 8, 4, POINT], position, bad))
    for position in range(3):
        with pytest.raises(WorkloadError, match=f"must be integers of 1 to {MAX_EXTENT}"):
            Dense(*_with_bad([1, 8, 8], position, bad))
    with pytest.raises(WorkloadError, match="groups must be integers"):
        Conv2d(1, 8, 8, 4, 4, POINT, groups=bad)
    with pytest.raises(WorkloadError, match="multiplier must be integers"):
        DepthwiseConv2d(1, 8, 8, 4, POINT, multiplier=bad)


@pytest.mark.parametrize("bad", NOT_EXTENTS)
@pytest.mark.parametrize("name", ["kernel", "stride", "dilation"])
def test_windows_are_made_of_positive_integers(name: str, bad: Any) -> None:
    arguments: dict[str, Any] = {"kernel": (3, 3), name: (1, bad)}
    with pytest.raises(WorkloadError, match=f"{name} must be integers of 1 to {MAX_EXTENT}"):
        Window(**arguments)


@pytest.mark.parametrize("bad", [-1, True, 0.0, MAX_EXTENT + 1])
def test_padding_is_made_of_integers(bad: Any) -> None:
    with pytest.raises(WorkloadError, match="padding must be integers of 0 to"):
        Window((3, 3), padding=(0, 0, bad, 0))


def _with_bad(values: list[Any], position: int, bad: Any) -> list[Any]:
    return [*values[:position], bad, *values[position + 1 :]]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"data": "u16"}, "unknown data type `u16`, known: u8, s8"),
        ({"weight": "s4"}, "unknown weight type `s4`, known: u8, s8"),
        ({"output": "f32"}, "unknown output type `f32`, known: u8, s8, s32"),
        ({"output": "s32"}, "an output of type s32 takes no requantize step"),
        ({"requantize": None}, "an output of type u8 needs a requantize step"),
        ({"output": "s32", "requantize": None, "clamp": True}, "a clamp needs an 8-bit output"),
        ({"output": "s32", "requantize": None, "residual": Residual()}, "a residual needs an 8-bit output"),
    ],
)
def test_numerics_that_mean_nothing_are_refused(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(WorkloadError) as error:
        Numerics(**arguments)
    assert reason in str(error.value)


def test_unknown_rounding_rules_are_refused() -> None:
    rule: Any = "up"
    with pytest.raises(WorkloadError, match="unknown rounding rule `up`, known: float, fixed, fused, fine"):
        Requantize(rule)


def test_unknown_types_of_residuals_are_refused() -> None:
    kind: Any = "s32"
    with pytest.raises(WorkloadError, match="unknown residual type `s32`, known: u8, s8"):
        Residual(kind)


def test_no_sum_of_products_can_overflow() -> None:
    assert MAX_REDUCTION * 255 * 255 < 2**31 <= (MAX_REDUCTION + 1) * 255 * 255
    assert Dense(1, MAX_REDUCTION, 1).reduction == MAX_REDUCTION
    with pytest.raises(WorkloadError, match="may overflow int32"):
        Conv2d(1, 3, 3, 3670, 1, Window((3, 3)))
    with pytest.raises(WorkloadError, match="may overflow int32"):
        DepthwiseConv2d(1, 200, 200, 1, Window((182, 182)))


def test_output_sizes_count_the_windows_that_fit() -> None:
    ranges = (range(1, 4), range(1, 4), range(3), range(3), range(1, 3), range(5, 9))
    for kernel, stride, before, after, dilation, extent in itertools.product(*ranges):
        window = Window((1, kernel), (1, stride), (0, before, 0, after), (1, dilation))
        reach = dilation * (kernel - 1)
        fitting = range(-before, extent + after - reach, stride)
        assert window.output_size(7, extent) == (7, len(fitting))


@pytest.mark.parametrize(
    ("key", "shapes", "reduction", "macs"),
    [
        # ResNet-18's first layer: 118 million MACs.
        (
            "conv2d-u8s8-1x224x224x3-k7x7x64-s2-p3-float.c-u8",
            ((1, 224, 224, 3), (64, 7, 7, 3), (1, 112, 112, 64)),
            147,
            118_013_952,
        ),
        (
            "conv2d-u8s8-2x8x8x12-k3x3x18-s1-p1-g6-float.c-u8",
            ((2, 8, 8, 12), (18, 3, 3, 2), (2, 8, 8, 18)),
            18,
            2 * 8 * 8 * 18 * 18,
        ),
        (
            "dwconv2d-u8s8-1x112x112x32-k3x3x2-s2-p0.0.1.1-float.c-u8",
            ((1, 112, 112, 32), (64, 3, 3), (1, 56, 56, 64)),
            9,
            56 * 56 * 64 * 9,
        ),
        ("dense-u8s8-128x768-o3072-float.c-u8", ((128, 768), (3072, 768), (128, 3072)), 768, 301_989_888),
    ],
)
def test_shapes_and_counts(key: str, shapes: tuple[tuple[int, ...], ...], reduction: int, macs: int) -> None:
    workload = parse_workload(key)
    assert (workload.data_shape, workload.weight_shape, workload.output_shape) == shapes
    assert (workload.reduction, workload.macs) == (reduction, macs)
