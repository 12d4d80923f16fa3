"""Templates build for CPUs that this machine is not, and use their vectors and nothing that they lack."""

from __future__ import annotations

import re

import pytest
import tvm
from tvm.target import codegen

from int8tune.schedules.registry import template_for
from int8tune.schedules.target import PROFILES, Profile, Target, target_for
from int8tune.schedules.workload import parse_workload
from tests.support.kernels.kernels import compile_function
from tests.support.run.probes import any_target

CPUS = {
    "x86-64 with SSE2": ({"sse2"}, "x86-64", "x86_64-linux-gnu", r"\bpmull|\bpmadd"),
    "Haswell": ({"avx2"}, "haswell", "x86_64-linux-gnu", r"\bvpmull[dw]\b.*%ymm|\bvpmaddwd\b.*%ymm"),
    "Cortex-A53": ({"asimd"}, "cortex-a53", "aarch64-linux-gnu", r"\b[su]?m[lu][al]l?2?\s+v\d"),
    "Apple M1": ({"asimd"}, "apple-m1", "arm64-apple-darwin", r"\b[su]?m[lu][al]l?2?(\.\w+)?\s+v\d"),
    "RISC-V": (set[str](), "sifive-u74", "riscv64-linux-gnu", r"\bmulw?\b"),
}
LAYERS = (
    "conv2d-u8s8-1x14x14x32-k3x3x48-s1-p1-float.c-u8",
    "dwconv2d-s8u8-1x15x15x24-k5x5x1-s2-p2-wz-fixed.t-clamp-s8",
    "dense-u8u8-1x100-o10-s32",
    "conv2d-s8s8-1x14x14x32-k1x1x48-s1-p0-fused.cx-adds8-s8",
)
# LLVM's names of CPU features where Linux has others.
LINUX_NAMES = {
    "amx-int8": "amx_int8",
    "amx-tile": "amx_tile",
    "avx512vnni": "avx512_vnni",
    "avxvnni": "avx_vnni",
    "bmi": "bmi1",
    "crc32": "sse4_2",
    "lzcnt": "abm",
    "sahf": "lahf_lm",
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
}
X86_PROFILES = [profile for profile in PROFILES if profile.name.startswith("x86-")]


def target_of(cpu: str) -> Target:
    features, llvm_cpu, triple, _ = CPUS[cpu]
    return target_for(features, llvm_cpu, triple, "generic")


@pytest.mark.matrix
@pytest.mark.parametrize("key", LAYERS)
@pytest.mark.parametrize("cpu", CPUS)
def test_a_generic_template_builds(cpu: str, key: str) -> None:
    workload, target = parse_workload(key), target_of(cpu)
    template = template_for(workload, target)
    kernel = template.apply(workload, target, template.space(workload, target).default)
    built = compile_function(kernel.function, target)
    assembly = built.mod.inspect_source("asm")
    if key == LAYERS[0]:
        assert re.search(CPUS[cpu][3], assembly)


def instruction_sets(target: Target) -> set[str]:
    """What LLVM may use beyond the first x86-64, by the names of Linux; most names with a dash tune and add nothing."""

    def features(options: dict[str, object]) -> set[str]:
        names = {str(name) for name in codegen.llvm_get_cpu_features(tvm.target.Target(options))}
        return {name for name in names if "-" not in name or name in LINUX_NAMES}

    baseline = features({"kind": "llvm", "mcpu": "x86-64", "mtriple": target.tvm["mtriple"]})
    return {LINUX_NAMES.get(name, name) for name in features(dict(target.tvm)) - baseline}


@pytest.mark.parametrize("profile", X86_PROFILES, ids=lambda profile: profile.name)
def test_a_profile_needs_exactly_what_its_code_may_use(profile: Profile) -> None:
    """A CPU may have AVX512-VNNI and lack what a named CPU of LLVM has besides."""
    assert instruction_sets(any_target(profile.name)) == profile.needs


@pytest.mark.thorough
@pytest.mark.parametrize("key", [LAYERS[0], "dwconv2d-u8s8-1x9x9x24-k3x3x1-s1-p1-float.c-u8", LAYERS[2]])
@pytest.mark.parametrize("profile", X86_PROFILES, ids=lambda profile: profile.name)
def test_the_preferred_template_builds_for_a_profile(profile: Profile, key: str) -> None:
    workload, target = parse_workload(key), any_target(profile.name)
    template = template_for(workload, target)
    kernel = template.apply(workload, target, template.space(workload, target).default)
    built = compile_function(kernel.function, target)
    assert ("%zmm" in built.mod.inspect_source("asm")) == (profile.vector_lanes == 16)
