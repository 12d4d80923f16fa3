"""A layer whose space was measured once, and what the template of today makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from int8tune.results.record import Candidate, Config, Measurement, Outcome, Trial
from int8tune.schedules.errors import ScheduleError
from int8tune.schedules.registry import template_named
from int8tune.schedules.space import ConfigSpace, Constraint, Knob
from int8tune.schedules.target import named_target
from int8tune.schedules.upgrades import upgraded
from int8tune.schedules.workload import Workload, parse_workload
from int8tune.tuner.errors import RecordingError

# Name of the campaign and device of trials that are replayed.
CAMPAIGN = "lab"


@dataclass(frozen=True, slots=True)
class _Reading:
    """What this version makes of a recording.

    Attributes:
        space: the recorded configs.
        times_s: by config as the space has it, as canonical text.
        version: of the template whose kernels were timed; the present one where those are still made.
        present_version: of the template.
    """

    space: ConfigSpace
    times_s: Mapping[str, float | None]
    version: int
    present_version: int


@dataclass(frozen=True)
class RecordedLayer:
    """The configs of one layer that were measured.

    Attributes:
        times_s: seconds of a call by config, as canonical text and as it was recorded; None for a config that failed.
    """

    target: str
    workload: str
    template: str
    version: int
    times_s: Mapping[str, float | None]

    @property
    def name(self) -> str:
        return f"{self.target} {self.workload}"

    @cached_property
    def loss(self) -> str | None:
        """Why nothing of it can be replayed: its template is gone, or has no such configs. None if it can."""
        return self._found if isinstance(self._found, str) else None

    @property
    def space(self) -> ConfigSpace:
        """The recorded configs: those of the template's space, with its features; another tuner's as a grid of values.

        The default is the template's where it was recorded, perhaps without a later knob of it, else the first config.

        Raises:
            RecordingError: it has lost its template.
        """
        return self._reading.space

    @property
    def kernels_version(self) -> int:
        """The version of the template whose kernels these are; the present one where it still makes them."""
        return self._reading.version

    @property
    def has_present_kernels(self) -> bool:
        return self._reading.version == self._reading.present_version

    @property
    def missing_configs(self) -> int:
        """How many recorded configs the template no longer has."""
        return len(self.times_s) - len(self._reading.times_s)

    @cached_property
    def best_s(self) -> float:
        return min(time for time in self._reading.times_s.values() if time is not None)

    def time_s(self, config: Config) -> float | None:
        """Seconds of a call, None if it failed."""
        return self._reading.times_s[canonical(self.space.completed(config))]

    def candidate(self, config: Config) -> Candidate:
        version = self._reading.present_version
        return Candidate(self.workload, self.target, self.template, version, self.space.written(config))

    def parsed(self) -> Workload | None:
        """The workload, None where it is another tuner's."""
        try:
            return parse_workload(self.workload)
        except ScheduleError:
            return None

    @property
    def _reading(self) -> _Reading:
        if isinstance(self._found, str):
            raise RecordingError(f"the recording of {self.name} has lost its template: {self._found}")
        return self._found

    @cached_property
    def _found(self) -> _Reading | str:
        """A reason where there is nothing."""
        workload = self.parsed()
        if workload is None:
            return _Reading(_grid(self.times_s), self.times_s, self.version, self.version)
        try:
            template, target = template_named(self.template), named_target(self.target)
        except ScheduleError as error:
            return str(error)
        if rejection := template.rejects(workload, target):
            return f"{self.template} no longer takes {self.workload}: {rejection.reason}"
        own = template.space(workload, target)
        times_s, version, fault = self._upgraded(own, template.version)
        if not any(times_s.values()):
            return fault
        return _Reading(_recorded_of(own, times_s), times_s, version, template.version)

    def _upgraded(self, own: ConfigSpace, present: int) -> tuple[dict[str, float | None], int, str]:
        """The times of the configs that are in the template's space, by what they are there, and of which version.

        And why one is not.
        """
        times_s: dict[str, float | None] = {}
        version, fault = present, "none of its configs works"
        for text, time_s in self.times_s.items():
            try:
                found = upgraded(self.template, self.version, json.loads(text))
                times_s[canonical(own.check(found.config))] = time_s
            except ScheduleError as error:
                fault = str(error)
            else:
                version = version if found.same_kernels else self.version
        return times_s, version, fault


def replayed(layer: RecordedLayer, candidate: Candidate, sequence: int) -> Trial:
    """The trial as it was recorded."""
    time_s = layer.time_s(dict(candidate.config))
    measurement = Measurement((time_s,), 1) if time_s else None
    outcome = Outcome.OK if time_s else Outcome.RUN_FAILED
    return Trial(CAMPAIGN, sequence, candidate, outcome, measurement, CAMPAIGN, {}, "")


def canonical(config: Mapping[str, Any]) -> str:
    """Equal text for equal configs."""
    return json.dumps(dict(config), sort_keys=True, separators=(",", ":"))


def _recorded_of(own: ConfigSpace, times_s: Mapping[str, float | None]) -> ConfigSpace:
    """What was recorded of a template's space, all of which satisfies its constraints."""
    recorded = Constraint("it was recorded", lambda config: canonical(config) in times_s)
    # A default with a knob that came later was not recorded; it was without the knob, if it was the default then.
    likely = (canonical(config) for config in (own.default, own.as_before(own.default)))
    default = json.loads(next((text for text in likely if text in times_s), next(iter(times_s))))
    return ConfigSpace(own.knobs, default, (recorded,), own.features)


def _grid(configs: Iterable[str]) -> ConfigSpace:
    """A space of configs that no template is known for."""
    known = [json.loads(text) for text in configs]
    names = sorted({name for config in known for name in config})
    choices = {name: sorted({config[name] for config in known if name in config}, key=_order) for name in names}
    texts = {canonical(config) for config in known}
    recorded = Constraint("it was recorded", lambda config: canonical(config) in texts)
    return ConfigSpace(tuple(Knob(name, tuple(choices[name])) for name in names), known[0], (recorded,))


def _order(value: Any) -> tuple[str, Any]:
    return type(value).__name__, value
