"""Predicted fronts are those of all networks, and what is tried of them finds the border."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from int8tune.quantize.forms import Form
from int8tune.tuner.choice.front import FormCost, Predicted, forms_by_layer, not_worse, predicted_front
from int8tune.tuner.choice.tries import Tries

FORMS = list(Form)


def drawn_costs(seed: int, layers: int) -> list[list[FormCost]]:
    rng = np.random.default_rng(seed)
    return [
        [FormCost(form, float(rng.uniform()), float(rng.uniform(-0.2, 1))) for form in FORMS[: rng.integers(1, 5)]]
        for _ in range(layers)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_a_front_has_all_networks_that_are_not_worse_and_no_other(seed: int) -> None:
    layers = drawn_costs(seed, 6)
    every = [(sum(each.extra_s for each in row), sum(each.noise for each in row)) for row in product(*layers)]
    wanted = {a for a in every if not any(b[0] <= a[0] and b[1] <= a[1] and b != a for b in every)}
    found = predicted_front(layers)
    np.testing.assert_allclose([(each.extra_s, each.noise) for each in found], sorted(wanted))
    assert [each.extra_s for each in found] == sorted(each.extra_s for each in found)


def test_a_front_is_thinned_and_keeps_its_ends() -> None:
    layers = drawn_costs(3, 12)
    whole, thin = predicted_front(layers, 10_000), predicted_front(layers, 12)
    assert len(thin) == 12 < len(whole)
    assert thin[0].extra_s == pytest.approx(whole[0].extra_s)
    assert thin[-1].noise == pytest.approx(whole[-1].noise)


def test_of_equal_points_one_stays() -> None:
    points = [(1.0, 2.0), (1.0, 2.0), (1.0, 1.0), (0.5, 3.0), (2.0, 1.0)]
    assert not_worse(points, lambda point: point) == [(0.5, 3.0), (1.0, 1.0)]
    layers = ["a", "b"]
    assert forms_by_layer([Form.FLOAT, Form.PER_CHANNEL], layers, Form.PER_CHANNEL) == {"a": Form.FLOAT}


@pytest.mark.parametrize("border", [0, 1, 37, 99, 100])
def test_the_border_of_a_front_is_found_by_halving(border: int) -> None:
    """Networks from `border` on are good, the fast ones before it are not."""
    tries = Tries([Predicted((), 0.0, float(place)) for place in range(100)])
    order = []
    for _ in range(8):
        place = tries.next()
        assert place is not None
        order.append(place)
        tries.tried(place, place >= border)
    good = [place for place in order if place >= border]
    assert min(good, default=100) == border


def test_behind_the_border_the_next_faster_one_and_the_farthest_take_turns() -> None:
    tries = Tries([Predicted((), 0.0, 0.0)] * 100, {29: False, 30: True, 99: True})
    order = []
    for _ in range(4):
        place = tries.next()
        assert place is not None
        order.append(place)
        tries.tried(place, False)
    assert order == [28, 64, 27, 0]


def test_everything_is_tried_once_where_there_is_time() -> None:
    tries, order = Tries([Predicted((), 0.0, 0.0)] * 23), []
    tries.tried(4, True)
    while (place := tries.next()) is not None:
        order.append(place)
        tries.tried(place, place % 3 == 0)
    assert sorted(order) == [place for place in range(23) if place != 4]
