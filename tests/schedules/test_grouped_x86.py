"""Grouped convolutions with narrow groups on x86: exact on each instruction set, taken where they are faster."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from int8tune.schedules.image import image_of
from int8tune.schedules.registry import template_for
from int8tune.schedules.space import Config
from int8tune.schedules.workload import Conv2d, Workload, parse_workload
from int8tune.schedules.x86.grouped import GroupedX86
from int8tune.schedules.x86.grouped_form import GroupedForm, group_words
from int8tune.schedules.x86.grouped_image import period_of
from int8tune.schedules.x86.registers import REGISTERS
from tests.support.kernels.kernels import build
from tests.support.kernels.layers import workloads
from tests.support.run.probes import VECTOR_PROFILES, any_target, host_target

TEMPLATE = GroupedX86()
# Groups that fill words and ones that don't, whole tiles of groups and tiles that overlap, by what they need.
LAYERS = {
    "four words a part": "conv2d-u8s8-1x5x9x128-k3x3x128-s1-p1-g32-float.c-u8",
    "two words a group": "conv2d-s8s8-1x6x7x72-k3x3x72-s2-p1-g9-fixed.c-s8",
    "a group a part": "conv2d-u8u8-1x4x5x48-k3x3x48-s1-p1-g3-wz-float.t-clamp-u8",
    "a group and two parts": "conv2d-u8s8-2x4x4x96-k3x3x96-s1x2-p1-g3-float.c-addu8-u8",
    "four taps a word": "conv2d-u8u8-1x4x11x20-k2x7x40-s1-p0.3.1.3-g20-wz-s32",
    "two taps a word": "conv2d-s8u8-1x5x9x18-k3x3x18-s1-p1-d2-g9-wz-float.c-s8",
    "padded words": "conv2d-u8s8-1x5x6x21-k3x3x21-s2-p1-g7-wz-float.c-u8",
    "words of two groups": "conv2d-u8s8-1x5x6x30-k3x3x30-s1-p0-g5-fixed.t-adds8-clamp-u8",
    "lanes left empty": "conv2d-u8s8-1x4x6x60-k3x3x60-s1-p1-g5-float.c-u8",
    "loads that overlap": "conv2d-s8s8-1x4x6x20-k3x3x10-s1-p1-g5-float.c-s8",
    "many vectors a pixel": "conv2d-u8u8-1x3x5x128-k1x3x8-s1-p0.1.0.1-g2-wz-float.c-u8",
    "a residual that is first": "conv2d-u8s8-1x4x4x96-k3x3x96-s1-p1-g3-float.c-addu8.first-u8",
    "flattened image": "conv2d-u8s8-2x3x5x24-k1x1x48-s1-p0-g6-float.c-u8",
}
# Arrays that end at a guard.
EXACT = (
    "conv2d-u8s8-1x8x8x16-k3x3x64-s1-p1-g4-float.c-u8",
    "conv2d-s8s8-1x8x16x20-k3x3x20-s1-p1-g5-fixed.c-s8",
    "conv2d-u8u8-1x8x8x24-k3x3x24-s1-p1-g3-wz-float.c-u8",
    "conv2d-u8u8-1x8x8x24-k3x3x48-s1-p1-g8-wz-float.c-u8",
    "conv2d-u8s8-1x8x8x128-k1x1x64-s1-p0-g16-float.c-u8",
    "conv2d-u8s8-1x16x4x7-k1x3x7-s1-p0.1.0.1-g7-s32",
)
few = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=8,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.mark.thorough
@pytest.mark.parametrize("profile", VECTOR_PROFILES)
@few
@given(workload=workloads("grouped"), seed=st.integers(0, 2**16))
def test_drawn_layers_and_configs_are_exact(profile: str, workload: Workload, seed: int) -> None:
    target = host_target(profile)
    config = TEMPLATE.space(workload, target).sample(np.random.default_rng(seed))
    assert build(workload, target, config, TEMPLATE).wrong_cases() == []


@pytest.mark.parametrize("key", LAYERS.values(), ids=LAYERS.keys())
@pytest.mark.matrix(at_most=5)
def test_each_arrangement_of_words_is_exact(key: str) -> None:
    assert build(parse_workload(key), host_target("x86-avx512vnni"), template=TEMPLATE).wrong_cases() == []


@pytest.mark.thorough
@pytest.mark.parametrize("order", ["words", "registers"])
@pytest.mark.parametrize("outer", ["weights", "image"])
def test_each_order_of_the_loops_is_exact(order: str, outer: str) -> None:
    workload, target = parse_workload(LAYERS["two words a group"]), host_target("x86-avx512vnni")
    for border in ("skip", "copy"):
        config: Config = {"tile_columns": 2, "tile_registers": 3, "outer": outer, "border": border, "order": order}
        assert build(workload, target, config, TEMPLATE).wrong_cases() == []


@pytest.mark.thorough
def test_kernels_stay_inside_their_arrays() -> None:
    code = f"""
from tests.support.kernels.guarded_memory import check
from tests.support.kernels.kernels import build
from tests.support.run.probes import VECTOR_PROFILES, host_target
from int8tune.schedules.workload import parse_workload
from int8tune.schedules.x86.grouped import GroupedX86
for key in {EXACT}:
    workload = parse_workload(key)
    check(workload, build(workload, host_target("x86-avx512vnni"), template=GroupedX86()), key)
    print(key, flush=True)
"""
    host_target("x86-avx512vnni")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=False, timeout=100, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"signal or exit {done.returncode} after {done.stdout}: {done.stderr[-500:]}"
    assert done.stdout.split() == [*EXACT]


@pytest.mark.parametrize("profile", VECTOR_PROFILES)
@pytest.mark.parametrize(
    ("inputs", "outputs", "name"),
    [
        (4, 4, "x86.grouped"),
        (1, 2, "x86.grouped"),
        (64, 4, "x86.grouped"),
        (16, 1, "x86.grouped"),
        (17, 1, "x86.conv"),
        (16, 16, "x86.grouped"),
        (32, 32, "x86.grouped"),
        (64, 32, "x86.conv"),
        (4, 33, "x86.conv"),
    ],
)
def test_narrow_groups_are_taken(profile: str, inputs: int, outputs: int, name: str) -> None:
    workload = parse_workload(f"conv2d-u8s8-1x8x8x{4 * inputs}-k3x3x{4 * outputs}-s1-p1-g4-float.c-u8")
    assert template_for(workload, any_target(profile)).name == name


def test_rows_of_too_many_dot_products_are_refused() -> None:
    workload = parse_workload("conv2d-u8s8-1x1x700x64-k1x600x64-s1-p0-g2-float.c-u8")
    rejection = TEMPLATE.rejects(workload, any_target("x86-avx512vnni"))
    assert rejection is not None
    assert rejection.reason == "takes kernel rows of at most 1024 dot products, the layer's have 9600"


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("profile", VECTOR_PROFILES)
def test_words_of_square_groups_stay_within_128_bits(profile: str, width: int) -> None:
    """A permutation that does is one instruction on all CPUs, with the operand in memory."""
    form = form_of(f"conv2d-u8s8-1x8x8x128-k3x3x128-s1-p1-g{128 // width}-float.c-u8", profile, tile_registers=4)
    parts = np.arange(form.lanes) // 4
    for register in range(4):
        for word in range(form.words.count):
            assert (np.array(form.lane_words(register, word)) // 4 == parts).all()


@pytest.mark.parametrize("channels", [1, 2, 3, 5, 6, 7, 9, 13, 30])
@pytest.mark.parametrize("columns", [1, 2, 3, 5])
def test_words_hold_each_tap_and_channel_once(channels: int, columns: int) -> None:
    words = group_words(channels, columns)
    period = period_of(words)
    found = []
    for index, block in enumerate(period.blocks):
        for byte in range(16):
            taken = [(tap, block.start + order[byte]) for tap, order in enumerate(block.taps) if order[byte] < 16]
            assert len(taken) <= 1
            found += [(index * 16 + byte, *source) for source in taken]
    expected = [
        (group * words.count * 4 + tap * channels + channel, tap, group * channels + channel)
        for group in range(period.groups)
        for tap in range(words.taps)
        for channel in range(channels)
    ]
    assert sorted(found) == sorted(expected)


def test_window_sums_count_the_taps_of_the_kernel_alone() -> None:
    form = form_of("conv2d-u8u8-1x8x8x8-k3x5x8-s1-p0-g8-wz-s32", "x86-avx512vnni", tile_registers=1)
    assert (form.words.taps, form.words.steps) == (3, 2)
    assert [form.ones(step) for step in range(2)] == [0x010101, 0x0101]


def form_of(key: str, profile: str, tile_registers: int) -> GroupedForm:
    workload = parse_workload(key)
    assert isinstance(workload, Conv2d)
    return GroupedForm(image_of(workload), REGISTERS[profile], 2, tile_registers, "image", "skip", "words")
