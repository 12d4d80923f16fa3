"""A config for a layer that nobody tuned: what other layers' trials say, or the template's default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np

from int8tune.compiler.best_log import schedule_faults
from int8tune.results.base import Store
from int8tune.results.best import best_schedules
from int8tune.results.record import Candidate, Trial, as_in_networks
from int8tune.schedules.registry import template_for
from int8tune.schedules.space import Config, ConfigSpace
from int8tune.schedules.target import Target
from int8tune.schedules.workload import Workload
from int8tune.tuner.cost_model.estimate import estimate_of, mean_of
from int8tune.tuner.cost_model.experience import experience_of
from int8tune.tuner.cost_model.features import FeatureEncoder
from int8tune.tuner.cost_model.prior import Prior, learn_prior

# Factor by which a config must be expected to beat the default: a model errs by the first, with an estimate that has a
# say, too, by the second. Of 1, 1.03, 1.07, 1.15 and 1.3 they are next to the best for the recorded layers.
WORTH_BY_A_MODEL, WORTH_BY_BOTH = 1.15, 1.05
# Of a larger space, so many random points and the default are looked at.
MOST_CONFIGS = 20_000


class Source(StrEnum):
    """Where a suggestion comes from."""

    RECORDS = "records"
    OTHER_LAYERS = "other layers"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A config to run a layer with.

    Attributes:
        layers: that taught the model, 0 where it was not asked or knew nothing.
    """

    candidate: Candidate
    source: Source
    layers: int = 0


def suggest(store: Store, workload: Workload, target: Target, device: str) -> Suggestion:
    """The best recorded schedule of the layer; without one what other layers taught; the default where that is nothing.

    Raises:
        WorkloadError: no template takes the layer.
    """
    if best := recorded_best(store, workload, target, device):
        return Suggestion(best, Source.RECORDS)
    template = template_for(workload, target)
    space = template.space(workload, target)
    found = store.query(Trial, target=target.name, device=device)
    usual = as_in_networks(found)
    trials = [trial for trial in usual if trial.estimate is None] or usual
    prior = learn_prior(experience_of(trials, template.name, target))
    chosen = dict(space.default) if prior is None else best_guess(space, prior)
    candidate = Candidate(workload.key, target.name, template.name, template.version, space.written(chosen))
    source = Source.DEFAULT if chosen == dict(space.default) else Source.OTHER_LAYERS
    return Suggestion(candidate, source, prior.layers if prior else 0)


def recorded_best(store: Store, workload: Workload, target: Target, device: str) -> Candidate | None:
    """The best schedule in the records that this version can still make."""
    for best in best_schedules(store, workload=workload.key, target=target.name, device=device):
        if not schedule_faults(best):
            return best.candidate
    return None


def best_guess(space: ConfigSpace, prior: Prior) -> Config:
    """What a model and the template's estimate rank first, half and half; the default where that gains little."""
    configs = [dict(space.default), *_configs(space)]
    encoder = FeatureEncoder(space)
    estimate = estimate_of(encoder.names)
    scores = mean_of(partial(prior.scores, encoder.names), estimate)(encoder.matrix(configs))
    first, least = int(np.argmax(scores)), WORTH_BY_BOTH if estimate else WORTH_BY_A_MODEL
    return configs[first if scores[first] - scores[0] > np.log2(least) else 0]


def _configs(space: ConfigSpace) -> Sequence[Config]:
    if space.grid_size <= MOST_CONFIGS:
        return list(space)
    points = np.random.default_rng(0).integers(space.grid_size, size=MOST_CONFIGS)
    return [config for point in points if space.fault(config := space.at(int(point))) is None]
