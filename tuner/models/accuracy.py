"""How far a compiled model's outputs are from another runtime's, in quantization steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from int8tune.compiler.graph import Graph, Kind, Value
from int8tune.compiler.program import Array


@dataclass(frozen=True, slots=True)
class Difference:
    """How one value of a model differs between two runtimes.

    Attributes:
        layers: names in the original model of what makes it.
        steps: whether differences are counted in quantization steps; else they are those of the numbers.
        values: compared, over all samples.
        differing: how many of them differ at all.
        same_first: samples with their largest value in the same place, of `samples`.
        sqnr_db: the other runtime's signal over what differs from it, in decibels; None where nothing does,
            or there is no signal.
        itself_db: the same of the other runtime computing in another order, ONNX Runtime without its optimizations and
            LiteRT with them: what differs so much differs by rounding alone. None where it was not asked, too.
    """

    name: str
    layers: tuple[str, ...]
    steps: bool
    values: int
    differing: int
    largest: float
    mean: float
    samples: int
    same_first: int
    sqnr_db: float | None
    itself_db: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON may have them: None for a distance from an infinite number, or from none."""
        fields = asdict(self)
        return fields | {name: None for name in ("largest", "mean") if not math.isfinite(fields[name])}


def differences(graph: Graph, ours: Sequence[Array], theirs: Sequence[Array]) -> list[Difference]:
    """The difference of each output of a graph; arrays have samples on their first axis."""
    layers = {operator.outputs[0]: operator.layers for operator in graph.operators}
    return [
        _difference(graph.values[name], layers.get(name, ()), _step(graph, name), one, other)
        for name, one, other in zip(graph.outputs, ours, theirs, strict=True)
    ]


def _difference(value: Value, layers: tuple[str, ...], step: float | None, one: Array, other: Array) -> Difference:
    with np.errstate(invalid="ignore"):
        distance = np.abs(one.astype(np.float64) - other.astype(np.float64))
    distance[(one == other) | (np.isnan(one) & np.isnan(other))] = 0  # infinities and NaN, too
    distance[np.isnan(distance)] = np.inf
    sqnr_db = _decibels(value, other, distance)
    distance /= step or 1.0
    rows = [array.reshape(len(array), -1) for array in (one, other)]
    first = [array.argmax(axis=1) for array in rows]
    return Difference(
        name=value.name,
        layers=layers,
        steps=step is not None or value.type != "f32",
        values=distance.size,
        differing=int(np.count_nonzero(distance)),
        largest=float(distance.max()),
        mean=float(distance.mean()),
        samples=len(one),
        same_first=int(np.count_nonzero(first[0] == first[1])),
        sqnr_db=sqnr_db,
    )


def _decibels(value: Value, other: Array, distance: Array) -> float | None:
    """Signal over noise; stored values count from their zero point."""
    zero_point = 0 if value.quantization is None else int(value.quantization.zero_point[0])
    noise, signal = (float(np.square(each).sum()) for each in (distance, other.astype(np.float64) - zero_point))
    if not (signal > 0 and noise > 0 and math.isfinite(signal / noise)):
        return None
    return 10 * math.log10(signal / noise)


def _step(graph: Graph, name: str) -> float | None:
    """The scale of what an output of numbers was dequantized from."""
    for operator in graph.operators:
        if operator.kind is Kind.DEQUANTIZE and operator.outputs[0] == name:
            quantization = graph.values[operator.inputs[0]].quantization
            assert quantization is not None
            return float(quantization.scale[0])
    return None
