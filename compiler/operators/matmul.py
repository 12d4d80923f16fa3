"""Products of matrices that are both computed: a dense layer's arithmetic for each pair, by the templates' oracle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from int8tune.compiler.graph import DTYPES, Graph, Operator, Value
from int8tune.compiler.layer_operands import layer_operands
from int8tune.compiler.operators.base import BYTES, Array, scale_of
from int8tune.compiler.quantized_layers import quantized_layers
from int8tune.schedules.errors import OperandError
from int8tune.schedules.operands import MAX_SCALE, MIN_SCALE, quantize_multiplier
from int8tune.schedules.oracle.reference import reference as layer_reference


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    data, other = inputs
    for role, value in (("first", data), ("second", other)):
        if value.type not in BYTES or value.quantization is None or value.quantization.per_channel:
            return f"its {role} input must be 8-bit integers with one scale"
    if output.type not in (*BYTES, "s32") or output.quantization is None or output.quantization.per_channel:
        return "its output must be 8-bit integers with one scale, or sums"
    if min(len(data.shape), len(other.shape)) < 2:
        return "its inputs must be matrices"
    if output.type in BYTES and (fault := _scale_fault(operator, data, other, output)):
        return fault
    shape = matrices(operator, other)
    try:
        batch = np.broadcast_shapes(data.shape[:-2], shape[:-2])
    except ValueError:
        batch = None
    if batch is None or data.shape[-1] != shape[-2] or output.shape != (*batch, data.shape[-2], shape[-1]):
        return f"{list(data.shape)} times {list(shape)} is not {list(output.shape)}"
    return None


def _scale_fault(operator: Operator, data: Value, other: Value, output: Value) -> str | None:
    """Why sums can't be made stored values by the rounding rule."""
    scale = scale_of(data) * scale_of(other) / scale_of(output)
    if not MIN_SCALE <= scale <= MAX_SCALE:
        return f"its scales' ratio must be within 2^-60 and 2^20: {scale:g}"
    if operator.rule == "fixed":
        try:
            quantize_multiplier(float(scale_of(data) * scale_of(other)) / float(scale_of(output)))
        except OperandError as error:
            return str(error)
    return None


def matrices(operator: Operator, other: Value) -> tuple[int, ...]:
    """The second input's shape as [.., K, N]."""
    return tuple(other.shape[axis] for axis in operator.attributes["order"])


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    """The output, a pair of matrices after the other.

    Raises:
        ModelError: a scale is out of the range of the rounding rule.
    """
    values = {value.name: value for value in (*inputs, output)}
    alone = Graph(operator.layers[0], values, (operator,), tuple(value.name for value in inputs), (output.name,))
    (layer,) = quantized_layers(alone)
    first, second = arrays[0], arrays[1].transpose(operator.attributes["order"])
    batch = output.shape[:-2]
    first, second = (np.broadcast_to(each, (*batch, *each.shape[-2:])) for each in (first, second))
    made = np.empty(output.shape, DTYPES[output.type])
    for place in np.ndindex(*batch):
        operands = layer_operands(alone, layer, first[place], weights=second[place].T)
        made[place] = layer_reference(layer.workload, operands).reshape(output.shape[-2:])
    return made
