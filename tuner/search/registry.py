"""The search strategies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from schedules.space import ConfigSpace
from tuner.cost_model.xgboost import XGBoostCostModel
from tuner.errors import UnknownStrategyError
from tuner.search.base import Strategy
from tuner.search.descent import LocalDescent
from tuner.search.evolution import EvolutionarySearch
from tuner.search.grid import GridSearch
from tuner.search.random import RandomSearch
from tuner.search.xgboost import ModelGuidedSearch

STRATEGIES: Mapping[str, Callable[[ConfigSpace, np.random.Generator], Strategy]] = {
    "xgboost": lambda space, rng: ModelGuidedSearch(space, rng, XGBoostCostModel()),
    "evolution": EvolutionarySearch,
    "descent": LocalDescent,
    "random": RandomSearch,
    "grid": lambda space, _rng: GridSearch(space),
}


def strategy_names() -> tuple[str, ...]:
    """What `make_strategy` knows, the default of a campaign first."""
    return tuple(STRATEGIES)


def make_strategy(name: str, space: ConfigSpace, rng: np.random.Generator) -> Strategy:
    """A new strategy over the space, which owns the generator from now on.

    Raises:
        UnknownStrategyError: nobody registered the name.
    """
    if name not in STRATEGIES:
        raise UnknownStrategyError(f"unknown search strategy `{name}`, known: {', '.join(STRATEGIES)}")
    return STRATEGIES[name](space, rng)
