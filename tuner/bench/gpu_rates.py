"""What a GPU could do at most, by what it says of itself."""

from __future__ import annotations

from collections.abc import Mapping

from int8tune.results.bench import GPU_RATE
from int8tune.rpc.request import Capabilities

# Operations (a multiply-add is two) of a multiprocessor's tensor cores in a cycle, on int8 without sparsity: rates of
# NVIDIA's data sheets over multiprocessors and boost clock, of T4 (130 TOPS, 40 at 1.59 GHz), A100 (624, 108 at 1.41),
# A10 (250, 72 at 1.695), L4 (242, 58 at 2.04), H100 SXM (1979, 132 at 1.83), B200 (4500, 148 at 1.86) and RTX 5090
# (838, 170 at 2.407).
OPS_OF_A_CYCLE: Mapping[str, int] = {
    "cuda_sm_75": 2048,
    "cuda_sm_80": 4096,
    "cuda_sm_86": 2048,
    "cuda_sm_89": 2048,
    "cuda_sm_90": 8192,
    "cuda_sm_100": 16384,
    "cuda_sm_120": 2048,
}


def gpu_rates(device: Capabilities) -> dict[str, str]:
    """The rate for an environment; empty where the device is no GPU, or is one whose rate is not known."""
    own = max((name for name in device.features if name.startswith("cuda_sm_")), key=_number, default="")
    said = [device.environment.get(name, "") for name in ("gpu_multiprocessors", "gpu_clock_khz")]
    if own not in OPS_OF_A_CYCLE or not all(value.isdigit() and len(value) < 10 for value in said):
        return {}
    multiprocessors, clock_khz = map(int, said)
    return {GPU_RATE: str(OPS_OF_A_CYCLE[own] * multiprocessors * clock_khz * 1000)}


def _number(feature: str) -> int:
    written = feature.rpartition("_")[2]
    return int(written) if written.isdigit() else 0
