"""Networks that are not worse than another in both time and accuracy: predicted ones, and verified ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from int8tune.quantize.forms import Form

MOST_KEPT = 400

Point = TypeVar("Point")


@dataclass(frozen=True, slots=True)
class FormCost:
    """What a form of a layer is expected to add to the network.

    Attributes:
        noise: over the signal of the model's output.
        extra_s: seconds more than the usual form takes; below zero where it is faster.
    """

    form: Form
    noise: float
    extra_s: float


@dataclass(frozen=True, slots=True)
class Predicted:
    """A network by the sums of its layers.

    Attributes:
        forms: of each layer, in the order in which they were given.
        noise: expected, over the signal.
        extra_s: seconds more than the network whose layers all have the usual form.
    """

    forms: tuple[Form, ...]
    noise: float
    extra_s: float


def predicted_front(layers: Sequence[Sequence[FormCost]], most: int = MOST_KEPT) -> list[Predicted]:
    """The networks of which no other is expected to be faster and nearer to the float model, the fastest first.

    Noise of independent roundings adds up, and so do times; so the front of the first n layers is made of that of the
    first n - 1 with each form of the next layer: exact for these sums, but for what is thinned out above `most`. It is
    what is worth trying, and no more: errors of real layers cancel or don't.

    Args:
        layers: the forms that each layer may have.
        most: networks that are kept from layer to layer.
    """
    found = [Predicted((), 0.0, 0.0)]
    for costs in layers:
        grown = [
            Predicted((*each.forms, cost.form), each.noise + cost.noise, each.extra_s + cost.extra_s)
            for each in found
            for cost in costs
        ]
        found = _thinned(not_worse(grown, lambda each: (each.extra_s, each.noise)), most)
    return found


def not_worse(points: Sequence[Point], costs: Callable[[Point], tuple[float, float]]) -> list[Point]:
    """The points of which no other has both costs as low and one lower, by the first cost; of equal ones the first."""
    found: list[Point] = []
    least = float("inf")
    for point in sorted(points, key=costs):
        if costs(point)[1] < least:
            found.append(point)
            least = costs(point)[1]
    return found


def forms_by_layer(forms: Sequence[Form], layers: Sequence[str], usual: Form) -> Mapping[str, Form]:
    """The forms of layers that differ from the usual one, by their names."""
    return {name: form for name, form in zip(layers, forms, strict=True) if form is not usual}


def _thinned(points: list[Predicted], most: int) -> list[Predicted]:
    """Evenly many of a front, both ends among them."""
    if len(points) <= most:
        return points
    return [points[round(place * (len(points) - 1) / (most - 1))] for place in range(most)]
