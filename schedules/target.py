"""Targets: what code is generated for, and what it may use there.

A target is chosen by the features of the device that will run the code, never by those of the machine that builds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from schedules.errors import UnknownTargetError


@dataclass(frozen=True, slots=True)
class Target:
    """A profile that templates read.

    Attributes:
        name: as records and the command line have it, such as `x86-avx512vnni` or `generic-znver5`.
        profile: the profile's name without the CPU, `x86-avx512vnni` or `generic`.
        tvm: the TVM target, as a dictionary of options.
        vector_lanes: int32 values in one vector register.
        vector_registers: how many of them there are.
    """

    name: str
    profile: str
    tvm: Mapping[str, str] = field(hash=False)
    vector_lanes: int
    vector_registers: int


@dataclass(frozen=True, slots=True)
class Profile:
    """A family of CPUs with one instruction set: the features it needs and the CPU that LLVM is told."""

    name: str
    needs: frozenset[str]
    llvm_cpu: str | None
    vector_lanes: int
    vector_registers: int


# In order of preference; a device takes the first one whose needs it meets.
PROFILES = (
    Profile("x86-avx512vnni", frozenset({"avx512f", "avx512bw", "avx512vl", "avx512_vnni"}), "cascadelake", 16, 32),
    Profile("generic", frozenset(), None, 0, 0),
)
# The widest vectors first: (a feature, int32 lanes, registers); 128 bits and 16 registers where none is known.
_VECTORS = (("avx512f", 16, 32), ("avx2", 8, 16), ("asimd", 4, 32))


def target_for(features: Set[str], llvm_cpu: str, llvm_triple: str, profile: str | None = None) -> Target:
    """The target of a device, by its CPU features (Linux names), or the named profile if the device can run it.

    Raises:
        UnknownTargetError: nobody registered the profile, or the device lacks a feature it needs.
    """
    known = {candidate.name: candidate for candidate in PROFILES}
    if profile is not None and profile not in known:
        raise UnknownTargetError(f"unknown target `{profile}`, known: {', '.join(known)}")
    chosen = known[profile] if profile else next(p for p in PROFILES if p.needs <= features)
    if missing := sorted(chosen.needs - features):
        raise UnknownTargetError(f"this device can't run `{chosen.name}`, its CPU lacks: {', '.join(missing)}")
    options = {"kind": "llvm", "mcpu": chosen.llvm_cpu or llvm_cpu, "mtriple": llvm_triple}
    if chosen.llvm_cpu:
        return Target(chosen.name, chosen.name, options, chosen.vector_lanes, chosen.vector_registers)
    lanes, registers = next(((lanes, n) for name, lanes, n in _VECTORS if name in features), (4, 16))
    return Target(f"{chosen.name}-{llvm_cpu}", chosen.name, options, lanes, registers)


def targets_named(name: str) -> tuple[Target, ...]:
    """The targets that a name in a record may stand for; the name of a generic one does not say which vectors it has.

    Raises:
        UnknownTargetError: no profile makes targets of this name.
    """
    for profile in PROFILES:
        cpu = name.removeprefix(f"{profile.name}-")
        if profile.llvm_cpu and name == profile.name:
            return (target_for(profile.needs, "", "", profile.name),)
        if not profile.llvm_cpu and cpu not in ("", name):
            features: tuple[Set[str], ...] = (*({feature} for feature, _, _ in _VECTORS), frozenset())
            return tuple(target_for(known, cpu, "", profile.name) for known in features)
    raise UnknownTargetError(f"unknown target `{name}`, known: {', '.join(profile.name for profile in PROFILES)}")
