"""Tensors that are others within limits: what a Relu or Clip makes.

Whoever has their source needs no copy of them from ONNX Runtime, which takes longer to make than the model to run.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.quantize.tensors import initializer_array

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Clipped:
    """How a tensor is made.

    Attributes:
        source: the tensor that has all values.
        minimum, maximum: the limits; infinite where there is none.
    """

    source: str
    minimum: float
    maximum: float

    def of(self, values: Array) -> Array:
        """The tensor, from its source's values."""
        made = np.maximum(values, np.float32(self.minimum)) if self.minimum > -math.inf else values
        return np.minimum(made, np.float32(self.maximum)) if self.maximum < math.inf else made


NOTHING_CLIPPED: Mapping[str, Clipped] = MappingProxyType({})


def source_of(name: str, clipped: Mapping[str, Clipped]) -> str:
    """The tensor that a clipped one, or one that a clipped one is made of, is within its limits."""
    while name in clipped:
        name = clipped[name].source
    return name


def clipped_tensors(proto: Any, tensors: Collection[str]) -> dict[str, Clipped]:
    """Those of some tensors that are made so from others of them, by constant limits."""
    found = {}
    for node in proto.graph.node:
        if node.op_type not in ("Relu", "Clip") or not {node.input[0], node.output[0]} <= set(tensors):
            continue
        limits = (0.0, math.inf) if node.op_type == "Relu" else _limits(proto.graph, node)
        if limits is not None:
            found[node.output[0]] = Clipped(node.input[0], *limits)
    return found


def _limits(graph: Any, node: Any) -> tuple[float, float] | None:
    """The limits of a Clip: attributes in old files, else constants; None where a limit is computed."""
    limits = {attribute.name: float(attribute.f) for attribute in node.attribute}
    for place, name in ((1, "min"), (2, "max")):
        if len(node.input) > place and node.input[place]:
            array = initializer_array(graph, node.input[place])
            if array is None or array.size != 1 or np.isnan(array).any():
                return None
            limits[name] = float(array.reshape(()))
    return limits.get("min", -math.inf), limits.get("max", math.inf)
