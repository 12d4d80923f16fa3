"""Where a campaign's time went: builds, and what each device or board did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from int8tune.results.record import Duel, Trial
from int8tune.results.wall_clock import WallClock


@dataclass(frozen=True, slots=True)
class PlaceTime:
    """What one device, or one board of several, spent its time on, in seconds.

    Attributes:
        name: the board's, or the device's where there is only one.
        trials: that it measured.
        verify_s: of its sessions, what is no timing: starting them, and comparing results with the oracle.
        timing_s: calls that were timed.
        duels_s: between a record and the duels that followed it; they have no time of their own.
        wait_s: the rest of the campaign.
    """

    name: str
    trials: int
    verify_s: float
    timing_s: float
    duels_s: float
    wait_s: float


@dataclass(frozen=True, slots=True)
class TuningTime:
    """Where a campaign's time went.

    Attributes:
        wall_s: the time that passed, without pauses.
        build_s: of all builds together; several may run at a time.
        reused: trials whose code had been measured for another candidate already.
    """

    wall_s: float
    pauses: int
    trials: int
    builds: int
    build_s: float
    reused: int
    places: tuple[PlaceTime, ...]

    @property
    def trials_per_s(self) -> float | None:
        """Trials per second of the time that passed; None where none did."""
        return self.trials / self.wall_s if self.wall_s > 0 else None


def place_of(entry: Trial | Duel) -> str:
    """The board, or the device where there is only one."""
    return entry.environment.get("board") or entry.device


@dataclass(slots=True)
class _Place:
    trials: int = 0
    verify_s: float = 0.0
    timing_s: float = 0.0
    records: set[str] = field(default_factory=set)


@dataclass(slots=True)
class TimeNotes:
    """What is needed of the trials while they go by."""

    places: dict[str, _Place] = field(default_factory=dict)
    trials: int = 0
    builds: int = 0
    build_s: float = 0.0
    reused: int = 0

    def add(self, trial: Trial) -> None:
        self.trials += 1
        self.builds += trial.build_s > 0
        self.build_s += trial.build_s
        if trial.reused_from:
            self.reused += 1
        elif trial.run_s > 0:
            place = self.places.setdefault(place_of(trial), _Place())
            timing_s = min(_timing_s(trial), trial.run_s)
            place.trials += 1
            place.timing_s += timing_s
            place.verify_s += trial.run_s - timing_s
            place.records.add(trial.started_at)

    def tuning_time(self, duels: Iterable[tuple[str, str]], clock: WallClock) -> TuningTime:
        """The sums, with the duels as (place, time of the record)."""
        later: dict[str, set[str]] = {}
        for name, stamp in duels:
            later.setdefault(name, set()).add(stamp)
        places = [_placed(name, place, later.get(name, set()), clock) for name, place in sorted(self.places.items())]
        return TuningTime(
            clock.total_s, clock.pauses, self.trials, self.builds, self.build_s, self.reused, tuple(places)
        )


def _timing_s(trial: Trial) -> float:
    """Calls that were timed; where a device drifted, it was timed several times over."""
    found = trial.measurement
    return sum(found.times_s) * found.calls_per_repeat * found.observed.get("timings", 1.0) if found else 0.0


def _placed(name: str, place: _Place, duels: set[str], clock: WallClock) -> PlaceTime:
    duels_s = _before(duels, place.records, clock)
    rest_s = clock.total_s - place.verify_s - place.timing_s - duels_s
    return PlaceTime(name, place.trials, place.verify_s, place.timing_s, duels_s, max(rest_s, 0.0))


def _before(duels: set[str], trials: set[str], clock: WallClock) -> float:
    """Seconds of the steps that end with a duel's record."""
    of_duels = {at_s for stamp in duels if (at_s := clock.at(stamp)) is not None}
    moments = sorted(of_duels | {at_s for stamp in trials if (at_s := clock.at(stamp)) is not None})
    return sum(after - before for before, after in pairwise(moments) if after in of_duels)
