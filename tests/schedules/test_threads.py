"""Kernels of targets with several threads use all of them, or one where a layer is small."""

from __future__ import annotations

from dataclasses import replace

import pytest

from int8tune.schedules.registry import template_for
from int8tune.schedules.workload import parse_workload
from tests.support.run.probes import any_target

PROFILES = ("x86-amx", "x86-avx512vnni", "x86-avxvnni", "x86-avx2")
SMALL = (
    "conv2d-u8s8-1x4x4x64-k1x1x64-s1-p0-float.c-u8",
    "dwconv2d-u8s8-1x8x8x64-k3x3x1-s1-p1-float.c-u8",
    "conv2d-u8s8-1x5x5x32-k3x3x32-s1-p1-g8-float.c-u8",
)
LARGE = (
    "conv2d-u8s8-1x56x56x64-k3x3x64-s1-p1-float.c-u8",
    "dwconv2d-u8s8-1x112x112x64-k3x3x1-s1-p1-float.c-u8",
    "conv2d-u8s8-1x56x56x128-k3x3x128-s1-p1-g32-float.c-u8",
)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("keys", "threads"), [(SMALL, 1), (LARGE, 4)])
def test_small_layers_use_one_thread_by_default(profile: str, keys: tuple[str, ...], threads: int) -> None:
    target = replace(any_target(profile), threads=4)
    for workload in map(parse_workload, keys):
        default = template_for(workload, target).space(workload, target).default
        assert default["threads"] == threads, workload.key


@pytest.mark.parametrize("key", LARGE)
def test_the_knob_says_whether_threads_share_the_work(key: str) -> None:
    workload, target = parse_workload(key), replace(any_target("x86-avx512vnni"), threads=4)
    template = template_for(workload, target)
    space = template.space(workload, target)
    for threads in (1, 4):
        config = {**space.default, "threads": threads}
        assert ("T.parallel(" in template.apply(workload, target, config).function.script()) == (threads == 4)
        assert space.features(config)["threads"] == threads


@pytest.mark.parametrize(
    ("key", "outer"),
    [
        ("conv2d-u8s8-1x56x56x64-k1x1x256-s1-p0-float.c-u8", "image"),
        ("conv2d-u8s8-1x28x28x512-k1x1x128-s1-p0-float.c-u8", "image"),
        ("conv2d-u8s8-1x7x7x512-k3x3x512-s1-p1-float.c-u8", "weights"),
    ],
)
def test_threads_share_rows_where_more_is_read_of_the_image_than_of_weights(key: str, outer: str) -> None:
    """What another core wrote takes longer to read."""
    workload, target = parse_workload(key), replace(any_target("x86-avx512vnni"), threads=2)
    assert template_for(workload, target).space(workload, target).default["outer"] == outer


def test_one_thread_is_no_choice() -> None:
    workload, target = parse_workload(LARGE[0]), any_target("x86-avx512vnni")
    names = [knob.name for knob in template_for(workload, target).space(workload, target).knobs]
    assert "threads" not in names
