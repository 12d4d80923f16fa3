"""How steady devices were while they measured: the probe before and after each trial, and what disturbed it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from int8tune.results.analysis.tuning_time import place_of
from int8tune.results.drift import PROBES
from int8tune.results.record import Trial
from int8tune.results.stats import median, spread
from int8tune.results.wall_clock import WallClock


@dataclass(frozen=True, slots=True)
class Reading:
    """The probe around one trial.

    Attributes:
        at_s: since the campaign began.
        relative: its time over the median of its place: 1.05 is 5 % slower than usual.
        interrupted: repeats of the trial that another process interrupted; they were made again.
    """

    at_s: float
    sequence: int
    relative: float
    interrupted: int


@dataclass(frozen=True, slots=True)
class PlaceHealth:
    """One device, or one board of several.

    Attributes:
        probe_s: the probe's median time.
        noise: the spread of its times, interquartile range / median.
        timed_again: trials that were timed more than once until the device was steady.
        attempts: how often trials had to be started again, as the device was lost or the session was killed.
        load: the median load of the last minute; None where it was not seen.
    """

    name: str
    probe_s: float
    noise: float
    readings: tuple[Reading, ...]
    interrupted: int
    timed_again: int
    attempts: int
    load: float | None


@dataclass(slots=True)
class _Place:
    probes: list[tuple[str, int, float, int]] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    timed_again: int = 0
    attempts: int = 0


@dataclass(slots=True)
class HealthNotes:
    """What is needed of the trials while they go by."""

    places: dict[str, _Place] = field(default_factory=dict)

    def add(self, trial: Trial) -> None:
        if trial.measurement is None or trial.reused_from:
            return
        seen = trial.measurement.observed
        place = self.places.setdefault(place_of(trial), _Place())
        place.attempts += trial.attempts - 1
        place.timed_again += seen.get("timings", 1.0) > 1
        if "load_1min" in seen:
            place.loads.append(seen["load_1min"])
        probe_s = _probe_s(seen)
        if probe_s is not None:
            place.probes.append((trial.started_at, trial.sequence, probe_s, _count(seen.get("interrupted", 0.0))))

    def health(self, clock: WallClock) -> tuple[PlaceHealth, ...]:
        """The places that have a probe, by name."""
        return tuple(_health(name, place, clock) for name, place in sorted(self.places.items()) if place.probes)


def _probe_s(seen: Mapping[str, float]) -> float | None:
    found = [seen[name] for name in PROBES if 0 < seen.get(name, math.nan) < math.inf]
    return sum(found) / len(found) if found else None


def _count(value: float) -> int:
    return int(value) if 0 <= value < 2**31 else 0


def _health(name: str, place: _Place, clock: WallClock) -> PlaceHealth:
    times_s = [probe_s for _, _, probe_s, _ in place.probes]
    usual_s = median(times_s)
    readings = sorted(
        (
            Reading(clock.at(stamp) or 0.0, sequence, probe_s / usual_s, interrupted)
            for stamp, sequence, probe_s, interrupted in place.probes
        ),
        key=lambda reading: (reading.at_s, reading.sequence),
    )
    return PlaceHealth(
        name=name,
        probe_s=usual_s,
        noise=spread(times_s),
        readings=tuple(readings),
        interrupted=sum(reading.interrupted for reading in readings),
        timed_again=place.timed_again,
        attempts=place.attempts,
        load=median(place.loads) if place.loads else None,
    )
