"""What this machine says of itself. A file that can't be read makes a value unknown, never an error."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from int8tune.rpc.local.tile_registers import TILE_FEATURES, allow_tile_registers
from int8tune.rpc.request import Capabilities

UNKNOWN = "unknown"
_ROOT = Path("/")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def read_capabilities() -> Capabilities:
    """The capabilities of this process: its cores are those it is bound to."""
    from int8tune.rpc.local import tvm_library  # its libraries take a while to load

    cores = tuple(sorted(os.sched_getaffinity(0)))
    cpu = cpu_name()
    llvm_cpu, llvm_triple, llvm_version = tvm_library.llvm()
    return Capabilities(
        architecture=platform.machine(),
        cpu=cpu,
        llvm_cpu=llvm_cpu,
        llvm_triple=llvm_triple,
        features=usable_features(),
        cores=cores,
        cache_bytes=cache_bytes(cores[0]),
        environment={
            "cpu": cpu,
            "governor": governor(cores[0]),
            "os": _os_name(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "tvm": tvm_library.version(),
            "llvm": llvm_version,
        },
    )


def cpu_name(root: Path = _ROOT) -> str:
    """The model's name; on Arm, where Linux prints none, the implementer's and the part's numbers."""
    info = _cpuinfo(root)
    if "model name" in info:
        return info["model name"]
    if "CPU part" in info:
        return f"implementer {info.get('CPU implementer', UNKNOWN)} part {info['CPU part']}"
    return platform.processor() or UNKNOWN


def cpu_features(root: Path = _ROOT) -> frozenset[str]:
    info = _cpuinfo(root)
    return frozenset((info.get("flags") or info.get("Features") or "").split())


def usable_features() -> frozenset[str]:
    """The CPU's features without those that the kernel does not let this process use."""
    features = cpu_features()
    if not any(name.startswith(TILE_FEATURES) for name in features) or allow_tile_registers():
        return features
    return frozenset(name for name in features if not name.startswith(TILE_FEATURES))


def cache_bytes(core: int, root: Path = _ROOT) -> Mapping[str, int]:
    """Size of each level of data cache that a core uses."""
    sizes = {}
    for index in sorted((root / f"sys/devices/system/cpu/cpu{core}/cache").glob("index*")):
        size = _size(_read(index / "size"))
        if _read(index / "type") in ("Data", "Unified") and size:
            sizes[f"L{_read(index / 'level')}"] = size
    return sizes


def governor(core: int, root: Path = _ROOT) -> str:
    return _read(_cpufreq(core, root) / "scaling_governor") or UNKNOWN


def frequency_hz(core: int | None, root: Path = _ROOT) -> float | None:
    """What a core, or the first one, runs at now; None where nothing tells."""
    khz = _read(_cpufreq(core or 0, root) / "scaling_cur_freq")
    if khz.isdigit():
        return int(khz) * 1e3
    for block in _read(root / "proc/cpuinfo").split("\n\n"):
        info = _pairs(block)
        if info.get("processor") == str(core or 0):
            return _positive(info.get("cpu MHz", ""), 1e6)
    return None


def _cpuinfo(root: Path) -> dict[str, str]:
    return _pairs(_read(root / "proc/cpuinfo").split("\n\n")[0])


def _pairs(block: str) -> dict[str, str]:
    lines = (line.partition(":") for line in block.splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


def _cpufreq(core: int, root: Path) -> Path:
    return root / f"sys/devices/system/cpu/cpu{core}/cpufreq"


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _size(written: str) -> int:
    number, unit = written[:-1], written[-1:]
    return int(number) * _UNITS[unit] if number.isdigit() and unit in _UNITS else 0


def _positive(written: str, unit: float) -> float | None:
    try:
        value = float(written) * unit
    except ValueError:
        return None
    return value if value > 0 else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
