"""The target of this machine, or any other, as templates see it: enough to look at spaces, without TVM."""

from __future__ import annotations

from int8tune.rpc.local.capabilities import cpu_features
from int8tune.schedules.gpus import GPU_PROFILES
from int8tune.schedules.target import PROFILES, Target, gpu_target, target_for

DEVICE_NAME = "local"
"""The name of this machine in records."""

# LLVM's name of the CPU takes a second to find out; no template reads it.
LLVM_CPU = "native"


def target_to_look_at(profile: str | None = None) -> Target:
    """The best target of this machine, or the named profile, whether or not this machine can run it.

    Raises:
        UnknownTargetError: nobody registered the profile.
    """
    if profile in GPU_PROFILES:
        return gpu_target(profile)
    needs = next((known.needs for known in PROFILES if known.name == profile), frozenset())
    return target_for(cpu_features() | needs, LLVM_CPU, LLVM_CPU, profile)
