"""What a device could reach at most with a layer: its peak, or what its memories deliver.

The roofline model, Williams, Waterman and Patterson, Communications of the ACM 52, 2009.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from int8tune.results.record import CACHE_BYTES, CacheMode, DeviceCheck

PEAK = "peak"
MEMORY = "memory"
# Where a device does not say how large its caches are.
USUAL_CACHE_BYTES = {"L1": 32 << 10, "L2": 512 << 10, "L3": 8 << 20}


@dataclass(frozen=True, slots=True)
class LayerSize:
    """What one call of a layer computes, and what it has to read and write at least.

    Attributes:
        macs: multiply-adds.
        data_bytes: of its inputs and its output.
        weight_bytes: of its weights, which differ from layer to layer of a network.
    """

    macs: int
    data_bytes: int
    weight_bytes: int

    @property
    def intensity(self) -> float:
        """Operations per byte; a multiply and an add are two."""
        return 2 * self.macs / (self.data_bytes + self.weight_bytes)


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """A cache or the main memory, as it was measured.

    Attributes:
        holds_bytes: None for main memory.
    """

    name: str
    bytes_per_s: float
    holds_bytes: int | None


@dataclass(frozen=True, slots=True)
class Roofline:
    """What one core of a device can do at most.

    Attributes:
        levels: nearest first; empty where no bandwidth was measured.
        knows_sizes: whether the device said how large its caches are; else usual sizes stand for them.
    """

    peak_ops_per_s: float
    levels: tuple[MemoryLevel, ...]
    knows_sizes: bool

    def level(self, footprint_bytes: int) -> MemoryLevel | None:
        """The nearest one that holds so much."""
        return next((one for one in self.levels if one.holds_bytes is None or footprint_bytes <= one.holds_bytes), None)


@dataclass(frozen=True, slots=True)
class LayerRoof:
    """The most that a layer can reach on a device.

    Attributes:
        bound_by: `peak`, or the level of memory that most of its data's time is spent on.
    """

    bound_by: str
    ops_per_s: float
    intensity: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """From where a campaign's kernels have their data.

    Attributes:
        cache: the mode in which they were timed.
        network_weight_bytes: of all layers together.
    """

    cache: str
    network_weight_bytes: int


def roofline_of(check: DeviceCheck) -> Roofline:
    """The roofs of a device's check."""
    said = {level: check.environment.get(f"{CACHE_BYTES}{level}", "") for level in check.bandwidth_bytes_per_s}
    known = {level: int(text) for level, text in said.items() if text.isdecimal() and len(text) < 16}
    sizes: Mapping[str, int] = {**USUAL_CACHE_BYTES, **known}
    levels = [
        MemoryLevel(name, bytes_per_s, sizes.get(name))
        for name, bytes_per_s in check.bandwidth_bytes_per_s.items()
        if bytes_per_s > 0 and (name in sizes or name == MEMORY)
    ]
    levels.sort(key=lambda level: (level.holds_bytes is None, level.holds_bytes or 0))
    return Roofline(check.peak_ops_per_s, tuple(levels), all(level.name in (*known, MEMORY) for level in levels))


def layer_roof(roofline: Roofline, size: LayerSize, traffic: Traffic) -> LayerRoof:
    """What bounds a layer: computing, or moving each byte once from where it lies when the layer is called."""
    compute_s = 2 * size.macs / roofline.peak_ops_per_s
    moved_s: dict[str, float] = {}
    for moved_bytes, footprint_bytes in _streams(size, traffic, roofline):
        level = roofline.level(footprint_bytes)
        if level is not None:
            moved_s[level.name] = moved_s.get(level.name, 0.0) + moved_bytes / level.bytes_per_s
    total_s = sum(moved_s.values())
    bound_by = PEAK if compute_s >= total_s else max(moved_s, key=lambda name: moved_s[name])
    return LayerRoof(bound_by, 2 * size.macs / max(compute_s, total_s), size.intensity)


def _streams(size: LayerSize, traffic: Traffic, roofline: Roofline) -> list[tuple[int, int]]:
    """Bytes that a call moves, each with how much lies between two uses of them."""
    whole = size.data_bytes + size.weight_bytes
    if traffic.cache == CacheMode.NETWORK:
        # Data come from the layer before, weights from where a run of all other layers left them.
        return [(size.data_bytes, whole), (size.weight_bytes, max(whole, traffic.network_weight_bytes))]
    if traffic.cache == CacheMode.COLD:
        second = next((level.holds_bytes for level in roofline.levels if level.name == "L2"), None)
        return [(whole, max(whole, (second or 0) + 1))]
    return [(whole, whole)]
