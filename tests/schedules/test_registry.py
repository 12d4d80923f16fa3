"""Which template takes which layer, and what is said where none does."""

from __future__ import annotations

import pytest

from int8tune.schedules.errors import UnknownTargetError, UnknownTemplateError, WorkloadError
from int8tune.schedules.registry import TEMPLATES, template_for, template_named, templates_for
from int8tune.schedules.target import PROFILES, target_for
from int8tune.schedules.workload import parse_workload
from tests.support.kernels.layers import ODD, PLAIN
from tests.support.run.probes import any_target

VNNI = PROFILES[0].needs


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("conv2d-u8s8-1x8x8x32-k3x3x16-s1-p1-float.c-u8", "x86.conv"),
        ("conv2d-u8s8-1x8x8x3-k3x3x5-s1-p1-float.c-u8", "x86.conv"),
        ("dense-u8s8-1x32-o1-float.c-u8", "x86.conv"),
        ("conv2d-u8s8-1x8x8x16-k3x3x16-s1-p1-g4-float.c-u8", "x86.grouped"),
        ("dwconv2d-u8s8-1x8x8x16-k3x3x1-s1-p1-float.c-u8", "x86.depthwise"),
        ("dwconv2d-u8s8-1x8x8x5-k3x3x2-s1-p1-float.c-u8", "x86.depthwise"),
    ],
)
@pytest.mark.parametrize("profile", ["x86-avx512vnni", "x86-avxvnni", "x86-avx2"])
def test_vectors_are_preferred(key: str, name: str, profile: str) -> None:
    assert template_for(parse_workload(key), any_target(profile)).name == name


@pytest.mark.parametrize("key", [*PLAIN.values(), *ODD])
@pytest.mark.parametrize("profile", [profile.name for profile in PROFILES])
def test_every_layer_has_a_template_on_every_target(key: str, profile: str) -> None:
    taking = templates_for(parse_workload(key), any_target(profile))
    assert taking[0] == template_for(parse_workload(key), any_target(profile))
    assert taking[-1].name.startswith("generic.")


def test_where_no_template_takes_a_layer_each_one_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    special = tuple(template for template in TEMPLATES if template.name.startswith("x86."))
    monkeypatch.setattr("int8tune.schedules.registry.TEMPLATES", special)
    with pytest.raises(WorkloadError) as caught:
        template_for(parse_workload("dense-u8s8-1x8-o8-s32"), any_target("generic"))
    reasons = [
        f"{template.name}: {template.rejects(parse_workload('dense-u8s8-1x8-o8-s32'), any_target('generic')).reason}"  # type: ignore[union-attr]
        for template in special
    ]
    expected = f"no template takes dense-u8s8-1x8-o8-s32 on {any_target('generic').name}: {'; '.join(reasons)}"
    assert str(caught.value) == expected


def test_templates_are_found_by_name_and_version() -> None:
    for template in TEMPLATES:
        assert template_named(template.name) is template
        assert template_named(template.name, template.version) is template
    with pytest.raises(
        UnknownTemplateError, match=r"unknown template `x86.nothing`.* known: x86.grouped, x86.amx, x86.conv, "
    ):
        template_named("x86.nothing")
    with pytest.raises(UnknownTemplateError, match=r"template `generic.direct` has version \d+, not 0"):
        template_named("generic.direct", 0)


def test_targets_follow_the_features_of_the_device() -> None:
    names = [profile.name for profile in PROFILES]
    assert names == ["x86-amx", "x86-avx512vnni", "x86-avxvnni", "x86-avx2", "arm-dotprod", "arm-neon", "generic"]
    amx, vnni, avx_vnni, avx2 = (profile.needs for profile in PROFILES[:4])
    assert target_for(amx | vnni | avx_vnni, "sapphirerapids", "x86_64-linux-gnu").name == "x86-amx"
    assert target_for(amx - {"amx_int8"}, "sapphirerapids", "x86_64-linux-gnu").name == "x86-avx512vnni"
    assert target_for(vnni | avx_vnni | {"sse2"}, "znver5", "x86_64-linux-gnu").name == "x86-avx512vnni"
    assert target_for(avx_vnni | {"avx512f"}, "alderlake", "x86_64-linux-gnu").name == "x86-avxvnni"
    assert target_for(vnni - {"avx512_vnni"}, "skylake-avx512", "x86_64-linux-gnu").name == "x86-avx2"
    assert target_for(avx2 - {"fma"}, "sandybridge", "x86_64-linux-gnu").name == "generic-sandybridge"


@pytest.mark.parametrize(
    ("features", "lanes", "registers"), [({"avx512f"}, 16, 32), ({"avx2"}, 8, 16), ({"asimd"}, 4, 32), (set(), 4, 16)]
)
def test_a_generic_target_has_the_vectors_of_the_device(features: set[str], lanes: int, registers: int) -> None:
    target = target_for(features, "generic", "x")
    assert (target.vector_lanes, target.vector_registers) == (lanes, registers)


def test_a_named_target_is_refused_where_the_device_cant_run_it() -> None:
    assert target_for(VNNI, "znver5", "x86_64-linux-gnu", "generic").name == "generic-znver5"
    with pytest.raises(UnknownTargetError, match="its CPU lacks: avx512_vnni"):
        target_for(VNNI - {"avx512_vnni"}, "skylake-avx512", "x86_64-linux-gnu", "x86-avx512vnni")
    with pytest.raises(
        UnknownTargetError,
        match=r"unknown target `mips`, known: x86-amx, .*, arm-dotprod, arm-neon, generic",
    ):
        target_for(VNNI, "znver5", "x86_64-linux-gnu", "mips")
