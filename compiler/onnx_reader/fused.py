"""Which nodes of an ONNX model one operator computes: a layer, the Relu or Clip behind it, and the QuantizeLinear."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from int8tune.compiler.graph import Quantization
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.nodes import Node, node_fault, quoted
from int8tune.compiler.onnx_reader.quantization import DEQUANTIZE, QUANTIZE, Constant, Quantizations, same
from int8tune.compiler.operators.base import STORED_RANGES

ACTIVATIONS = ("Relu", "Clip")


@dataclass(frozen=True, slots=True)
class Ending:
    """How an output of a node becomes a quantized value.

    Attributes:
        name: of the stored values.
        copies: other names of the same ones.
        activations: Relu and Clip nodes before they are stored.
        nodes: all that is computed on the way.
    """

    name: str
    copies: tuple[str, ...]
    activations: tuple[Node, ...]
    nodes: tuple[Node, ...]


class Fusion:
    """Looks at what reads a node's output."""

    def __init__(self, file: OnnxFile, quantizations: Quantizations) -> None:
        self._file, self._quantizations = file, quantizations
        self._outputs = set(file.outputs)
        readers: dict[str, list[Node]] = defaultdict(list)
        for node in file.nodes:
            for name in set(node.inputs):
                readers[name].append(node)
        self._readers: Mapping[str, list[Node]] = readers

    def ending(self, name: str) -> Ending | None:
        """The end of an output that is only read to be quantized, by one scale and zero point."""
        stored = self._quantizations.stored
        quantizers = self._readers.get(name, [])
        made = [node.outputs[0] for node in quantizers]
        if name in self._outputs or not quantizers or any(node.computes != QUANTIZE for node in quantizers):
            return None
        if self._quantizations.computed.intersection(quantizers):
            return None
        if any(node.input(0) != name or output not in stored for node, output in zip(quantizers, made, strict=True)):
            return None
        if not all(self._is_copy(output, made[0]) for output in made[1:]):
            return None
        return Ending(made[0], tuple(made[1:]), (), tuple(quantizers))

    def _is_copy(self, name: str, first: str) -> bool:
        forms, stored = self._file.forms, self._quantizations.stored
        return name not in self._outputs and forms[name] == forms[first] and same(stored[name], stored[first])

    def layer_ending(self, name: str) -> Ending | None:
        """The same for a layer: activations may stand before and behind the quantization."""
        activations: list[Node] = []
        while (first := self._activation(name)) is not None:
            activations.append(first)
            name = first.outputs[0]
        ending = self.ending(name)
        if ending is None:
            return None
        nodes = [*activations, *ending.nodes]
        while (longer := self._requantized(ending)) is not None:
            dequantize, activation, ending = longer
            activations.append(activation)
            nodes += [dequantize, activation, *ending.nodes]
        return Ending(ending.name, ending.copies, tuple(activations), tuple(nodes))

    def _activation(self, name: str) -> Node | None:
        """The activation that alone reads a value, with constant bounds."""
        readers = self._readers.get(name, [])
        if len(readers) != 1 or name in self._outputs or readers[0].computes not in ACTIVATIONS:
            return None
        (node,) = readers
        constants = self._quantizations.constants
        bounds_known = all(not bound or bound in constants for bound in node.inputs[1:])
        return node if node.input(0) == name and name not in node.inputs[1:] and bounds_known else None

    def _requantized(self, ending: Ending) -> tuple[Node, Node, Ending] | None:
        """An activation on what an ending stores, if that is stored again by the same scale and zero point."""
        readers = self._readers.get(ending.name, [])
        if ending.copies or ending.name in self._outputs or len(readers) != 1 or readers[0].computes != DEQUANTIZE:
            return None
        if readers[0] in self._quantizations.computed:
            return None
        activation = self._activation(readers[0].outputs[0])
        next_ = self.ending(activation.outputs[0]) if activation else None
        forms, stored = self._file.forms, self._quantizations.stored
        if activation is None or next_ is None or forms[next_.name] != forms[ending.name]:
            return None
        if not same(stored[ending.name], stored[next_.name]):
            return None
        return readers[0], activation, next_

    def clamp(self, ending: Ending) -> tuple[int, int] | None:
        """The bounds of the activations in stored values; None without any."""
        return self.stored_bounds(ending.name, ending.activations) if ending.activations else None

    def stored_bounds(self, name: str, activations: Iterable[Node]) -> tuple[int, int]:
        """The bounds of stored values behind activations.

        To quantize is monotonic, so quantized bounds bound quantized values exactly.
        """
        quantization = self._quantizations.stored[name]
        limits = STORED_RANGES[self._file.forms[name][0]]
        low, high = limits
        for node in activations:
            least, most = (_stored(bound, quantization, limits) for bound in self._bounds(node))
            # Where a Clip's bounds cross, the upper one is what ONNX makes of every value.
            least = min(least, most)
            low, high = min(max(low, least), most), min(max(high, least), most)
        return low, high

    def _bounds(self, node: Node) -> tuple[float, float]:
        if node.computes == "Relu":
            return 0.0, math.inf
        low = node.attributes.get("min", -math.inf)
        high = node.attributes.get("max", math.inf)
        return self._bound(node, 1, low), self._bound(node, 2, high)

    def _bound(self, node: Node, index: int, default: object) -> float:
        constant: Constant | None = self._quantizations.constants.get(node.input(index))
        value = default
        if constant is not None:
            value = float(constant.real.reshape(-1)[0]) if constant.array.size == 1 else math.nan
        if not isinstance(value, float) or math.isnan(value):
            raise node_fault(self._file.name, node, f"its bounds must be numbers: {quoted(node.input(index))}")
        return value


def _stored(real: float, quantization: Quantization, limits: tuple[int, int]) -> int:
    """What QuantizeLinear makes of a number."""
    with np.errstate(over="ignore"):
        steps = float(np.rint(np.float32(real) / quantization.scale[0]))
    low, high = limits
    return int(min(max(steps + float(quantization.zero_point[0]), low), high))
