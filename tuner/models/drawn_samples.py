"""Samples that are drawn where a user gives none: several statistics, because each one misses faults that others show.

Of noise, a deep layer sees little but averages. In smooth samples, as in pictures, the values of a window are alike.
Constant and saturated ones take sums to their ends. Of extremes, the two summands of an addition make the most
different pairs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from int8tune.compiler.graph import DTYPES, Graph, Kind, Value
from int8tune.compiler.islands.island import entries_read
from int8tune.compiler.operators.base import STORED_RANGES
from int8tune.compiler.program import Array
from int8tune.compiler.quantized_layers import quantized_layers

FloatArray = npt.NDArray[np.float64]
# Multiply-adds of all samples: ten seconds of LiteRT's reference kernels.
USUAL_MACS = 10**10
LEAST_USUAL, MOST_USUAL = 10, 1000
MOST_BYTES = 256 << 20
# Contrast of saturated samples: a quarter of what they vary by is within the range.
CONTRAST = 4.0
SPECKLED_SHARE = 0.1


def drawn_samples(graph: Graph, count: int, seed: int) -> list[Array]:
    """One array for each input, whose first axis counts samples; the first few are those of any larger count."""
    made = []
    for place, value in enumerate(_inputs(graph)):
        entries = _entries(graph, value)
        made.append(np.stack([_sample(graph, value, entries, (seed, place, index)) for index in range(count)]))
    return made


def usual_count(graph: Graph) -> int:
    """How many samples are drawn where nobody says: small models, which a fault shows in rarely, take many."""
    macs = sum(layer.macs for layer in quantized_layers(graph))
    size_bytes = sum(math.prod(value.shape) * np.dtype(DTYPES[value.type]).itemsize for value in _inputs(graph))
    most = min(MOST_USUAL, MOST_BYTES // max(1, size_bytes))
    return max(LEAST_USUAL, min(most, USUAL_MACS // max(1, macs)))


def statistics_of(count: int) -> dict[str, int]:
    """How many of so many samples have each statistic."""
    return dict(Counter(list(STATISTICS)[index % len(STATISTICS)] for index in range(count)))


def _inputs(graph: Graph) -> list[Value]:
    return [graph.values[name] for name in graph.inputs]


def _sample(graph: Graph, value: Value, entries: int | None, seeds: tuple[int, int, int]) -> Array:
    index = seeds[-1]
    draw = list(STATISTICS.values())[index % len(STATISTICS)]
    levels = draw(np.random.default_rng(seeds), value.shape, index // len(STATISTICS))
    dtype = DTYPES[value.type]
    limits = STORED_RANGES.get(value.type) if entries is None else (0, entries - 1)
    if limits is not None:
        low, high = limits
        return np.clip(np.floor(low + levels * (high - low + 1)), low, high).astype(dtype)
    least, most = _range(graph, value)
    return (least + levels * (most - least)).astype(dtype)


# Statistics: levels from 0, which is the lowest value that an input stands for, to 1; numbers may be beyond, integers
# stay within their type.


def _noise(rng: np.random.Generator, shape: Sequence[int], _round: int) -> FloatArray:
    return rng.uniform(size=shape)


def _smooth(rng: np.random.Generator, shape: Sequence[int], _round: int) -> FloatArray:
    """Noise of low frequency on every axis, half as much of each frequency as of half of it, from end to end."""
    made: FloatArray = np.zeros(tuple(shape))
    knots = 2
    while True:
        made = made + _interpolated(rng, shape, knots) / knots
        if knots >= max(shape, default=1):
            break
        knots *= 2
    least, most = made.min(), made.max()
    return (made - least) / (most - least) if most > least else np.full(tuple(shape), 0.5)


def _constant(rng: np.random.Generator, shape: Sequence[int], round_: int) -> FloatArray:
    """The lowest, then the highest value, then any."""
    return np.full(tuple(shape), (0.0, 1.0)[round_] if round_ < 2 else rng.uniform())


def _extremes(rng: np.random.Generator, shape: Sequence[int], round_: int) -> FloatArray:
    """Lowest and highest values, alone, then in blocks of 2, 4 and 8 on every axis."""
    block = 1 << round_ % 4
    made: FloatArray = rng.integers(0, 2, [-(-extent // block) for extent in shape]).astype(np.float64)
    for axis, extent in enumerate(shape):
        made = np.take(made, np.arange(extent) // block, axis)
    return made


def _speckled(rng: np.random.Generator, shape: Sequence[int], round_: int) -> FloatArray:
    """Smooth, with lowest and highest values in between."""
    ends = rng.integers(0, 2, shape).astype(np.float64)
    return np.where(rng.uniform(size=shape) < SPECKLED_SHARE, ends, _smooth(rng, shape, round_))


def _saturated(rng: np.random.Generator, shape: Sequence[int], round_: int) -> FloatArray:
    return 0.5 + CONTRAST * (_smooth(rng, shape, round_) - 0.5)


STATISTICS: dict[str, Callable[[np.random.Generator, Sequence[int], int], FloatArray]] = {
    "noise": _noise,
    "smooth": _smooth,
    "constant": _constant,
    "extremes": _extremes,
    "speckled": _speckled,
    "saturated": _saturated,
}


def _interpolated(rng: np.random.Generator, shape: Sequence[int], knots: int) -> FloatArray:
    """Normal noise at so many places of each axis, linear in between."""
    made: FloatArray = rng.standard_normal([min(extent, knots) for extent in shape])
    for axis, extent in enumerate(shape):
        if made.shape[axis] < extent:
            places = np.linspace(0.0, made.shape[axis] - 1, extent)
            before = np.minimum(places.astype(np.int64), made.shape[axis] - 2)
            part = (places - before).reshape([-1 if each == axis else 1 for each in range(made.ndim)])
            made = np.take(made, before, axis) * (1 - part) + np.take(made, before + 1, axis) * part
    return made


def _entries(graph: Graph, value: Value) -> int | None:
    """How many entries a table has that an input of integers chooses from, such as words; None where there is none."""
    if value.type not in ("s32", "s64"):
        return None
    readers = [each for each in graph.operators if each.kind is Kind.FLOAT and value.name in each.inputs]
    return min((found for each in readers if (found := entries_read(each, value.name)) is not None), default=None)


def _range(graph: Graph, value: Value) -> tuple[float, float]:
    """The range of numbers that the model keeps apart: that of what it quantizes the input to."""
    for operator in graph.operators:
        if operator.kind is Kind.QUANTIZE and value.name in operator.inputs:
            made = graph.values[operator.outputs[0]]
            assert made.quantization is not None
            scale, zero_point = float(made.quantization.scale[0]), int(made.quantization.zero_point[0])
            low, high = STORED_RANGES[made.type]
            return scale * (low - zero_point), scale * (high - zero_point)
    return -1.0, 1.0
