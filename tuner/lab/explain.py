"""What the models of recorded templates go by, and how well their scores hold for layers that did not teach them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.cost_model.features import FeatureEncoder
from tuner.cost_model.prior import learn_prior
from tuner.lab.race import experience_in, prior_without
from tuner.lab.recording import RecordedLayer, canonical

# Bounds of the shares of a layer's best that are expected.
BINS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95)
MOST_COLUMNS = 8


@dataclass(frozen=True, slots=True)
class Bin:
    """Configs of which a share of the best was expected within bounds.

    Attributes:
        expected, measured: geometric means.
    """

    count: int
    expected: float
    measured: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """A template's model.

    Attributes:
        importance: the columns that take away most of the error, with their shares of it.
        bins: of all layers, each scored by a model that the others taught.
    """

    target: str
    template: str
    layers: int
    importance: dict[str, float]
    bins: tuple[Bin, ...]


def explain(layers: Sequence[RecordedLayer]) -> list[Explanation]:
    """One for each target and template that at least two layers were recorded of."""
    found = []
    for target, template in dict.fromkeys((layer.target, layer.template) for layer in layers):
        own = [layer for layer in layers if (layer.target, layer.template) == (target, template)]
        prior = learn_prior([experience for layer in own for experience in experience_in(layer)])
        if len(own) < 2 or prior is None:
            continue
        most = dict(list(prior.importance().items())[:MOST_COLUMNS])
        found.append(Explanation(target, template, len(own), most, _bins(own)))
    return found


def _bins(layers: Sequence[RecordedLayer]) -> tuple[Bin, ...]:
    expected, measured = [], []
    for index, layer in enumerate(layers):
        prior = prior_without(layers, index)
        configs = [config for config in layer.space if layer.times_s[canonical(config)]]
        if prior is None:
            continue
        encoder = FeatureEncoder(layer.space)
        scores = prior.scores(encoder.names, encoder.matrix(configs))
        # The layer's own level is not known before it is measured: its highest score stands for its best.
        expected.append(scores - scores.max())
        measured.append(np.log2([layer.best_s / (layer.times_s[canonical(config)] or 1.0) for config in configs]))
    logs, actual = np.concatenate(expected), np.concatenate(measured)
    places = np.digitize(np.exp2(logs), BINS)
    return tuple(
        Bin(int(chosen.sum()), float(np.exp2(logs[chosen].mean())), float(np.exp2(actual[chosen].mean())))
        for place in range(1, len(BINS) + 1)
        if (chosen := places == place).any()
    )
