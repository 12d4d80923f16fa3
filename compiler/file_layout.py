"""Inputs and outputs in the layout of the model's file: graphs have images as [N, H, W, C], ONNX as [N, C, H, W]."""

from __future__ import annotations

from dataclasses import replace

from int8tune.compiler.graph import Graph, Kind, Operator, Value
from int8tune.compiler.naming import free_name

# The axis of an image [N, H, W, C] for each axis of the file's [N, C, H, W], and the other way round.
TO_FILE, FROM_FILE = (0, 3, 1, 2), (0, 2, 3, 1)


def with_file_layouts(graph: Graph) -> Graph:
    """The graph with inputs and outputs as its file has them: transpositions before and behind its operators.

    An input that is only quantized is transposed behind that, when it is bytes.
    """
    return _Layouts(graph).graph()


class _Layouts:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._values = dict(graph.values)
        self._inner = {name: self._renamed(name) for name in graph.moved}
        for name, inner in self._inner.items():
            self._values[inner] = replace(graph.values[name], name=inner)
            self._values[name] = _in_file(graph.values[name])

    def graph(self) -> Graph:
        graph = self._graph
        before = [self._transposition(name, self._inner[name], FROM_FILE) for name in self._transposed_inputs()]
        middle = [each for operator in graph.operators for each in self._operator(operator)]
        outputs = [name for name in graph.outputs if name in graph.moved and name not in graph.inputs]
        after = [self._transposition(self._inner[name], name, TO_FILE) for name in outputs]
        return replace(graph, values=self._values, operators=(*before, *middle, *after), moved=frozenset())

    def _operator(self, operator: Operator) -> list[Operator]:
        if not self._is_first_quantize(operator):
            inputs, outputs = (
                tuple(self._inner.get(name, name) for name in names) for names in (operator.inputs, operator.outputs)
            )
            return [replace(operator, inputs=inputs, outputs=outputs)]
        made = self._inner.get(operator.outputs[0], operator.outputs[0])
        stored = self._renamed(made)
        self._values[stored] = replace(_in_file(self._values[made]), name=stored)
        return [replace(operator, outputs=(stored,)), self._transposition(stored, made, FROM_FILE)]

    def _transposed_inputs(self) -> list[str]:
        """Moved inputs that somebody else than a QUANTIZE reads."""
        readers = [operator for operator in self._graph.operators if not self._is_first_quantize(operator)]
        read = {name for operator in readers for name in operator.inputs}
        return [name for name in self._graph.inputs if name in self._graph.moved and name in read]

    def _is_first_quantize(self, operator: Operator) -> bool:
        source = operator.inputs[0] if operator.inputs else ""
        return operator.kind is Kind.QUANTIZE and source in self._graph.inputs and source in self._graph.moved

    def _renamed(self, name: str) -> str:
        return free_name(f"{name}/inner", self._values)

    def _transposition(self, source: str, made: str, order: tuple[int, ...]) -> Operator:
        return Operator(Kind.TRANSPOSE, (made,), "", (source,), (made,), "float", None, {"permutation": order})


def _in_file(value: Value) -> Value:
    return replace(value, shape=tuple(value.shape[axis] for axis in TO_FILE))
