"""What other layers taught: trials of a template on a target, as rows of numbers that a model can learn from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from int8tune.results.record import Candidate, Trial
from int8tune.schedules.errors import ConfigError, ScheduleError, UnknownTemplateError
from int8tune.schedules.registry import template_named
from int8tune.schedules.space import Config, ConfigSpace
from int8tune.schedules.target import Target
from int8tune.schedules.upgrades import with_same_kernel
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.cost_model.features import FeatureEncoder
from int8tune.tuner.cost_model.speeds import speed_of

Rows = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LayerExperience:
    """Configs of one layer, and how fast they were.

    Attributes:
        names: of the columns, see `tuner.cost_model.features`.
        rows: [configs, columns].
        speeds: [configs], 0 for a config that failed.
    """

    workload: str
    names: tuple[str, ...]
    rows: Rows
    speeds: npt.NDArray[np.float64]


class Experience:
    """What trials say of one template on one target; each trial is encoded once, when it is added.

    Attributes:
        lost: how many trials of the template say nothing of its present kernels, by the reason.
    """

    def __init__(self, template: str, target: Target) -> None:
        self._template = template
        self._target = target
        self._layers: dict[str, _Layer | None] = {}
        self.lost: Counter[str] = Counter()

    def __len__(self) -> int:
        """How many trials can teach something."""
        return sum(len(layer.rows) for layer in self._layers.values() if layer)

    def add(self, trials: Iterable[Trial]) -> None:
        """Take in trials; those of other templates, targets and kernels are left out, and so are those known."""
        for trial in trials:
            candidate = trial.candidate
            if (candidate.template, candidate.target) != (self._template, self._target.name):
                continue
            if candidate.workload not in self._layers:
                self._layers[candidate.workload] = _layer_of(candidate, self._target)
            try:
                found = with_same_kernel(candidate.template, candidate.template_version, candidate.config)
                if layer := self._layers[candidate.workload]:
                    layer.add(trial, found.config)
            except UnknownTemplateError as error:
                self.lost[str(error)] += 1
            except ConfigError:
                self.lost[f"the space of `{candidate.template}` has changed"] += 1

    def layers(self) -> list[LayerExperience]:
        """Layer by layer, in the order of their keys."""
        known = ((workload, self._layers[workload]) for workload in sorted(self._layers))
        return [layer.experience(workload) for workload, layer in known if layer is not None and layer.rows]


class _Layer:
    """Rows and speeds of one layer, by index in its space; of a config with several trials the last one counts."""

    def __init__(self, space: ConfigSpace) -> None:
        self._space = space
        self._encoder = FeatureEncoder(space)
        self.rows: dict[int, Rows] = {}
        self._speeds: dict[int, float] = {}

    def add(self, trial: Trial, config: Config) -> None:
        """Take in a trial, and its config as the space has it.

        Raises:
            ConfigError: it is not in the space.
        """
        index = self._space.index(config)
        if index not in self.rows:
            self.rows[index] = self._encoder.matrix([config])[0]
        self._speeds[index] = speed_of(trial)

    def experience(self, workload: str) -> LayerExperience:
        rows, speeds = np.array(list(self.rows.values())), np.array(list(self._speeds.values()))
        return LayerExperience(workload, self._encoder.names, rows, speeds)


def experience_of(trials: Iterable[Trial], template: str, target: Target) -> list[LayerExperience]:
    """What trials say of a template, layer by layer; those of other templates, targets and kernels are left out."""
    experience = Experience(template, target)
    experience.add(trials)
    return experience.layers()


def _layer_of(candidate: Candidate, target: Target) -> _Layer | None:
    """None where this version can't read the layer any more."""
    try:
        return _Layer(template_named(candidate.template).space(parse_workload(candidate.workload), target))
    except ScheduleError:
        return None


def aligned(names: Sequence[str], rows: Rows, wanted: Sequence[str]) -> Rows:
    """The rows with the wanted columns: what a layer does not have is missing (NaN), a choice it does not have is 0."""
    at = {name: column for column, name in enumerate(names)}
    result = np.full((len(rows), len(wanted)), np.nan)
    for column, name in enumerate(wanted):
        if name in at:
            result[:, column] = rows[:, at[name]]
        elif "=" in name:
            result[:, column] = 0.0
    return result
