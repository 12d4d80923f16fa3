"""One of two sides of a comparison, wherever its times come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from int8tune.results.record import Candidate


@dataclass(frozen=True, slots=True)
class LayerTime:
    """How long one layer takes on one side.

    Attributes:
        key: the layer's workload, or the name of what was timed; the same on both sides.
        count: how often the network runs it; None where nobody says.
        time: median seconds of a call; cycles where the side was estimated.
        times_s: seconds per call, one value per repeat; empty where only the median is known.
        error: standard deviation of the median's logarithm, where it is known without repeats; else None.
        references: seconds of other kernels, timed in turn with this one: value `i` next to value `i` of `times_s`.
            What has the same name on both sides is the same binary, or the same version of a library.
        candidate: what ran; None where nobody says.
        kernel: names the binary; empty where that is not known.
    """

    key: str
    label: str
    time: float
    count: int | None = None
    names: tuple[str, ...] = ()
    times_s: tuple[float, ...] = ()
    error: float | None = None
    references: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    candidate: Candidate | None = None
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which times were taken; times under others say nothing about each other. Empty is not known."""

    device: str = ""
    cpu: str = ""
    target: str = ""
    threads: str = ""
    cache: str = ""

    def differences(self, other: Conditions) -> Mapping[str, tuple[str, str]]:
        """What is known of both, and differs: by its name, both values."""
        names = ("device", "cpu", "target", "threads", "cache")
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in names}
        return {name: pair for name, pair in pairs.items() if all(pair) and pair[0] != pair[1]}


@dataclass(frozen=True, slots=True)
class Side:
    """What one side says.

    Attributes:
        source: where it was read, in words for a person.
        name: of the campaign or bench; of the file where there is none.
        network: empty where nobody says.
        layers: with a time, in the order of the network.
        failed: layers without a time, by key: why.
        controls: seconds of kernels that were timed in sessions of their own; the same name is the same binary.
        gains: of kernels that were timed in turn with a reference, the reference's time over theirs; by both names.
        probe_s: of the device's reference loop beside each session; empty where it was not timed.
        environment: of the device and of this program, as far as it is known.
        estimated_by: the model that cycles come from; empty where times were measured.
        started_at: ISO 8601; empty where nobody says.
    """

    source: str
    name: str
    network: str
    conditions: Conditions
    layers: Mapping[str, LayerTime]
    failed: Mapping[str, str] = field(default_factory=dict)
    controls: Mapping[str, float] = field(default_factory=dict)
    gains: Mapping[str, float] = field(default_factory=dict)
    probe_s: tuple[float, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    estimated_by: str = ""
    started_at: str = ""
