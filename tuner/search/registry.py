"""The search strategies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from int8tune.results.entry_points import STRATEGIES as GROUP
from int8tune.results.entry_points import parts
from int8tune.schedules.space import ConfigSpace
from int8tune.tuner.cost_model.base import Scorer
from int8tune.tuner.cost_model.features import FeatureEncoder
from int8tune.tuner.cost_model.kriging import KrigedCostModel
from int8tune.tuner.cost_model.prior import Prior
from int8tune.tuner.cost_model.xgboost import XGBoostCostModel
from int8tune.tuner.errors import UnknownStrategyError
from int8tune.tuner.search.base import Strategy
from int8tune.tuner.search.descent import LocalDescent
from int8tune.tuner.search.evolution import EvolutionarySearch
from int8tune.tuner.search.grid import GridSearch
from int8tune.tuner.search.random import RandomSearch
from int8tune.tuner.search.xgboost import WHOLE_GRID, ModelGuidedSearch

# What other layers taught so far; asked for each batch.
Lessons = Callable[[], Prior | None]
Factory = Callable[[ConfigSpace, np.random.Generator, Lessons], Strategy]


def _model_guided(space: ConfigSpace, rng: np.random.Generator, lessons: Lessons) -> Strategy:
    encoder = FeatureEncoder(space)
    names = encoder.names

    def scorer() -> Scorer | None:
        prior = lessons()
        return partial(prior.scores, names) if prior else None

    # In a space of which a search sees samples only, neighbours are too far: there trees find better configs alone.
    trees = XGBoostCostModel()
    model = KrigedCostModel(trees, encoder.spans) if space.grid_size <= WHOLE_GRID else trees
    return ModelGuidedSearch(space, rng, model, scorer)


def _nothing() -> None:
    """No lessons."""


STRATEGIES: Mapping[str, Factory] = {
    "xgboost": _model_guided,
    "evolution": lambda space, rng, _: EvolutionarySearch(space, rng),
    "descent": lambda space, rng, _: LocalDescent(space, rng),
    "random": lambda space, rng, _: RandomSearch(space, rng),
    "grid": lambda space, _rng, _: GridSearch(space),
}


# Strategies whose proposals no result changes.
UNGUIDED = frozenset({"random", "grid"})


def strategy_names() -> tuple[str, ...]:
    """What `make_strategy` knows, the default of a campaign first, other packages' last.

    Raises:
        ExtensionError: two packages have a strategy of one name.
    """
    return (*STRATEGIES, *parts(GROUP, tuple(STRATEGIES)))


def make_strategy(name: str, space: ConfigSpace, rng: np.random.Generator, lessons: Lessons = _nothing) -> Strategy:
    """A new strategy over the space, which owns the generator from now on.

    Args:
        lessons: what other layers taught of the space's template; strategies without a model have no use for it.

    Raises:
        UnknownStrategyError: nobody registered the name.
        ExtensionError: the package that brings it can't be imported.
    """
    if name not in strategy_names():
        raise UnknownStrategyError(f"unknown search strategy `{name}`, known: {', '.join(strategy_names())}")
    if name in STRATEGIES:
        return STRATEGIES[name](space, rng, lessons)
    made: Strategy = parts(GROUP, tuple(STRATEGIES))[name].load()(space, rng, lessons)
    return made
