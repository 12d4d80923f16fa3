"""How many trials a campaign may have: known without counting spaces, which for GPUs have 350,000 points each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from int8tune.schedules.registry import template_for
from int8tune.schedules.space import ConfigSpace, Constraint, Knob, Value
from int8tune.schedules.target import named_target
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.campaign.plan import Task, most_trials

KEY = "conv2d-u8s8-1x8x8x16-k1x1x32-s1-p0-float.c-u8"


@dataclass
class Counted:
    """A space of a knob with so many choices, of which only even ones are valid; it counts who asks."""

    choices: int
    asked: int = 0

    def space(self) -> ConfigSpace:
        def holds(config: Mapping[str, Value]) -> bool:
            self.asked += 1
            return int(config["a"]) % 2 == 0

        found = ConfigSpace((Knob("a", tuple(range(self.choices))),), {"a": 0}, (Constraint("even", holds),))
        self.asked = 0
        return found


def task(space: ConfigSpace) -> Task:
    target, workload = named_target("generic-x86-64"), parse_workload(KEY)
    return Task(0, "layer", 1, workload, target, template_for(workload, target), space)


@pytest.mark.parametrize(
    ("sizes", "trials", "most"),
    [
        ((40,), 8, 8),
        ((6,), 8, 3),
        ((6, 40), 8, 16),
        ((6, 16), 8, 11),
        ((), 8, 0),
        # What the first layer leaves, the others may have.
        ((2, 2, 100), 4, 12),
    ],
)
def test_a_campaign_has_its_budget_or_all_configs(sizes: tuple[int, ...], trials: int, most: int) -> None:
    assert most_trials([task(Counted(size).space()) for size in sizes], trials) == most


@pytest.mark.parametrize(("size", "trials", "own"), [(40, 8, 8), (6, 8, 3)])
def test_a_layer_has_its_budget_or_all_configs(size: int, trials: int, own: int) -> None:
    assert task(Counted(size).space()).trials(trials) == own


def test_no_more_of_a_space_is_looked_at_than_a_budget_takes() -> None:
    counted = Counted(100_000)
    found = task(counted.space())
    assert found.trials(8) == 8
    assert most_trials([found] * 3, 8) == 24
    # Every second one is valid, of as many as a layer has, and of all.
    assert counted.asked <= 2 * (8 + 24)
