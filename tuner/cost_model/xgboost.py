"""Gradient-boosted trees over the features of configs (Chen and Guestrin, KDD 2016).

The library is imported by the first fit: whoever only reads a strategy's name does not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.tuner.cost_model.base import Rows, Sample, Scorer
from int8tune.tuner.errors import CostModelError

ROUNDS = 100
_TREES = {
    "objective": "reg:squarederror",
    "max_depth": 4,
    "eta": 0.1,
    "tree_method": "hist",
    "nthread": 1,
    "seed": 0,
    "verbosity": 1,
}


class XGBoostCostModel:
    """A few small trees, refitted from nothing; a `CostModel`.

    They learn the logarithm of the throughput against the workload's best.
    """

    def __init__(self) -> None:
        self._margin: Scorer | None = None
        self._booster: Any = None
        self._columns = 0

    def fit(self, samples: Sequence[Sample], margin: Scorer | None = None) -> None:
        import xgboost

        if not samples:
            raise CostModelError("a cost model needs at least one sample")
        if len(lengths := {len(sample.features) for sample in samples}) > 1:
            raise CostModelError(f"samples need the same columns, these have: {', '.join(map(str, sorted(lengths)))}")
        samples = sorted(samples, key=lambda sample: sample.workload)
        rows = np.array([sample.features for sample in samples])
        matrix = xgboost.DMatrix(rows, label=targets_of(samples), nthread=1)
        self._margin = margin
        if margin is not None:
            _start_from(margin(rows), matrix, np.array([sample.speed > 0 for sample in samples]))
        self._booster = xgboost.train(_TREES, matrix, num_boost_round=ROUNDS)
        self._columns = rows.shape[1]

    def predict(self, features: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if self._booster is None:
            raise CostModelError("a cost model must be fitted before it predicts")
        if features.ndim != 2 or features.shape[1] != self._columns:
            raise CostModelError(f"the model needs rows of {self._columns} columns, not of shape: {features.shape}")
        margin = None if self._margin is None else self._margin(features)
        return np.asarray(self._booster.inplace_predict(features, base_margin=margin), dtype=np.float64)


def _start_from(margin: Rows, matrix: Any, ok: npt.NDArray[np.bool_]) -> None:
    """Let trees start from scores. The fastest so far need not be the layer's best: targets move to where those are."""
    labels = matrix.get_label()
    offset = float(np.median((labels - margin)[ok])) if ok.any() else 0.0
    matrix.set_label(labels - offset)
    matrix.set_base_margin(margin)


def targets_of(samples: Sequence[Sample]) -> Rows:
    """log2 of the throughput against the workload's best; a failed config counts as half the speed of the slowest."""
    _, groups = np.unique([sample.workload for sample in samples], return_inverse=True)
    speeds = np.array([sample.speed for sample in samples])
    targets = np.zeros(len(samples))
    for group in range(int(groups.max()) + 1):
        ok, failed = (groups == group) & (speeds > 0), (groups == group) & (speeds == 0)
        logs = np.log2(speeds[ok])
        targets[ok] = logs - logs.max(initial=-np.inf)
        targets[failed] = targets[ok].min(initial=0) - 1
    return targets
