"""What the machine that runs the tests can do. Probes never raise, and look once."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from int8tune.rpc.local.tile_registers import TILE_FEATURES, allow_tile_registers
from int8tune.schedules.errors import UnknownTargetError
from int8tune.schedules.gpus import GPU_PROFILES
from int8tune.schedules.target import PROFILES, Target, gpu_target, target_for
from int8tune.schedules.x86.registers import REGISTERS
from tests.support.gpu import emulated as emulated_gpus
from tests.support.kernels.emulated_arm import is_native, missing

ARM_PROFILES = ("arm-neon", "arm-dotprod")
# x86 profiles with vector instructions of their own: x86-amx has those of x86-avx512vnni.
VECTOR_PROFILES = tuple(profile for profile in REGISTERS if profile != "x86-amx")


@functools.cache
def cpu_features() -> frozenset[str]:
    """The CPU's features by their Linux names, those that may be used; none where they can't be read."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    listed = (line.split(":", 1)[1] for line in lines if line.startswith(("flags", "Features")))
    features = frozenset(next(listed, "").split())
    return features if allow_tile_registers() else frozenset(f for f in features if not f.startswith(TILE_FEATURES))


def has_feature(name: str) -> bool:
    return name in cpu_features()


def host_target(profile: str | None = None) -> Target:
    """The target of this machine, or the named profile of it; skips the test where the CPU can't run that.

    A profile for ARM is one of an emulated machine where this is another; skips the test where none can be emulated.
    GPUs are emulated everywhere.
    """
    from tvm.target import codegen  # here, so that tests without TVM start fast

    if profile in GPU_PROFILES:
        if reason := emulated_gpus.missing():
            pytest.skip(reason)
        return any_target(profile)

    if profile in ARM_PROFILES and not is_native():
        if reason := missing():
            pytest.skip(reason)
        return any_target(profile)

    try:
        return target_for(cpu_features(), codegen.llvm_get_system_cpu(), codegen.llvm_get_system_triple(), profile)
    except UnknownTargetError as error:
        pytest.skip(str(error))


def any_target(profile: str) -> Target:
    """A target of the profile as every machine has it: to schedule for, not to run on."""
    if profile in GPU_PROFILES:
        return gpu_target(profile)
    needs = next(known.needs for known in PROFILES if known.name == profile)
    if profile in ARM_PROFILES:
        return target_for(needs, "cortex-a53", "aarch64-linux-gnu", profile)
    return target_for(needs | {"avx2"}, "x86-64-v3", "x86_64-linux-gnu", profile)
