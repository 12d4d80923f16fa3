"""Configs as rows of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from int8tune.schedules.space import ConfigSpace, Knob, Value
from int8tune.tuner.errors import CostModelError

# Points of a space by which its columns' spans are estimated, and what is less than a span: rounding.
SPAN_POINTS, SMALLEST_SPAN = 500, 1e-9


class FeatureEncoder:
    """The features of a space's configs: the knobs in the space's order, then the template's features by name.

    A knob of integers is one column, any other has one column per choice, 1 where it was taken. All values are scaled
    by `sign(x) * log2(1 + abs(x))`: counts and bytes become their logarithms, shares hardly change.
    """

    def __init__(self, space: ConfigSpace) -> None:
        self._space = space
        self._features = tuple(sorted(space.features(space.default)))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, such as `knob.tile_columns`, `knob.outer=image` or `weight_bytes`."""
        knobs = (name for knob in self._space.knobs for name in _knob_names(knob))
        return (*knobs, *self._features)

    @property
    def knob_columns(self) -> int:
        """How many columns come from knobs; the first ones."""
        return len(self.names) - len(self._features)

    @cached_property
    def spans(self) -> npt.NDArray[np.float64]:
        """`spans_of` the space, by some of its points."""
        size = self._space.grid_size
        points = range(size) if size <= SPAN_POINTS else np.random.default_rng(0).integers(size, size=SPAN_POINTS)
        configs = [config for at in points if self._space.fault(config := self._space.at(int(at))) is None]
        return spans_of(self.matrix([self._space.default, *configs]))

    def matrix(self, configs: Sequence[Mapping[str, Value]]) -> npt.NDArray[np.float64]:
        """The rows [configs, columns] of valid configs.

        Raises:
            CostModelError: a feature is not a finite number.
        """
        rows = np.array([self._row(config) for config in configs], dtype=np.float64)
        rows = rows.reshape(len(configs), len(self.names))
        for row, column in np.argwhere(~np.isfinite(rows))[:1]:
            raise CostModelError(f"feature `{self.names[column]}` of {configs[row]} is not finite: {rows[row, column]}")
        scaled: npt.NDArray[np.float64] = np.sign(rows) * np.log2(1 + np.abs(rows))
        return scaled

    def _row(self, config: Mapping[str, Value]) -> list[float]:
        whole = self._space.completed(config)
        row = [value for knob in self._space.knobs for value in _knob_values(knob, whole[knob.name])]
        features = self._space.features(whole)
        return [*row, *(float(features[name]) for name in self._features)]


def spans_of(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Standard deviation of each column, infinite where all rows are equal."""
    spans = np.std(rows, axis=0)
    return np.where(spans > SMALLEST_SPAN, spans, np.inf)


def _is_numeric(knob: Knob) -> bool:
    return all(type(choice) is int for choice in knob.choices)


def _knob_names(knob: Knob) -> list[str]:
    name = f"knob.{knob.name}"
    return [name] if _is_numeric(knob) else [f"{name}={choice}" for choice in knob.choices]


def _knob_values(knob: Knob, value: Value) -> list[float]:
    return [float(value)] if _is_numeric(knob) else [float(value == choice) for choice in knob.choices]
