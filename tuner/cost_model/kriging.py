"""What trees believe, corrected near what was measured (regression kriging; Hengl, Heuvelink and Rossiter, 2007)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from int8tune.tuner.cost_model.base import CostModel, Rows, Sample, Scorer
from int8tune.tuner.cost_model.features import spans_of
from int8tune.tuner.cost_model.xgboost import targets_of
from int8tune.tuner.errors import CostModelError

# Distance over which what is learned of a config fades, in standard deviations of a column.
LENGTH = 1.5
# Noise of a measurement against what a margin does not know of a layer, both as standard deviations: two recordings of
# the same configs agree to 4 % at best, other layers' scores are off by 18 %.
NOISE = 0.25
# The share of trees in a score: they find thresholds, the process finds neighbours.
TREES_SHARE = 1 / 3
# Samples that are remembered: of more, almost every one of the fastest, and fewer the slower they are.
MOST_SAMPLES = 128
# Sums of another order differ in the last bits; a search must not go on differently for that.
DECIMALS = 9


class KrigedCostModel:
    """The weighted mean of another model's scores and of a Gaussian process; a `CostModel`.

    With fewer samples than columns, trees split off the fastest configs by whatever column comes first. The process
    (Rasmussen and Williams, 2006, chapter 2) gives a config the more of a sample's surprise, the more alike they are in
    all columns: what is left of its target when the margin is taken off.
    """

    def __init__(self, trees: CostModel, spans: Rows | None = None) -> None:
        """`spans`: standard deviations of the columns (`FeatureEncoder.spans`); None: those of the samples."""
        self._trees = trees
        self._given_spans = spans
        self._spans = np.zeros(0)
        self._trees_share = TREES_SHARE
        self._margin: Scorer | None = None
        self._points: Rows | None = None
        self._weights = np.zeros(0)

    def fit(self, samples: Sequence[Sample], margin: Scorer | None = None) -> None:
        margin = _remembering(margin) if margin else None
        self._trees.fit(samples, margin)
        rows = np.array([sample.features for sample in samples])
        self._spans = spans_of(rows) if self._given_spans is None else self._given_spans
        speeds = np.array([sample.speed for sample in samples])
        # Where configs begin to fail is an edge, which trees find: the process would take it for a slope.
        self._trees_share = TREES_SHARE if speeds.all() else 1.0
        surprises = targets_of(samples) - (margin(rows) if margin else np.zeros(len(rows)))
        kept = densest_first(speeds)
        self._margin = margin
        self._points = rows[kept]
        covariance = self._alike(self._points) + NOISE**2 * np.eye(len(kept))
        weights = np.linalg.solve(covariance, surprises[kept] - np.median(surprises))
        self._weights = np.asarray(weights, dtype=np.float64)

    def predict(self, features: Rows) -> Rows:
        scores = self._trees.predict(features)
        if self._points is None:
            raise CostModelError("a cost model must be fitted before it predicts")
        kriged = self._alike(features) @ self._weights
        if self._margin:
            kriged = kriged + self._margin(features)
        mixed: Rows = np.round(self._trees_share * scores + (1 - self._trees_share) * kriged, DECIMALS)
        return mixed

    def _alike(self, rows: Rows) -> Rows:
        """How alike rows and samples are, 0 to 1, [rows, samples]."""
        assert self._points is not None
        return alikeness(rows, self._points, self._spans)


def alikeness(rows: Rows, points: Rows, spans: Rows) -> Rows:
    """How alike rows and points are, 0 to 1, [rows, points]; `spans` are the columns' standard deviations."""
    if not len(points):
        return np.zeros((len(rows), 0))
    scaled, others = (points - points[0]) / spans, (rows - points[0]) / spans
    # Not by BLAS, which would take all cores.
    products = np.einsum("ij,kj->ik", others, scaled)
    squares = (others**2).sum(axis=1)[:, None] + (scaled**2).sum(axis=1) - 2 * products
    columns = max(1, int(np.isfinite(spans).sum()))
    alike: Rows = np.exp(-0.5 * np.maximum(squares, 0) / columns / LENGTH**2)
    return alike


def unknown_share(rows: Rows, points: Rows, spans: Rows) -> Rows:
    """The share of what was not known of each row that is still unknown once all points are measured, as deviations."""
    alike = alikeness(rows, points, spans)
    covariance = alikeness(points, points, spans) + NOISE**2 * np.eye(len(points))
    known = np.einsum("ij,ji->i", alike, np.linalg.solve(covariance, alike.T))
    left: Rows = np.sqrt(np.maximum(1 - known, 0))
    return left


def _remembering(margin: Scorer) -> Scorer:
    """The margin, asked once where both models ask for the same rows: that is what scoring a large space costs."""
    asked: list[tuple[Rows, Rows]] = []

    def scores(rows: Rows) -> Rows:
        if not asked or asked[0][0] is not rows:
            asked[:] = [(rows, margin(rows))]
        return asked[0][1]

    return scores


def densest_first(speeds: Rows) -> npt.NDArray[np.int64]:
    """Positions of at most `MOST_SAMPLES` samples in the order of speed, the closer together the faster they are."""
    order = np.argsort(-speeds, kind="stable")
    if len(order) <= MOST_SAMPLES:
        return order
    places = np.linspace(0, 1, MOST_SAMPLES) ** 2 * (len(order) - 1)
    return order[np.unique(places.astype(np.int64))]
