"""Targets: what code is generated for, and what it may use there.

A target is chosen by the features of the device that will run the code, never by those of the machine that builds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from int8tune.schedules.errors import UnknownTargetError
from int8tune.schedules.gpus import (
    GPU_FEATURE,
    GPU_PROFILES,
    GPUS,
    MOST_MULTIPROCESSORS,
    MOST_REGISTERS,
    WARP,
    Gpu,
    multiprocessors_among,
)


@dataclass(frozen=True, slots=True)
class Target:
    """A profile that templates read.

    Attributes:
        name: as records and the command line have it, such as `x86-avx512vnni` or `generic-znver5`.
        profile: the profile's name without the CPU, `x86-avx512vnni` or `generic`.
        tvm: the TVM target, as a dictionary of options.
        vector_lanes: int32 values in one vector register; of a GPU, the threads of a warp.
        vector_registers: how many of them there are.
        threads: cores that a kernel uses; 1 for a GPU, whose kernels use all of it.
        multiprocessors: the device's own, of a GPU; None where it is a usual board's.
    """

    name: str
    profile: str
    tvm: Mapping[str, str | Sequence[str]] = field(hash=False)
    vector_lanes: int
    vector_registers: int
    threads: int = 1
    multiprocessors: int | None = None

    @property
    def gpu(self) -> Gpu | None:
        """The GPU that code is generated for, or None for a CPU."""
        usual = GPU_PROFILES.get(self.profile)
        if usual is None or self.multiprocessors is None:
            return usual
        return replace(usual, multiprocessors=self.multiprocessors)


@dataclass(frozen=True, slots=True)
class Profile:
    """A family of CPUs with one instruction set.

    Attributes:
        needs: CPU features by the names that Linux gives them; they cover everything that LLVM may use.
        llvm_cpu: the CPU that LLVM is told, None for the device's own.
        llvm_features: what LLVM may use beyond that CPU.
    """

    name: str
    needs: frozenset[str]
    llvm_cpu: str | None = None
    llvm_features: tuple[str, ...] = ()
    vector_lanes: int = 0
    vector_registers: int = 0


# The levels x86-64-v3 and x86-64-v4 of the System V ABI: what LLVM may use of the CPUs of these names.
_V2 = frozenset({"cx16", "lahf_lm", "popcnt", "pni", "ssse3", "sse4_1", "sse4_2"})
_V3 = _V2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}

# In order of preference; a device takes the first one whose needs it meets.
PROFILES = (
    Profile(
        "x86-amx",
        _V4 | {"avx512_vnni", "amx_tile", "amx_int8"},
        "x86-64-v4",
        ("+avx512vnni", "+amx-tile", "+amx-int8"),
        16,
        32,
    ),
    Profile("x86-avx512vnni", _V4 | {"avx512_vnni"}, "x86-64-v4", ("+avx512vnni",), 16, 32),
    Profile("x86-avxvnni", _V3 | {"avx_vnni"}, "x86-64-v3", ("+avxvnni",), 8, 16),
    Profile("x86-avx2", _V3, "x86-64-v3", (), 8, 16),
    # LLVM's `generic` for aarch64 is Armv8.0 with Advanced SIMD, its instructions in an order for small cores.
    Profile("arm-dotprod", frozenset({"asimd", "asimddp"}), "generic", ("+dotprod",), 4, 32),
    Profile("arm-neon", frozenset({"asimd"}), "generic", (), 4, 32),
    Profile("generic", frozenset()),
)
PROFILE_NAMES = (*(profile.name for profile in PROFILES), *GPU_PROFILES)
_SUFFIX = re.compile(r"-t([2-9]|[1-9][0-9]{1,2})$")
# The widest vectors first: (a feature, int32 lanes, registers); 128 bits and 16 registers where none is known.
_VECTORS = (("avx512f", 16, 32), ("avx2", 8, 16), ("asimd", 4, 32))


def target_for(
    features: Set[str], llvm_cpu: str, llvm_triple: str, profile: str | None = None, threads: int = 1
) -> Target:
    """The target of a device, by its CPU features (Linux names), or the named profile if the device can run it.

    A device with a GPU is that GPU: of its architectures, the newest one. The name of a target with several threads
    ends in their number, as in `x86-avx512vnni-t2`.

    Raises:
        UnknownTargetError: nobody registered the profile, or the device lacks a feature it needs.
    """
    known = {candidate.name: candidate for candidate in PROFILES}
    if profile is not None and profile not in PROFILE_NAMES:
        raise UnknownTargetError(f"unknown target `{profile}`, known: {', '.join(PROFILE_NAMES)}")
    if profile in GPU_PROFILES or any(feature.startswith(GPU_FEATURE) for feature in features):
        return _gpu_target_of(profile, features, threads)
    chosen = known[profile] if profile else next(p for p in PROFILES if p.needs <= features)
    if missing := sorted(chosen.needs - features):
        raise UnknownTargetError(f"this device can't run `{chosen.name}`, its CPU lacks: {', '.join(missing)}")
    options: dict[str, str | Sequence[str]] = {
        "kind": "llvm",
        "mcpu": chosen.llvm_cpu or llvm_cpu,
        "mtriple": llvm_triple,
    }
    if chosen.llvm_features:
        options["mattr"] = list(chosen.llvm_features)
    suffix = f"-t{threads}" if threads > 1 else ""
    if chosen.llvm_cpu:
        name, lanes, registers = chosen.name, chosen.vector_lanes, chosen.vector_registers
    else:
        name = f"{chosen.name}-{llvm_cpu}"
        lanes, registers = next(((lanes, n) for name, lanes, n in _VECTORS if name in features), (4, 16))
    return Target(f"{name}{suffix}", chosen.name, options, lanes, registers, threads)


def gpu_target(profile: str) -> Target:
    """The target of a GPU's architecture, on a machine that need not have one.

    Raises:
        UnknownTargetError: nobody registered the profile.
    """
    if profile not in GPU_PROFILES:
        raise UnknownTargetError(f"unknown GPU `{profile}`, known: {', '.join(GPU_PROFILES)}")
    options = {"kind": "cuda", "arch": GPU_PROFILES[profile].arch}
    return Target(profile, profile, options, WARP, MOST_REGISTERS)


def _gpu_target_of(profile: str | None, features: Set[str], threads: int) -> Target:
    if profile is not None and profile not in GPU_PROFILES:
        raise UnknownTargetError(f"a GPU runs kernels of {', '.join(GPU_PROFILES)}, not of `{profile}`")
    newest = next((gpu for gpu in reversed(GPUS) if gpu.feature in features), None)
    gpu = newest if profile is None else GPU_PROFILES[profile]
    if gpu is None:
        raise UnknownTargetError(f"no target is for this GPU, known: {', '.join(GPU_PROFILES)}")
    if gpu.feature not in features:
        raise UnknownTargetError(f"this device can't run `{gpu.profile}`, it lacks: {gpu.feature}")
    if threads != 1:
        raise UnknownTargetError(f"`{gpu.profile}` has no threads of a CPU to share: {threads}")
    return replace(gpu_target(gpu.profile), multiprocessors=multiprocessors_among(features))


def named_target(name: str) -> Target:
    """The likeliest target of a name in a record.

    Raises:
        UnknownTargetError: no profile makes targets of this name.
    """
    return targets_named(name)[0]


def targets_named(name: str) -> tuple[Target, ...]:
    """The targets that a name in a record may stand for, the likeliest one first.

    The name of a generic one does not say which vectors it has, that of a GPU not how many multiprocessors: what a GPU
    of any count takes, one of the usual count or of the most takes.

    Raises:
        UnknownTargetError: no profile makes targets of this name.
    """
    if name in GPU_PROFILES:
        return gpu_target(name), replace(gpu_target(name), multiprocessors=MOST_MULTIPROCESSORS)
    match = _SUFFIX.search(name)
    single, threads = (name[: match.start()], int(match[1])) if match else (name, 1)
    for profile in PROFILES:
        cpu = single.removeprefix(f"{profile.name}-")
        if profile.llvm_cpu and single == profile.name:
            return (target_for(profile.needs, "", "", profile.name, threads),)
        if not profile.llvm_cpu and cpu not in ("", single):
            features: tuple[Set[str], ...] = (*({feature} for feature, _, _ in _VECTORS), frozenset())
            return tuple(target_for(known, cpu, "", profile.name, threads) for known in features)
    raise UnknownTargetError(f"unknown target `{name}`, known: {', '.join(PROFILE_NAMES)}")
