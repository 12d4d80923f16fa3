"""Operators whose variable tensors go on from run to run: LSTM and SVDF.

LiteRT sets them to the number 0 before the first run: to their zero point in 8 bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from int8tune.compiler.graph import DTYPES, Kind, Operator, State, Value
from int8tune.compiler.naming import free_name
from int8tune.compiler.operators import other
from int8tune.compiler.operators.base import zero_point_of
from int8tune.compiler.tflite_reader.file import Operators, TfliteFile
from int8tune.compiler.tflite_reader.fixed_lstm import fixed_lstm
from int8tune.compiler.tflite_reader.fixed_svdf import fixed_svdf
from int8tune.compiler.tflite_reader.floats.operators import FloatOperators
from int8tune.compiler.tflite_reader.slots import CELL_STATE, STATE
from int8tune.compiler.tflite_reader.steps import Reason, Step

# The places of variables among the inputs of the schema.
VARIABLES = {"UNIDIRECTIONAL_SEQUENCE_LSTM": (STATE, CELL_STATE), "LSTM": (STATE, CELL_STATE), "SVDF": (4,)}

Keep = Callable[[State], None]


class Recurrent:
    """Reads such operators, one after the other; the graph's values grow by what becomes of variables."""

    def __init__(self, file: TfliteFile, graph: Operators, floats: FloatOperators, keep: Keep) -> None:
        self._file, self._graph, self._floats, self._keep = file, graph, floats, keep
        ends = [graph.inputs, graph.outputs, *(each.inputs for each in graph.plains)]
        self._uses = Counter(name for names in (*ends, *(each.outputs for each in graph.plains)) for name in names)

    def read(self, index: int, plain: Operator) -> tuple[Operator, ...]:
        """What computes an operator; of kind OTHER, with a reason, for none."""
        slots = self._graph.slots(index)
        kept = self._variables(plain, slots)
        if isinstance(kept, str):
            return (other(plain, kept),)
        step = self._step(index, plain, slots, kept)
        made = self._made(index, step)
        if made[-1].kind is Kind.OTHER:
            return (replace(made[-1], outputs=plain.outputs),)
        for value, name in zip(kept, step.plain.outputs[1:], strict=True):
            self._keep(State(value.name, value.name, name, _first(value)))
        return made

    def _made(self, index: int, step: Step) -> tuple[Operator, ...]:
        """What computes an operator and what becomes of its variables; else one of kind OTHER."""
        is_fixed = step.inputs[0].type == "s8" and step.inputs[0].quantization is not None
        if is_fixed and step.plain.operator == "SVDF":
            return (fixed_svdf(step, self._graph.values),)
        if is_fixed:
            return (fixed_lstm(step, self._graph.intermediates(index), self._graph.values),)
        found = self._floats.read(step, "no integer kernel computes it")
        return (other(step.plain, found),) if isinstance(found, str) else found

    def _variables(self, plain: Operator, slots: tuple[str | None, ...]) -> list[Value] | Reason:
        if slots[:1] in ((), (None,)) or len(plain.outputs) != 1:
            return f"it must have data, and one output: {len(plain.outputs)}"
        kept = []
        for slot in VARIABLES[plain.operator]:
            name = slots[slot] if slot < len(slots) else None
            if name is None or not self._graph.is_state(name):
                return f"its input {slot} must be a variable"
            if self._uses[name] != 1 or self._graph.values[name].constant is not None:
                return f"its input {slot} must be a variable that nothing else has"
            kept.append(self._graph.values[name])
        return kept

    def _step(self, index: int, plain: Operator, slots: tuple[str | None, ...], kept: list[Value]) -> Step:
        """The operator with what becomes of its variables as further outputs."""
        values, names = self._graph.values, list(plain.outputs)
        for value in kept:
            name = free_name(f"{value.name}/next", values)
            values[name] = replace(value, name=name)
            names.append(name)
        taken = tuple(values[name] for name in plain.inputs)
        places = iter(range(len(taken)))
        return Step(
            plain=replace(plain, outputs=tuple(names)),
            inputs=taken,
            output=values[names[0]],
            options=partial(self._file.options, self._graph.operator(index)),
            slots=tuple(None if name is None else next(places) for name in slots),
        )


def _first(value: Value) -> Any:
    """What a variable is before the first run."""
    zero = zero_point_of(value) if value.type == "s8" and value.quantization is not None else 0
    return np.full(value.shape, zero, DTYPES[value.type])
