"""The configs from which a model chooses."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from int8tune.tuner.cost_model.kriging import unknown_share

Indexes = npt.NDArray[np.int64]
Rows = npt.NDArray[np.float64]

CONTESTANTS = 16


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Some valid configs of a space, in columns.

    Attributes:
        indexes: of the configs in the space's grid, [configs].
        rows: their features, [configs, columns].
        kinds: [configs], equal for configs that look the same to the template's features.
    """

    indexes: Indexes
    rows: Rows
    kinds: Indexes

    def __len__(self) -> int:
        return len(self.indexes)

    def without(self, known: Collection[int]) -> Pool:
        left = ~np.isin(self.indexes, np.fromiter(known, np.int64, len(known)))
        return Pool(self.indexes[left], self.rows[left], self.kinds[left])

    def distinct_first(self, order: Indexes) -> Indexes:
        """The same positions with the first of each kind in front of all others."""
        _, firsts = np.unique(self.kinds[order], return_index=True)
        firsts.sort()
        return np.concatenate([order[firsts], np.delete(order, firsts)])


def kinds(features: Rows) -> Indexes:
    """Numbers that are equal where rows [configs, columns] are."""
    return np.unique(features, axis=0, return_inverse=True)[1].astype(np.int64)


def spread(rows: Rows, anchors: Rows, n: int, rng: np.random.Generator) -> Indexes:
    """Positions of `n` rows far from each other and from the anchors, or of all rows if there are no more than that.

    Each is the farthest of a few random ones: best-candidate sampling (Mitchell, SIGGRAPH 1991).
    """
    spans = np.std(rows, axis=0)
    spans[spans == 0] = 1
    points, taken = rows / spans, anchors / spans
    left = list(range(len(rows)))
    chosen: list[int] = []
    while left and len(chosen) < n:
        contestants = rng.choice(left, min(CONTESTANTS, len(left)), replace=False)
        gaps = np.linalg.norm(points[contestants, None] - taken, axis=2).min(axis=1, initial=np.inf)
        winner = int(contestants[np.argmax(gaps)])
        left.remove(winner)
        chosen.append(winner)
        taken = np.vstack([taken, points[winner]])
    return np.array(chosen, dtype=np.int64)


def optimistic(scores: Rows, rows: Rows, anchors: Rows, spans: Rows, spread: float, n: int) -> Indexes:
    """Positions of `n` rows, or all, whose scores may be best: each by its score and what is unknown of it.

    What is unknown of a row is less once one that is like it was chosen, whatever that one turns out to be (GP-BUCB;
    Desautels, Krause and Burdick, JMLR 2014).

    Args:
        scores: [rows], log2 of the speed, in the order in which equal ones are chosen.
        anchors: rows that are measured in any case, [anchors, columns].
        spans: standard deviations of the columns.
        spread: how far scores may be off, as a standard deviation.
    """
    left, chosen = np.ones(len(rows), bool), list[int]()
    while len(chosen) < min(n, len(rows)):
        points = np.concatenate([anchors, rows[chosen]])
        bounds = scores + spread * unknown_share(rows, points, spans)
        chosen.append(int(np.argmax(np.where(left, bounds, -np.inf))))
        left[chosen[-1]] = False
    return np.array(chosen, dtype=np.int64)
