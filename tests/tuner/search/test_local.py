"""Evolution and local descent: what they make of what they know, and that it pays."""

from __future__ import annotations

import numpy as np
import pytest

from int8tune.schedules.space import Config, ConfigSpace
from int8tune.tuner.search.descent import STARTS
from int8tune.tuner.search.evolution import FOUNDERS
from tests.support.program.search_landscapes import (
    bowl,
    flat,
    large_space,
    search,
    small_space,
    strategy_of,
    trials_of,
)


class TestDescent:
    def test_neighbours_of_the_fastest_config_come_first(self) -> None:
        space = large_space()
        strategy = strategy_of("descent", space)
        near, far = dict.fromkeys(space.default, 4), dict.fromkeys(space.default, 1)
        strategy.propose(STARTS)
        strategy.observe(trials_of([near, far], bowl))
        _, *batch = strategy.propose(6)
        assert all(config in space.neighbours(near) for config in batch)

    def test_each_batch_has_a_random_config(self) -> None:
        space = large_space()
        strategy = strategy_of("descent", space)
        strategy.propose(STARTS)
        strategy.observe(trials_of([dict.fromkeys(space.default, 4)], bowl))
        first, *_ = strategy.propose(4)
        assert steps_between(space, first, dict.fromkeys(space.default, 4)) > 1

    def test_at_an_optimum_it_goes_on_from_the_next_config(self) -> None:
        """Every neighbour of the optimum is known: those of the second fastest are left."""
        space = large_space(side=8, knobs=2)
        strategy = strategy_of("descent", space)
        strategy.propose(STARTS)
        optimum: Config = {"tile_0": 4, "tile_1": 4}
        around = space.neighbours(optimum)
        strategy.observe(trials_of([optimum, *around], bowl))
        _, *batch = strategy.propose(4)
        assert batch
        assert all(any(steps_between(space, config, near) == 1 for near in around) for config in batch)

    def test_it_walks_down_to_the_optimum(self) -> None:
        history = flat(search(strategy_of("descent", large_space(side=8, knobs=3)), bowl, batches=8))
        assert min(map(bowl, history)) == bowl(dict.fromkeys(("tile_0", "tile_1", "tile_2"), 4))


class TestEvolution:
    def test_children_take_their_knobs_from_parents_or_neighbours(self) -> None:
        space = large_space()
        strategy = strategy_of("evolution", space)
        strategy.propose(FOUNDERS)
        parents: list[Config] = [dict.fromkeys(space.default, 3), dict.fromkeys(space.default, 6)]
        strategy.observe(trials_of(parents, bowl))
        children = strategy.propose(40)
        values = [int(value) for child in children for value in child.values()]
        assert sum(value in (3, 6) for value in values) > 0.75 * len(values)
        assert any({3, 6} <= set(child.values()) for child in children)

    def test_the_slow_have_few_children(self) -> None:
        space = large_space()
        strategy = strategy_of("evolution", space)
        strategy.propose(FOUNDERS)
        fast, slow = dict.fromkeys(space.default, 4), dict.fromkeys(space.default, 7)
        strategy.observe(trials_of([fast, slow], bowl))
        children = strategy.propose(40)
        nearer = [steps_between(space, child, fast) < steps_between(space, child, slow) for child in children]
        assert np.mean(nearer) > 0.6

    def test_the_first_configs_are_random(self) -> None:
        assert strategy_of("evolution", small_space()).propose(3) == strategy_of("random", small_space()).propose(3)


@pytest.mark.parametrize("name", ["evolution", "descent"])
def test_they_find_better_configs_than_random_search(name: str) -> None:
    """In a space of a million configs; in one of hundreds, 48 random ones are hard to beat."""
    assert best_of_48(name) < 0.8 * best_of_48("random")


def best_of_48(name: str) -> float:
    """The median over seeds of the fastest one."""
    space = large_space()
    found = [min(map(bowl, flat(search(strategy_of(name, space, seed), bowl, batches=6)))) for seed in range(9)]
    return float(np.median(found))


def steps_between(space: ConfigSpace, one: Config, other: Config) -> int:
    return sum(abs(knob.choices.index(one[knob.name]) - knob.choices.index(other[knob.name])) for knob in space.knobs)
