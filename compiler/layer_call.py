"""Layers as calls of kernels: the schedule chosen, the weights packed, the zero points folded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from int8tune.compiler.graph import Graph
from int8tune.compiler.layer_operands import known_operands
from int8tune.compiler.program import Array
from int8tune.compiler.quantized_layers import ModelLayer
from int8tune.compiler.schedule_choice import Choice
from int8tune.schedules.arguments import kernel_inputs
from int8tune.schedules.template import Kernel


def layer_arguments(graph: Graph, layer: ModelLayer, kernel: Kernel) -> tuple[str | Array, ...]:
    """The arguments of a layer's kernel: the name of its data, constants, and the residual's name if it has one.

    Raises:
        ModelError: a scale of the model is out of the range of its rounding rule.
    """
    inputs = kernel_inputs(layer.workload, kernel, known_operands(graph, layer))
    constants = inputs[1:5]
    return (layer.operator.inputs[0], *constants, *((layer.residual,) if layer.residual else ()))


def schedule_of(choice: Choice) -> Mapping[str, Any]:
    """A choice as a compiled model tells it."""
    return {
        "template": choice.template.name,
        "version": choice.template.version,
        "config": dict(choice.config),
        "source": str(choice.source),
    }
