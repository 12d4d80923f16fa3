"""Layers of 16-bit data as two layers of bytes each, which have the kernels that layers of bytes have.

Data less its zero point is 256 (high - its point) + (low - its point). So are the sums of products with the weights,
which a kernel of its own puts together and rounds (`compiler.operators.word_sums`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from int8tune.compiler.graph import Graph, Kind, Operator, Value, whole_numbers
from int8tune.compiler.naming import free_name
from int8tune.compiler.operators.base import WORDS
from int8tune.compiler.operators.word_bytes import byte_point
from int8tune.compiler.operators.word_sums import SUMS
from int8tune.compiler.quantized_layers import AGAIN, WEIGHTED

PARTS = {"high": True, "low": False}


def with_byte_layers(graph: Graph) -> Graph:
    """The graph with layers of bytes in place of those of 16-bit data; values have their bytes once."""
    writer = _Writer(graph.values)
    operators = tuple(each for operator in graph.operators for each in writer.operators(operator))
    return replace(graph, operators=operators, values=writer.values)


class _Writer:
    """Writes the operators of each layer; `values` grows by what is between them."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.values = dict(values)
        self._bytes: dict[str, dict[str, str]] = {}

    def operators(self, operator: Operator) -> Iterator[Operator]:
        if operator.kind not in WEIGHTED or self.values[operator.inputs[0]].type not in WORDS:
            yield operator
            return
        data, weight = operator.inputs
        if data not in self._bytes:
            self._bytes[data] = {part: self._byte(data, part) for part in PARTS}
            for part, made in self._bytes[data].items():
                attributes = {"is_high": PARTS[part]}
                yield _unnamed(operator, Kind.WORD_BYTE, (data,), made, attributes=attributes)
        sums = {part: self._sums(operator.outputs[0], part) for part in PARTS}
        attributes = {name: value for name, value in operator.attributes.items() if name != SUMS}
        for part, made in sums.items():
            own = attributes if PARTS[part] else attributes | {AGAIN: True}
            layer = _unnamed(operator, operator.kind, (self._bytes[data][part], weight), made, attributes=own)
            yield replace(layer, layers=tuple(f"{name} ({part} bytes)" for name in operator.layers))
        attributes = {SUMS: operator.attributes[SUMS]}
        yield replace(operator, kind=Kind.WORD_SUMS, inputs=tuple(sums.values()), attributes=attributes)

    def _byte(self, data: str, part: str) -> str:
        value = self.values[data]
        return self._new(f"{data}/{part}", value.shape, "u8", byte_point(value, is_high=PARTS[part]))

    def _sums(self, made: str, part: str) -> str:
        return self._new(f"{made}/{part} sums", self.values[made].shape, "s32", 0)

    def _new(self, name: str, shape: tuple[int, ...], type_: str, point: int) -> str:
        name = free_name(name, self.values)
        quantization = whole_numbers(point)
        self.values[name] = Value(name, shape, type_, quantization)  # type: ignore[arg-type]
        return name


def _unnamed(operator: Operator, kind: Kind, inputs: tuple[str, ...], made: str, **changed: object) -> Operator:
    """An operator that is none of the file's."""
    same = {"operator": "", "rule": "float", "clamp": None, "layers": (made,), "inputs": inputs, "outputs": (made,)}
    return replace(operator, kind=kind, **(same | changed))  # type: ignore[arg-type]
