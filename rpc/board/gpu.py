"""What an agent says of a GPU: untrusted text, made into features, caches and numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from int8tune.rpc.wire.foreign_text import one_line

_ARCHITECTURE = re.compile(r"sm_(\d{1,2})(\d)")
_BYTES = re.compile(r"\d{1,15}")
_COUNT = re.compile(r"[1-9][0-9]{0,3}")
_TOLD = ("gpu", "gpu_driver", "gpu_runtime", "gpu_multiprocessors", "gpu_clock_khz", "gpu_memory_bytes")
_STATE = ("gpu_clock_hz", "gpu_memory_clock_hz", "gpu_temperature_c", "gpu_power_w", "gpu_throttle_reasons")
_LARGEST = 1e15
LONGEST_LINE = 200
"""Letters that are kept of a line in which a board says what it is."""


def gpu_features(about: Mapping[str, str]) -> frozenset[str]:
    """The architectures whose code the GPU runs, such as `cuda_sm_80` and `cuda_sm_86`, and how many multiprocessors it
    has, such as `cuda_multiprocessors_84`; none where there is no GPU.

    Code for one architecture runs on those of the same major version with an equal or higher minor one (CUDA C++
    Programming Guide, "Binary Compatibility").
    """
    match = _ARCHITECTURE.fullmatch(about.get("gpu_architecture", ""))
    if not match:
        return frozenset()
    written = about.get("gpu_multiprocessors", "")
    count = {f"cuda_multiprocessors_{written}"} if _COUNT.fullmatch(written) else set()
    return frozenset(f"cuda_sm_{match[1]}{minor}" for minor in range(int(match[2]) + 1)) | count


def gpu_cache_bytes(about: Mapping[str, str]) -> dict[str, int]:
    """The size of its second-level cache; empty where it is not known."""
    written = about.get("gpu_l2_bytes", "")
    return {"L2": int(written)} if _BYTES.fullmatch(written) and int(written) else {}


def gpu_environment(about: Mapping[str, str]) -> dict[str, str]:
    """What records say of it: its name, its driver, its size; empty where there is no GPU."""
    return {name: said for name in _TOLD if (said := one_line(about.get(name, ""), LONGEST_LINE))}


def gpu_state(written: bytes) -> dict[str, float]:
    """Its clocks, temperature, power and why it is throttled (NVML's bits), as far as it says."""
    lines = (line.partition("=") for line in written.decode(errors="replace").splitlines())
    said = {name: value for name, _, value in lines if name in _STATE}
    return {name: number for name, value in said.items() if (number := _number(value)) is not None}


def _number(written: str) -> float | None:
    try:
        number = float(written)
    except ValueError:
        return None
    return number if math.isfinite(number) and 0 <= number < _LARGEST else None
