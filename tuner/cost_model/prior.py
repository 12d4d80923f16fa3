"""A model of a template that many layers taught: what it believes of a layer's configs before any was measured.

Knobs and the template's features mean the same for all layers, so trees that learn how much slower each config was than
its layer's best rank the configs of a layer they never saw. A campaign's own model starts from these scores and learns
what is different here: the global and the local model of Chen et al., Learning to Optimize Tensor Programs (NeurIPS
2018).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from int8tune.results.atomic import write_atomic
from int8tune.results.bounded_json import parse_json
from int8tune.tuner.cost_model.experience import LayerExperience, Rows, aligned
from int8tune.tuner.errors import CostModelError

VERSION = 1
MAX_BYTES = 64 << 20
# More rows than these teach little and cost time; each layer gives its share of them.
MOST_ROWS = 10_000
ROUNDS = 150
_TREES = {
    "objective": "reg:squarederror",
    "max_depth": 6,
    "eta": 0.1,
    "min_child_weight": 4,
    "subsample": 0.8,
    "colsample_bytree": 0.7,
    "tree_method": "hist",
    "nthread": 1,
    "seed": 0,
    "verbosity": 1,
}


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """Trees over columns by name.

    Attributes:
        layers: how many taught it.
    """

    names: tuple[str, ...]
    layers: int
    booster: Any

    def scores(self, names: Sequence[str], rows: Rows) -> Rows:
        """log2 of the speed against the layer's best, as expected, [configs]; the columns may be another layer's."""
        scores: Rows = np.asarray(self.booster.inplace_predict(aligned(names, rows, self.names)), dtype=np.float64)
        return scores

    def importance(self) -> dict[str, float]:
        """The share of the error that each column took away, the largest first."""
        gains = self.booster.get_score(importance_type="total_gain")
        by_name = {self.names[int(key[1:])]: float(gain) for key, gain in gains.items()}
        total = sum(by_name.values()) or 1.0
        return {name: gain / total for name, gain in sorted(by_name.items(), key=lambda item: -item[1])}


def learn_prior(experience: Sequence[LayerExperience]) -> Prior | None:
    """Learn from other layers; None where there is nothing to learn: no layer has two configs, one of which works."""
    import xgboost

    usable = [layer for layer in experience if len(layer.rows) > 1 and layer.speeds.any()]
    if not usable:
        return None
    names = tuple(sorted({name for layer in usable for name in layer.names}))
    share = max(2, MOST_ROWS // len(usable))
    rows, targets = [], []
    for layer in usable:
        kept = np.linspace(0, len(layer.rows) - 1, min(share, len(layer.rows))).astype(np.int64)
        rows.append(aligned(layer.names, layer.rows[kept], names))
        targets.append(_targets(layer.speeds)[kept])
    matrix = xgboost.DMatrix(np.concatenate(rows), label=np.concatenate(targets), nthread=1)
    return Prior(names, len(usable), xgboost.train(_TREES, matrix, num_boost_round=ROUNDS))


def _targets(speeds: Rows) -> Rows:
    """log2 of the speed against the best; a config that failed counts as half as fast as the slowest."""
    ok = speeds > 0
    logs = np.log2(speeds, where=ok, out=np.zeros_like(speeds))
    relative = logs - logs[ok].max()
    targets: Rows = np.where(ok, relative, relative[ok].min() - 1)
    return targets


def save_prior(prior: Prior, path: Path) -> None:
    """Write a model as JSON, whole or not at all."""
    model = json.loads(bytes(prior.booster.save_raw("json")))
    document = {"int8tune_cost_model": VERSION, "layers": prior.layers, "columns": prior.names, "model": model}
    write_atomic(path, json.dumps(document))


def load_prior(path: Path) -> Prior:
    """Read what `save_prior` wrote.

    Raises:
        CostModelError: it can't be read, is no model, is damaged or of another version.
    """
    import xgboost

    try:
        if path.stat().st_size > MAX_BYTES:
            raise CostModelError(f"{path} is larger than a cost model may be: {MAX_BYTES >> 20} MiB")
        document = parse_json(path.read_bytes(), most_bytes=MAX_BYTES, most_values=MAX_BYTES >> 2, is_finite=False)
    except OSError as error:
        raise CostModelError(f"cost model can't be read: {path}: {error.strerror}") from error
    except ValueError as error:
        raise CostModelError(f"{path} is no cost model: it is not JSON") from error
    version = document.get("int8tune_cost_model") if isinstance(document, dict) else None
    if version != VERSION:
        raise CostModelError(f"{path} is no cost model of version {VERSION}, its version is: {version}")
    columns, layers = document.get("columns"), document.get("layers")
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns) or type(layers) is not int:
        raise CostModelError(f"{path} is damaged: its columns or layers are missing")
    booster = xgboost.Booster({"nthread": 1})
    try:
        booster.load_model(bytearray(json.dumps(document.get("model")).encode()))
        width = booster.num_features()
    except (xgboost.core.XGBoostError, TypeError, ValueError) as error:
        raise CostModelError(f"{path} is damaged: {str(error).splitlines()[0][:200]}") from error
    if width != len(columns):
        raise CostModelError(f"{path} is damaged: its trees take {width} columns, {len(columns)} are named")
    return Prior(tuple(columns), layers, booster)
