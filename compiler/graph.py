"""A quantized model as a graph of operators, whatever file it came from.

Values are quantized tensors; an operator takes and makes them, and says by which rule it rounds. Images are
[N, H, W, C] and weights [OC, KH, KW, C / groups], as `schedules.workload` has them: readers move the axes of models
that have others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from schedules.numerics import RoundingRule

ElementType = Literal["u8", "s8", "s16", "s32", "s64", "f32"]


@dataclass(frozen=True, slots=True, eq=False)
class Quantization:
    """What stored values stand for: scale * (stored - zero point).

    Attributes:
        scale: float32 [1], or one for each index of a tensor's axis `axis`.
        zero_point: int64, as many as scales.
    """

    scale: npt.NDArray[np.float32]
    zero_point: npt.NDArray[np.int64]
    axis: int | None = None

    @property
    def per_channel(self) -> bool:
        return self.axis is not None


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A tensor that an operator takes or makes.

    Attributes:
        name: in the model's file.
        quantization: None for values that stand for themselves.
        constant: the values of a weight or a bias; None for what is only known at run time.
    """

    name: str
    shape: tuple[int, ...]
    type: ElementType
    quantization: Quantization | None = None
    constant: npt.NDArray[Any] | None = None


class Kind(StrEnum):
    """What an operator computes. No template takes `OTHER`: pools, reshapes, concatenations, and so on."""

    CONV2D = "conv2d"
    DEPTHWISE = "dwconv2d"
    DENSE = "dense"
    ADD = "add"
    OTHER = "other"


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """One step of a model.

    Attributes:
        layers: names in the original model of what this computes.
        operator: what the file calls it, such as `CONV_2D` or `QLinearConv`.
        inputs: names of values; of convolutions and dense layers the data, the weights and, if there is one, the bias.
        clamp: bounds of the stored output values that the model asks for, such as those of a fused ReLU6.
        attributes: of convolutions `stride`, `padding` (top, left, bottom, right), `dilation`, `groups`.
    """

    kind: Kind
    layers: tuple[str, ...]
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rule: RoundingRule
    clamp: tuple[int, int] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A model: its operators in an order in which they can run.

    Attributes:
        name: of the model.
        values: all of them by name, with inputs and constants.
    """

    name: str
    values: Mapping[str, Value]
    operators: tuple[Operator, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
