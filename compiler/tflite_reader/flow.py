"""IF, WHILE and STABLEHLO_COMPOSITE: the operators of the subgraphs that they run, in their place.

A loop is unrolled where integers that are known before the model runs say how often it turns; an IF is the branch that
such a condition takes. LiteRT has no kernel of CALL. Sources: kernels/while.cc and if.cc of TensorFlow Lite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Operator, Quantization, Value
from int8tune.compiler.naming import free_name
from int8tune.compiler.tflite_reader.file import (
    MOST_AXES,
    MOST_ELEMENTS,
    MOST_OPERATORS,
    MOST_TENSORS,
    Operators,
    Subgraph,
    TfliteFile,
)
from int8tune.compiler.tflite_reader.integers import (
    dense_shape,
    expanded_shape,
    known_integers,
    reshaped_shape,
    sliced_shape,
    spread_shape,
)
from int8tune.compiler.tflite_reader.states import is_same_form
from int8tune.compiler.tflite_reader.steps import Reason, Step

CALLERS = ("CALL", "IF", "WHILE", "STABLEHLO_COMPOSITE")
# What an output of the model is that a subgraph makes under a name of its own.
COPY = "COPY"
# What makes shapes where a file leaves the batch open.
SIZING = ("SHAPE", "SPACE_TO_BATCH_ND")
MOST_TURNS, MOST_DEPTH = 1024, 8

Names = dict[str, str]


class _NotInlinedError(Exception):
    """What an operator runs can't stand in its place: why."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an operator is in the file, and what its values are called."""

    graph: Subgraph
    index: int
    names: Mapping[str, str]


class Flow:
    """The first subgraph with what others compute in the place of the operators that run them; as `Subgraph` is.

    Attributes:
        reasons: why operators that run subgraphs are still there, by their places.
        known: values that were computed.
    """

    def __init__(self, file: TfliteFile, graph: Subgraph) -> None:
        self._file, self._main = file, graph
        self._others: dict[int, Subgraph] = {}
        self.inputs, self.outputs = graph.inputs, graph.outputs
        self.names, self.values = graph.names, graph.values
        self.plains: list[Operator] = []
        self.reasons: dict[int, Reason] = {}
        self.known: set[str] = set()
        self._places: list[_Place] = []
        self._aliases: Names = {}
        self._tensors = 0
        self._add(graph, self._aliases, 0)
        for name in self.outputs:
            if name in self._aliases:
                copy = replace(graph.plains[0], operator=COPY, layers=(name,), outputs=(name,))
                self._append(replace(copy, inputs=(self._aliases[name],)), _Place(graph, 0, {}))

    # As a subgraph has it.

    def operator(self, index: int) -> Any:
        place = self._places[index]
        return place.graph.operator(place.index)

    def slots(self, index: int) -> tuple[str | None, ...]:
        place = self._places[index]
        found = place.graph.slots(place.index)
        return tuple(None if name is None else place.names.get(name, name) for name in found)

    def intermediates(self, index: int) -> list[Quantization | None]:
        place = self._places[index]
        return place.graph.intermediates(place.index)

    def is_state(self, name: str) -> bool:
        return name in self.names and self._main.is_state(name)

    # Inlining.

    def _add(self, graph: Subgraph, names: Names, depth: int) -> None:
        """Add the operators of a subgraph; `names` are what its values are called here, if not as there."""
        for index, plain in enumerate(graph.plains):
            inputs, outputs = (tuple(names.get(each, each) for each in ends) for ends in (plain.inputs, plain.outputs))
            own = replace(plain, inputs=inputs, outputs=outputs)
            if plain.operator not in CALLERS:
                if not self._fold(own, graph.operator(index)):
                    self._append(self._sized(own), _Place(graph, index, names))
                continue
            before = len(self.plains), len(self.values)
            try:
                made = self._called(own, graph.operator(index), depth)
            except _NotInlinedError as why:
                if depth:
                    raise
                self._forget(*before)
                self.reasons[len(self.plains)] = str(why)
                self._append(own, _Place(graph, index, {}))
            else:
                names.update(zip(plain.outputs, made, strict=True))

    def _forget(self, operators: int, values: int) -> None:
        """Leave only so many operators and values."""
        del self.plains[operators:], self._places[operators:]
        while len(self.values) > values:
            self.values.popitem()

    def _append(self, plain: Operator, place: _Place) -> None:
        self._file.count("operators", len(self.plains) + 1, MOST_OPERATORS)
        self.plains.append(plain)
        self._places.append(place)

    def _fold(self, plain: Operator, operator: Any) -> bool:
        """Compute integers that are known; whether these are what the operator makes."""
        values = [self.values.get(name) for name in plain.inputs]
        output = self.values.get(plain.outputs[0]) if len(plain.outputs) == 1 else None
        if (
            output is None
            or output.constant is not None
            or output.name in self.outputs
            or any(value is None for value in values)
        ):
            return False
        inputs = tuple(value for value in values if value is not None)
        made = known_integers(Step(plain, inputs, output, partial(self._file.options, operator)))
        if made is None:
            return False
        self.values[output.name] = replace(output, constant=made)
        self.known.add(output.name)
        return True

    def _sized(self, plain: Operator) -> Operator:
        """An operator whose output has the shape that integers known now give it, without inputs that have no values.

        A file has 1 for an extent that is open. Lists of tensors are converted so: what is before a place, what is set,
        and what is behind it.
        """
        values = [self.values.get(name) for name in plain.inputs]
        output = self.values.get(plain.outputs[0]) if len(plain.outputs) == 1 else None
        if output is not None and output.name not in self.outputs:
            shape = _shape_of(plain.operator, values, output)
            if shape is not None and len(shape) <= MOST_AXES and math.prod(shape) <= MOST_ELEMENTS:
                self.values[output.name] = replace(output, shape=shape)
        if plain.operator != "CONCATENATION":
            return plain
        filled = [
            name for name, value in zip(plain.inputs, values, strict=True) if value is None or 0 not in value.shape
        ]
        return replace(plain, inputs=tuple(filled or plain.inputs))

    def _called(self, plain: Operator, operator: Any, depth: int) -> Sequence[str]:
        """Add what an operator runs; the names of what it makes."""
        if depth >= MOST_DEPTH:
            raise _NotInlinedError(f"subgraphs run each other more than {MOST_DEPTH} deep")
        match plain.operator:
            case "CALL":
                raise _NotInlinedError("no runtime computes it")
            case "IF":
                options = self._file.options(operator, "IfOptions")
                taken = self._condition(plain.inputs[0] if plain.inputs else "")
                index = options.ThenSubgraphIndex() if taken else options.ElseSubgraphIndex()
                return self._inlined(plain, index, plain.inputs[1:], plain.outputs[0], depth)
            case "STABLEHLO_COMPOSITE":
                # Whatever it is called: LiteRT runs what it was made of.
                options = self._file.options(operator, "StableHLOCompositeOptions", is_second=True)
                return self._inlined(plain, options.DecompositionSubgraphIndex(), plain.inputs, plain.outputs[0], depth)
        options = self._file.options(operator, "WhileOptions")
        return self._unrolled(plain, options.CondSubgraphIndex(), options.BodySubgraphIndex(), depth)

    def _condition(self, name: str) -> bool:
        value = self.values.get(name)
        if value is None or value.type != "bool" or value.constant is None or value.constant.size != 1:
            raise _NotInlinedError("its condition is not known before the model runs")
        return bool(value.constant.reshape(-1)[0])

    def _unrolled(self, plain: Operator, condition: int, body: int, depth: int) -> Sequence[str]:
        now: Sequence[str] = plain.inputs
        for turn in range(MOST_TURNS + 1):
            prefix, before = f"{plain.outputs[0]}/{turn}", (len(self.plains), len(self.values))
            (answer,) = self._inlined(plain, condition, now, f"{prefix}/condition", depth, outputs=1)
            goes_on = self._condition(answer)
            # Nothing else reads what the condition computes.
            self._forget(*before)
            if not goes_on:
                return now
            now = self._inlined(plain, body, now, prefix, depth)
        raise _NotInlinedError(f"it turns more than {MOST_TURNS} times")

    def _inlined(
        self, plain: Operator, index: int, taken: Sequence[str], prefix: str, depth: int, outputs: int | None = None
    ) -> Sequence[str]:
        """Add the operators of a subgraph; what it makes of these values, by name."""
        graph, count = self._other(index), len(plain.outputs) if outputs is None else outputs
        if len(graph.inputs) != len(taken) or len(graph.outputs) != count:
            ends = f"{len(taken)} values and makes {count}"
            raise _NotInlinedError(f"it gives its subgraph {ends}: {len(graph.inputs)} and {len(graph.outputs)}")
        self._tensors = self._file.count("tensors", self._tensors + len(graph.names) + 1, MOST_TENSORS)
        names = dict(zip(graph.inputs, taken, strict=True))
        for name, own in names.items():
            self._require_same(graph.values.get(name), self.values.get(own))
        for name in graph.names:
            if name not in names and (value := graph.values.get(name)) is not None:
                names[name] = free_name(f"{prefix}/{name}", self.values)
                self.values[names[name]] = replace(value, name=names[name])
        self._add(graph, names, depth + 1)
        made = [names.get(name, name) for name in graph.outputs]
        if outputs is None:
            for name, own in zip(made, plain.outputs, strict=True):
                self._require_same(self.values.get(name), self.values.get(own))
        return made

    def _other(self, index: int) -> Subgraph:
        if not 0 < index < self._file.model.SubgraphsLength():
            raise _NotInlinedError(f"it must run another subgraph: {index}")
        if index not in self._others:
            try:
                self._others[index] = Subgraph(self._file, index)
            except ModelError as fault:
                raise _NotInlinedError(f"its subgraph can't be read: {fault}") from None
        graph = self._others[index]
        if any(graph.is_state(name) for name in graph.values):
            raise _NotInlinedError("its subgraph has variables of its own")
        return graph

    def _require_same(self, there: Value | None, here: Value | None) -> None:
        """Raise where a value is another one in a subgraph than it is here."""
        if there is None or here is None:
            if there is not here:
                raise _NotInlinedError("its subgraph has a variable where it gives a value")
            return
        if not is_same_form(there, here):
            forms = f"{there.type}{list(there.shape)}, {here.type}{list(here.shape)}"
            raise _NotInlinedError(f"its subgraph has values of another form: {forms}")


def _shape_of(word: str, values: Sequence[Value | None], output: Value) -> tuple[int, ...] | None:
    match word, values:
        case "SLICE", _:
            return sliced_shape(values)
        case "RESHAPE", [Value() as data, Value() as places]:
            return reshaped_shape(data, places)
        case "FULLY_CONNECTED", [Value() as data, Value() as weight, *_]:
            return dense_shape(data, weight, output)
        case "SPACE_TO_BATCH_ND", [Value() as data, Value() as block, Value() as widths]:
            return spread_shape(data, block, widths)
        case "EXPAND_DIMS", [Value() as data, Value() as axis]:
            return expanded_shape(data, axis)
        case (("CONV_2D" | "DEPTHWISE_CONV_2D"), [Value() as data, *_]) if data.shape and output.shape:
            return (data.shape[0], *output.shape[1:])
    return None


def flow_of(file: TfliteFile, graph: Subgraph) -> Operators:
    """A subgraph without operators that run others, and with the shapes that it computes, where that can be."""
    is_known = all(plain.operator not in (*CALLERS, *SIZING) or not plain.outputs for plain in graph.plains)
    return graph if is_known else Flow(file, graph)
