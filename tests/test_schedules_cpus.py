"""The generic templates build for CPUs that this machine is not, and use their vectors."""

from __future__ import annotations

import re

import pytest
import tvm

from schedules.registry import template_for
from schedules.target import Target, target_for
from schedules.workload import parse_workload

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
)


def target_of(cpu: str) -> Target:
    features, llvm_cpu, triple, _ = CPUS[cpu]
    return target_for(features, llvm_cpu, triple, "generic")


@pytest.mark.parametrize("key", LAYERS)
@pytest.mark.parametrize("cpu", CPUS)
def test_a_generic_template_builds(cpu: str, key: str) -> None:
    workload, target = parse_workload(key), target_of(cpu)
    template = template_for(workload, target)
    kernel = template.apply(workload, target, template.space(workload, target).default)
    built = tvm.compile(kernel.function, target=tvm.target.Target(dict(target.tvm)))
    assembly = built.mod.inspect_source("asm")
    if key == LAYERS[0]:
        assert re.search(CPUS[cpu][3], assembly)
