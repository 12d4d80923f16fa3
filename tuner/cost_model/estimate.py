"""What a template's own count of cycles says of configs, before anything was measured or taught."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from int8tune.tuner.cost_model.base import Rows, Scorer

# The feature of the templates that have one.
COLUMN = "estimated_cycles"
# What it does not know of the fastest quarter of a layer's configs by its order, log2 of the speed: the median standard
# deviation of the lab's recordings.
SPREAD = 0.16


def estimate_of(names: Sequence[str]) -> Scorer | None:
    """Scores by the estimate among columns of these names, log2 of the speed but for a constant; None without one."""
    if COLUMN not in names:
        return None
    return partial(_scores, names.index(COLUMN))


def _scores(column: int, rows: Rows) -> Rows:
    # `FeatureEncoder` has made it a logarithm.
    return -rows[:, column]


def mean_of(first: Scorer, second: Scorer | None) -> Scorer:
    """What two say, half and half; the first alone without a second."""
    return partial(_mean, first, second) if second else first


def _mean(first: Scorer, second: Scorer, rows: Rows) -> Rows:
    both: Rows = (first(rows) + second(rows)) / 2
    return both
