"""Convolutions and dense layers: what templates compute, by the oracle of `schedules.oracle.reference`."""

from __future__ import annotations

from collections.abc import Sequence

from int8tune.compiler.graph import Graph, Operator, Value
from int8tune.compiler.layer_operands import layer_operands
from int8tune.compiler.operators.base import Array
from int8tune.compiler.quantized_layers import quantized_layers
from int8tune.schedules.oracle.reference import reference as layer_reference


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:  # noqa: ARG001
    """None: readers refuse models with layers that no kernel computes."""
    return None


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    """The layer's own output.

    Raises:
        ModelError: the layer is none that a workload can say.
    """
    values = {value.name: value for value in (*inputs, output)}
    alone = Graph(operator.layers[0], values, (operator,), (inputs[0].name,), (output.name,))
    (layer,) = quantized_layers(alone)
    made: Array = layer_reference(layer.workload, layer_operands(alone, layer, arrays[0]))
    return made.reshape(output.shape)
