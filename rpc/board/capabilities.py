"""What a board can do, from what its agent says of it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from int8tune.rpc.board.gpu import LONGEST_LINE, gpu_cache_bytes, gpu_environment, gpu_features
from int8tune.rpc.errors import DeviceStartError, NoGpuError
from int8tune.rpc.inventory.boards import ARCHITECTURES, Board
from int8tune.rpc.request import Capabilities
from int8tune.rpc.wire.foreign_text import one_line

# LLVM's names of Arm's own cores, by the part numbers of their identification registers (MIDR_EL1, implementer 0x41).
_ARM_CPUS = {
    0xD03: "cortex-a53",
    0xD04: "cortex-a35",
    0xD05: "cortex-a55",
    0xD07: "cortex-a57",
    0xD08: "cortex-a72",
    0xD09: "cortex-a73",
    0xD0A: "cortex-a75",
    0xD0B: "cortex-a76",
    0xD0C: "neoverse-n1",
    0xD0D: "cortex-a77",
    0xD40: "neoverse-v1",
    0xD41: "cortex-a78",
    0xD44: "cortex-x1",
    0xD46: "cortex-a510",
    0xD47: "cortex-a710",
    0xD49: "neoverse-n2",
    0xD4F: "neoverse-v2",
}
# The levels of the x86-64 ABI, the highest first, by a few of what only they have.
_X86_LEVELS = (
    ("x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    ("x86-64-v3", {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}),
    ("x86-64-v2", {"sse4_1", "sse4_2", "ssse3", "popcnt"}),
)
_PART = re.compile(r"implementer 0x41 part 0x([0-9a-f]{3})")
_CACHE = re.compile(r"(L[1-4]):(\d{1,6})([KM])")
_BOOT = re.compile(r"[0-9a-f-]{1,64}")
_UNITS = {"K": 1 << 10, "M": 1 << 20}
_NO_AMX = "-amx"
_MOST_CORES = 4096


def capabilities_of(board: Board, about: Mapping[str, str]) -> Capabilities:
    """The board's capabilities.

    Raises:
        DeviceStartError: what its agent says is not of its form.
        NoGpuError: its GPU can't be used.
    """
    architecture = about.get("architecture", "")
    if architecture not in ARCHITECTURES:
        raise DeviceStartError(f"`{board.name}` must be one of {', '.join(ARCHITECTURES)}: {architecture[:40]!r}")
    if fault := one_line(about.get("gpu_fault", ""), LONGEST_LINE):
        raise NoGpuError(f"the GPU of `{board.name}` can't be used: {fault}")
    features = _features(about.get("features", ""))
    told = gpu_environment(about)
    cpu = one_line(about.get("cpu", ""), LONGEST_LINE) or "unknown"
    return Capabilities(
        architecture=architecture,
        cpu=told.get("gpu", cpu),
        llvm_cpu=board.cpu or _llvm_cpu(architecture, cpu, features),
        llvm_triple=f"{architecture}-linux-gnu",
        features=features | gpu_features(about),
        cores=_cores(board, about.get("cores", "")),
        cache_bytes={} if board.emulator else gpu_cache_bytes(about) or _caches(about.get("caches", "")),
        environment={
            "cpu": told.get("gpu", cpu),
            **({"host_cpu": cpu} if told else {}),
            "governor": one_line(about.get("governor", ""), LONGEST_LINE) or "unknown",
            "kernel": one_line(about.get("kernel", ""), LONGEST_LINE) or "unknown",
            "tvm_ffi": one_line(about.get("tvm_ffi", ""), LONGEST_LINE) or "unknown",
            "bundle": one_line(about.get("bundle", ""), LONGEST_LINE) or "unknown",
            "board": board.name,
            "timing": board.timing.value,
            **told,
        },
    )


def boot_of(about: Mapping[str, str]) -> str:
    """What tells one start of the board's system from the next; empty where its agent says nothing of that form."""
    said = about.get("boot", "")
    return said if _BOOT.fullmatch(said) else ""


def _features(written: str) -> frozenset[str]:
    names = frozenset(name for name in written.split() if name.isprintable() and len(name) <= 40)
    if _NO_AMX not in names:
        return names
    return frozenset(name for name in names if name != _NO_AMX and not name.startswith("amx_"))


def _llvm_cpu(architecture: str, cpu: str, features: frozenset[str]) -> str:
    if architecture == "x86_64":
        return next((level for level, needs in _X86_LEVELS if needs <= features), "x86-64")
    part = _PART.search(cpu)
    return _ARM_CPUS.get(int(part[1], 16), "generic") if part else "generic"


def _cores(board: Board, written: str) -> tuple[int, ...]:
    cores = tuple(int(core) for core in written.split(",") if core.isdigit() and int(core) < _MOST_CORES)
    if not cores or (board.cores and set(cores) != set(board.cores)):
        raise DeviceStartError(f"`{board.name}` has other cores than it should: {one_line(written, LONGEST_LINE)}")
    return cores


def _caches(written: str) -> dict[str, int]:
    return {level: int(size) * _UNITS[unit] for level, size, unit in _CACHE.findall(written) if int(size)}
