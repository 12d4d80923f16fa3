"""Which template takes which layer, and what is said where none does."""

from __future__ import annotations

import pytest
from layers import ODD, PLAIN
from probes import any_target

from schedules.errors import UnknownTargetError, UnknownTemplateError, WorkloadError
from schedules.registry import TEMPLATES, template_for, template_named, templates_for
from schedules.target import PROFILES, target_for
from schedules.workload import parse_workload

VNNI = frozenset({"avx512f", "avx512bw", "avx512vl", "avx512_vnni"})


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("conv2d-u8s8-1x8x8x32-k3x3x16-s1-p1-float.c-u8", "x86.direct_vnni"),
        ("conv2d-u8s8-1x8x8x32-k3x3x15-s1-p1-float.c-u8", "generic.direct"),
        ("conv2d-u8s8-1x8x8x32-k3x3x32-s1-p1-g2-float.c-u8", "x86.direct_vnni"),
        ("conv2d-u8s8-1x8x8x32-k3x3x32-s1-p1-g4-float.c-u8", "generic.direct"),
        ("dense-u8s8-1x32-o16-float.c-u8", "x86.direct_vnni"),
        ("dense-u8s8-1x32-o1-float.c-u8", "generic.direct"),
        ("dwconv2d-u8s8-1x8x8x16-k3x3x1-s1-p1-float.c-u8", "x86.depthwise_vnni"),
        ("dwconv2d-u8s8-1x8x8x8-k3x3x2-s1-p1-float.c-u8", "x86.depthwise_vnni"),
        ("dwconv2d-u8s8-1x8x8x15-k3x3x1-s1-p1-float.c-u8", "generic.depthwise"),
    ],
)
def test_instructions_are_preferred_where_their_lanes_are_filled(key: str, name: str) -> None:
    assert template_for(parse_workload(key), any_target("x86-avx512vnni")).name == name


@pytest.mark.parametrize("key", [*PLAIN.values(), *ODD])
@pytest.mark.parametrize("profile", [profile.name for profile in PROFILES])
def test_every_layer_has_a_template_on_every_target(key: str, profile: str) -> None:
    taking = templates_for(parse_workload(key), any_target(profile))
    assert taking[0] == template_for(parse_workload(key), any_target(profile))
    assert taking[-1].name.startswith("generic.")


def test_where_no_template_takes_a_layer_each_one_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    special = tuple(template for template in TEMPLATES if template.name.startswith("x86."))
    monkeypatch.setattr("schedules.registry.TEMPLATES", special)
    with pytest.raises(WorkloadError) as caught:
        template_for(parse_workload("dense-u8s8-1x8-o8-s32"), any_target("x86-avx512vnni"))
    assert str(caught.value) == (
        "no template takes dense-u8s8-1x8-o8-s32 on x86-avx512vnni: "
        "x86.direct_vnni: needs at least 16 output channels a group, the layer has 8; "
        "x86.depthwise_vnni: takes dwconv2d, not dense"
    )


def test_templates_are_found_by_name_and_version() -> None:
    for template in TEMPLATES:
        assert template_named(template.name) is template
        assert template_named(template.name, template.version) is template
    with pytest.raises(UnknownTemplateError, match=r"unknown template `x86.nothing`.* known: x86.direct_vnni, "):
        template_named("x86.nothing")
    with pytest.raises(UnknownTemplateError, match=r"template `generic.direct` has version \d+, not 0"):
        template_named("generic.direct", 0)


def test_targets_follow_the_features_of_the_device() -> None:
    assert target_for(VNNI | {"sse2"}, "znver5", "x86_64-linux-gnu").name == "x86-avx512vnni"
    lesser = target_for(VNNI - {"avx512_vnni"}, "skylake-avx512", "x86_64-linux-gnu")
    assert (lesser.name, lesser.vector_lanes, lesser.vector_registers) == ("generic-skylake-avx512", 16, 32)
    assert target_for({"avx2"}, "haswell", "x86_64-linux-gnu").vector_lanes == 8
    assert target_for({"asimd"}, "cortex-a53", "aarch64-linux-gnu").vector_registers == 32
    assert target_for(set(), "generic", "riscv64-linux-gnu").vector_lanes == 4


def test_a_named_target_is_refused_where_the_device_cant_run_it() -> None:
    assert target_for(VNNI, "znver5", "x86_64-linux-gnu", "generic").name == "generic-znver5"
    with pytest.raises(UnknownTargetError, match="its CPU lacks: avx512_vnni"):
        target_for(VNNI - {"avx512_vnni"}, "skylake-avx512", "x86_64-linux-gnu", "x86-avx512vnni")
    with pytest.raises(UnknownTargetError, match="unknown target `mips`, known: x86-avx512vnni, generic"):
        target_for(VNNI, "znver5", "x86_64-linux-gnu", "mips")
