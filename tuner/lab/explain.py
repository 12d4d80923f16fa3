"""What the models of recorded templates go by, and how well their scores hold for layers that did not teach them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from int8tune.tuner.lab.lessons import Classroom

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


def explain(classroom: Classroom) -> list[Explanation]:
    """One for each target and template that at least two layers were recorded of."""
    found = []
    for indices in dict.fromkeys(tuple(classroom.alike(index)) for index in range(len(classroom.layers))):
        prior, first = classroom.prior_of(indices), classroom.layers[indices[0]]
        if len(indices) < 2 or prior is None:
            continue
        most = dict(list(prior.importance().items())[:MOST_COLUMNS])
        found.append(Explanation(first.target, first.template, len(indices), most, _bins(classroom, indices)))
    return found


def _bins(classroom: Classroom, indices: Sequence[int]) -> tuple[Bin, ...]:
    expected, measured = [], []
    for index in indices:
        prior = classroom.prior_without(index)
        if prior is None:
            continue
        for experience in classroom.experience(index):
            works = experience.speeds > 0
            scores = prior.scores(experience.names, experience.rows[works])
            speeds = experience.speeds[works]
            # The layer's own level is not known before it is measured: its highest score stands for its best.
            expected.append(scores - scores.max())
            measured.append(np.log2(speeds / speeds.max()))
    logs, actual = np.concatenate(expected), np.concatenate(measured)
    places = np.digitize(np.exp2(logs), BINS)
    return tuple(
        Bin(int(chosen.sum()), float(np.exp2(logs[chosen].mean())), float(np.exp2(actual[chosen].mean())))
        for place in range(1, len(BINS) + 1)
        if (chosen := places == place).any()
    )
