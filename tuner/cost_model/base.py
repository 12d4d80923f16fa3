"""The contract of a cost model, and what it learns from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from int8tune.tuner.errors import CostModelError

Rows = npt.NDArray[np.float64]
# Scores of rows [configs, columns] as [configs], the higher the faster.
Scorer = Callable[[Rows], Rows]


@dataclass(frozen=True, slots=True)
class Sample:
    """What became of one config.

    Attributes:
        features: its row of the feature matrix, see `tuner.cost_model.features`.
        speed: the higher the faster, comparable within a workload; 0 for a config that failed.
        workload: key of its workload: configs of different workloads are never ranked against each other.
    """

    features: tuple[float, ...]
    speed: float
    workload: str

    def __post_init__(self) -> None:
        if not (math.isfinite(self.speed) and self.speed >= 0):
            raise CostModelError(f"a speed must be finite and at least 0: {self.speed}")


class CostModel(Protocol):
    """Ranks the configs of a workload by the speed it expects.

    - `fit` starts from nothing: what a model knows is the samples of the last call, not their history.
    - The same samples in the same order give the same scores, in every process.
    - One sample is enough, and so are samples that all failed; there may be nothing to learn from them, and all scores
      are then equal.
    - Both calls run on one core: the others build and measure.
    """

    def fit(self, samples: Sequence[Sample], margin: Scorer | None = None) -> None:
        """Learn from samples whose rows have the same columns.

        Args:
            margin: scores to start from, such as those of a model that other layers taught; the samples are then of
                one workload.

        Raises:
            CostModelError: there are none, or their rows differ in length.
        """

    def predict(self, features: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Scores of the rows [configs, columns] as [configs]: of one workload's configs, the higher the faster.

        Raises:
            CostModelError: `fit` was never called, or with rows of another length.
        """
