"""The ranges of a model's tensors, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

BINS = 2048


@dataclass(frozen=True, slots=True)
class TensorRange:
    """What the values of one tensor were, over all samples.

    Attributes:
        name: as the model's file has it.
        producer: the operator that makes it, such as `Conv`, or `input`.
        node: that operator's name, if it has one.
        shape: of one run; its first extent is the samples of a run.
        minimum: of the finite values, as is all that follows.
        channel_minimum: of each channel, which is axis 1; empty for a tensor of fewer than two axes.
        histogram: counts of `BINS` equal parts of `minimum` to `maximum`.
        values: how many there were, with those that are not finite.
    """

    name: str
    producer: str
    node: str
    shape: tuple[int, ...]
    minimum: float
    maximum: float
    mean: float
    deviation: float
    channel_minimum: tuple[float, ...]
    channel_maximum: tuple[float, ...]
    histogram: tuple[int, ...]
    values: int
    zeros: int
    nan: int
    infinite: int

    @property
    def is_constant(self) -> bool:
        """Whether all values are the same, whatever the sample."""
        return self.minimum == self.maximum

    @property
    def fault(self) -> str:
        """How many values are not finite, in words; nothing if all are."""
        if not (self.nan or self.infinite):
            return ""
        return f"tensor `{self.name}`, made by {self.producer}, has {self.nan:,} NaN and {self.infinite:,} infinities"

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """The histogram [BINS]."""
        return np.asarray(self.histogram, np.int64)

    @property
    def edges(self) -> npt.NDArray[np.float64]:
        """Where its bins begin and end [BINS + 1]."""
        return np.linspace(self.minimum, self.maximum, BINS + 1)


@dataclass(frozen=True, slots=True)
class Ranges:
    """A profile of a float model.

    Attributes:
        model_sha256: of the model's file.
        data_sha256: of the samples as the model got them.
        data: where they came from.
        tensors: in the order of the graph, by their names.
    """

    model: str
    model_sha256: str
    data: str
    data_sha256: str
    samples: int
    tensors: Mapping[str, TensorRange]

    def faults(self) -> list[str]:
        """A line for each tensor that has NaN or infinity."""
        return [each.fault for each in self.tensors.values() if each.fault]


def text_of(value: Any) -> str:
    """A number of a tensor, as short as people read it."""
    return f"{value:.5g}"
