"""What other layers taught: trials of a template on a target, as rows of numbers that a model can learn from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from results.record import Candidate, Trial
from schedules.errors import ScheduleError
from schedules.registry import template_named
from schedules.target import targets_named
from schedules.workload import parse_workload
from tuner.cost_model.features import FeatureEncoder
from tuner.search.speeds import calls_per_s

Rows = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LayerExperience:
    """Configs of one layer, and how fast they were.

    Attributes:
        names: of the columns, see `tuner.cost_model.features`.
        rows: [configs, columns].
        calls_per_s: [configs], 0 for a config that failed.
    """

    workload: str
    names: tuple[str, ...]
    rows: Rows
    calls_per_s: npt.NDArray[np.float64]


def experience_of(trials: Iterable[Trial], template: str, target: str) -> list[LayerExperience]:
    """What trials say of a template, layer by layer; those of other templates, targets and versions are left out."""
    by_workload: dict[str, dict[str, Trial]] = defaultdict(dict)
    for trial in trials:
        if (trial.candidate.template, trial.candidate.target) == (template, target):
            by_workload[trial.candidate.workload][trial.candidate.id] = trial
    found = (_of_layer(workload, list(by_workload[workload].values())) for workload in sorted(by_workload))
    return [layer for layer in found if layer is not None]


def _of_layer(workload: str, trials: Sequence[Trial]) -> LayerExperience | None:
    first = trials[0].candidate
    try:
        layer, target = parse_workload(workload), targets_named(first.target)[0]
        space = template_named(first.template).space(layer, target)
    except ScheduleError:
        return None
    current = [trial for trial in trials if _is_current(trial.candidate) and not space.fault(trial.candidate.config)]
    if not current:
        return None
    encoder = FeatureEncoder(space)
    rows = encoder.matrix([trial.candidate.config for trial in current])
    return LayerExperience(workload, encoder.names, rows, np.array([calls_per_s(trial) for trial in current]))


def _is_current(candidate: Candidate) -> bool:
    return template_named(candidate.template).version == candidate.template_version


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
