"""A whole model by its operators' references: the definition of what a compiled one gives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import DTYPES, Graph, Kind, Operator
from int8tune.compiler.islands.reference import run_island
from int8tune.compiler.operators import computed
from int8tune.compiler.operators.base import Array
from int8tune.results.text import clipped

NOTHING: Mapping[str, Array] = {}


def kept_values(graph: Graph, values: Mapping[str, Array]) -> dict[str, Array]:
    """What a run keeps for the next one, by the names that it has there.

    Args:
        values: what the run made.
    """
    constants = {name: value.constant for name, value in graph.values.items() if value.constant is not None}
    return {state.read: values[state.made] if state.made in values else constants[state.made] for state in graph.states}


# Scales of a file may be anything: what is beyond binary32 is saturated where it is rounded.
@np.errstate(all="ignore")
def run_reference(
    graph: Graph,
    inputs: Mapping[str, Array],
    given: Mapping[str, Array] = NOTHING,
    kept: Mapping[str, Array] = NOTHING,
) -> dict[str, Array]:
    """Every value that the model makes, with its inputs, by name.

    Args:
        inputs: one array for each of the graph's inputs, of its shape and type; images are [N, H, W, C].
        given: what islands made elsewhere: operators behind them read this, so that they can be compared bit for bit.
        kept: what the run before left (`kept_values`); nothing for the first run.

    Raises:
        ModelError: an input has another form, or the model has an operator that nothing computes.
    """
    arrays = {name: _input(graph, name, inputs) for name in graph.inputs}
    arrays |= {state.read: kept.get(state.read, state.initial) for state in graph.states}
    islands: dict[str, Array] = {}
    constants = {name: value.constant for name, value in graph.values.items() if value.constant is not None}
    for operator in graph.operators:
        if operator.kind is Kind.OTHER:
            raise _refusal(graph, operator, f"can't be computed: {operator.attributes['reason']}")
        if any(name not in constants and name not in arrays for name in operator.inputs):
            raise _refusal(graph, operator, "reads what is kept from the run before")
        taken = [constants[name] if name in constants else arrays[name] for name in operator.inputs]
        if operator.kind is Kind.FLOAT:
            islands.update(zip(operator.outputs, run_island(operator, graph.values, taken), strict=True))
            arrays.update((name, given.get(name, islands[name])) for name in operator.outputs)
            continue
        arrays.update(zip(operator.outputs, computed(operator, graph.values, taken), strict=True))
    return arrays | islands


def _refusal(graph: Graph, operator: Operator, why: str) -> ModelError:
    return ModelError(f"{graph.name}: layer `{clipped(operator.layers[0])}` ({operator.operator}) {why}")


def _input(graph: Graph, name: str, inputs: Mapping[str, Array]) -> Array:
    value = graph.values[name]
    if name not in inputs:
        raise ModelError(f"{graph.name}: input `{clipped(name)}` is missing")
    array, dtype = inputs[name], np.dtype(DTYPES[value.type])
    if array.shape != value.shape or array.dtype != dtype:
        found = f"{array.dtype} {array.shape}"
        raise ModelError(f"{graph.name}: input `{clipped(name)}` must be {dtype} {value.shape}: {found}")
    return array
