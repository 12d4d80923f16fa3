"""How strategies did in a race, in numbers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from int8tune.results.stats import median
from int8tune.tuner.lab.race import Run

CHECKPOINTS = (4, 8, 16, 32, 64)
GOOD_SHARE = 0.97


@dataclass(frozen=True, slots=True)
class Standing:
    """One strategy over all layers and seeds.

    Attributes:
        shares: of the recorded best, geometric means over runs, after so many trials.
        good_layers: after so many trials, the share of layers whose median run reached 97 % of the best.
        trials_to_good: the median run's, layers that never got there counted as the whole budget; a mean over layers.
    """

    strategy: str
    shares: Mapping[int, float]
    good_layers: Mapping[int, float]
    trials_to_good: float


def leaderboard(runs: Iterable[Run], trials: int) -> list[Standing]:
    """The best strategy first, by its share of the best after 16 trials, or after all of fewer."""
    by_strategy: dict[str, dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        by_strategy[run.strategy][run.layer].append(run)
    at = min(16, trials)
    points = sorted({*(point for point in CHECKPOINTS if point <= trials), at})
    standings = [_standing(strategy, layers, points, trials) for strategy, layers in by_strategy.items()]
    return sorted(standings, key=lambda standing: -standing.shares[at])


def _standing(strategy: str, layers: Mapping[str, Sequence[Run]], points: Sequence[int], trials: int) -> Standing:
    every = [run for runs in layers.values() for run in runs]
    return Standing(
        strategy,
        {point: geometric_mean([share_after(run, point) for run in every]) for point in points},
        {
            point: sum(median([share_after(run, point) for run in runs]) >= GOOD_SHARE for runs in layers.values())
            / len(layers)
            for point in points
        },
        sum(median([float(trials_to(run, GOOD_SHARE, trials)) for run in runs]) for runs in layers.values())
        / len(layers),
    )


def share_after(run: Run, trials: int) -> float:
    """What was reached after so many trials, or at the end of a smaller space."""
    return run.shares[min(trials, len(run.shares)) - 1]


def trials_to(run: Run, share: float, budget: int) -> int:
    """Trials until a share of the best was reached, or the budget."""
    return next((index + 1 for index, reached in enumerate(run.shares) if reached >= share), budget)


def geometric_mean(values: Sequence[float]) -> float:
    """0 if one is."""
    return math.exp(sum(map(math.log, values)) / len(values)) if all(values) else 0.0


def leaderboard_rows(standings: Sequence[Standing]) -> list[list[str]]:
    """A table's cells, its head first."""
    points = list(standings[0].shares)
    at = min(points, key=lambda point: abs(point - 16))
    head = ["strategy", *(f"{point} trials" for point in points), f"layers at 97 % after {at}", "trials to 97 %"]
    rows = [
        [
            standing.strategy,
            *(f"{standing.shares[point] * 100:.1f}%" for point in points),
            f"{standing.good_layers[at] * 100:.0f}%",
            f"{standing.trials_to_good:.1f}",
        ]
        for standing in standings
    ]
    return [head, *rows]


def leaderboard_as_dict(standings: Sequence[Standing]) -> list[dict[str, Any]]:
    return [asdict(standing) for standing in standings]
