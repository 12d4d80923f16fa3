"""Dynamic-range layers as int8 layers with sums of 32 bits, between rows that are quantized and sums that are numbers.

Of a row with a zero point z, a layer's sums are those of stored values, whose border is 0. LiteRT sums (a - z) w, and
takes the border for z: z times the sum of the weights inside of the image is taken away, in integers. Sources: as
`hybrid` has them.
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from int8tune.compiler.graph import Kind, Operator, Value, whole_numbers
from int8tune.compiler.naming import free_name
from int8tune.compiler.operators.base import Array
from int8tune.compiler.tflite_reader.blocks import BlockQuantization
from int8tune.compiler.tflite_reader.floats.hybrid import is_hybrid, quantized, require_symmetric, weight_scale
from int8tune.compiler.tflite_reader.floats.nodes import Nodes
from int8tune.compiler.tflite_reader.layers import Layers
from int8tune.compiler.tflite_reader.steps import Step
from int8tune.compiler.weights_met import weights_met
from int8tune.schedules.workload import MAX_REDUCTION

OPTIONS = {
    "CONV_2D": "Conv2D",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2D",
    "FULLY_CONNECTED": "FullyConnected",
}
_INT8, _INT32, _FLOAT = 3, 6, 1

Values = MutableMapping[str, Value]


@dataclass(frozen=True, slots=True)
class HybridLayer:
    """What computes a dynamic-range layer.

    Attributes:
        quantizing, summed: the nodes before the layer, and behind it.
        quantized, result: what they make, by their names for it.
        layer: the operator between them.
    """

    quantizing: Nodes
    quantized: tuple[str, ...]
    layer: Operator
    summed: Nodes
    result: str


def hybrid_layer(at: Nodes, values: Values, layers: Layers) -> HybridLayer | None:
    """What computes an operator, with the values between; None where that is no dynamic-range layer of a template.

    Args:
        at: of the operator, without nodes.

    Raises:
        UnsupportedOperatorError: LiteRT computes no such layer.
    """
    step = at.step
    if step.plain.operator not in OPTIONS or len(at) not in (2, 3) or len(at.outputs) != 1:
        return None
    data = step.inputs[0]
    if not is_hybrid(at) or data.constant is not None or step.output.type != "f32" or not data.shape:
        return None
    if isinstance(step.inputs[1].quantization, BlockQuantization):
        return None
    require_symmetric(at)
    made = _layer(step, values, layers)
    if made is None:
        return None
    layer, (rows, sums) = made
    quantizing, names = _quantizing(step, rows, values)
    summed, result = _summed(step, layer, sums, quantizing.outputs[1:])
    return HybridLayer(quantizing, names, layer, summed, result)


def _layer(step: Step, values: Values, layers: Layers) -> tuple[Operator, tuple[Value, Value]] | None:
    """The layer on stored values, and what it reads and makes; None where no template computes it."""
    (data, weight), output = step.inputs[:2], step.output
    assert weight.constant is not None
    rows = _new(values, f"{output.name}/rows", data.shape, "s8")
    sums = _new(values, f"{output.name}/sums", output.shape, "s32")
    bytes_ = weight.constant.view(np.int8)
    stored = replace(_new(values, f"{output.name}/weights", weight.shape, "s8"), constant=bytes_)
    values[stored.name] = stored
    names = (rows.name, stored.name)
    plain = replace(step.plain, inputs=names, outputs=(sums.name,))
    made = layers.of_bytes(replace(step, plain=plain, inputs=(rows, stored), output=sums))
    if isinstance(made, Operator) and math.prod(values[stored.name].shape[1:]) <= MAX_REDUCTION:
        return made, (rows, sums)
    for value in (rows, sums, stored):
        del values[value.name]
    return None


def _new(values: Values, name: str, shape: tuple[int, ...], type_: str) -> Value:
    """A value of integers that stand for themselves."""
    name = free_name(name, values)
    values[name] = Value(name, shape, type_, whole_numbers())  # type: ignore[arg-type]
    return values[name]


def _quantizing(step: Step, rows: Value, values: Values) -> tuple[Nodes, tuple[str, ...]]:
    """The rows of the data in 8 bits, with their scales, and zero points where these are not 0."""
    data, count = step.inputs[0], _rows(step)
    at = Nodes(step, (rows,), is_raw=True)
    found = quantized(at, at.shaped(at.input(0), (count, math.prod(data.shape) // count)))
    stored = at.shaped(at.apply("Cast", found.stored, to=_INT8), data.shape)
    names, made = [stored], [rows]
    for what, name in (("scales", found.scale), ("zero points", found.zero_point)):
        if name:
            value = Value(free_name(f"{step.output.name}/{what}", values), (count, 1), "f32")
            values[value.name] = value
            made.append(value)
            names.append(name)
    at.outputs = tuple(made)
    at.step = replace(step, plain=replace(step.plain, operator="QUANTIZE", layers=(rows.name,)))
    return at, tuple(names)


def _rows(step: Step) -> int:
    """How many parts of the data have a scale: rows of a matrix, images of a batch."""
    data, weight = step.inputs[:2]
    is_dense = step.plain.operator == "FULLY_CONNECTED"
    return math.prod(data.shape) // weight.shape[1] if is_dense else data.shape[0]


def _summed(step: Step, layer: Operator, sums: Value, factors: Sequence[Value]) -> tuple[Nodes, str]:
    """Sums as numbers, with the bias and within the bounds of the activation."""
    inputs = (sums, *factors, *step.inputs[2:])
    plain = replace(step.plain, operator="DEQUANTIZE")
    at = Nodes(replace(step, plain=plain, inputs=inputs), (step.output,), is_raw=False)
    count, shape = _rows(step), step.output.shape
    each = (*shape[:-1], 1) if step.plain.operator == "FULLY_CONNECTED" else (count, *(1,) * (len(shape) - 1))
    rest = at.input(0)
    if len(factors) > 1:
        point = at.shaped(at.apply("Cast", at.input(2), to=_INT32), each)
        rest = at.apply("Sub", rest, at.apply("Mul", point, at.constant(_met(layer, step.inputs[1], step))))
    numbers, scale = at.apply("Cast", rest, to=_FLOAT), at.shaped(at.input(1), each)
    scales = at.constant(weight_scale(step.inputs[1], shape[-1]))
    if layer.kind is Kind.DENSE:
        made = at.apply("Mul", numbers, at.apply("Mul", scale, scales))
    else:
        made = at.apply("Mul", at.apply("Mul", numbers, scales), scale)
    made = at.biased(made, 1 + len(factors))
    activation = step.options(f"{OPTIONS[step.plain.operator]}Options").FusedActivationFunction()
    return at, at.activated(made, activation)


def _met(layer: Operator, weight: Value, step: Step) -> Array:
    """The sum of the weights that each output met, in a form that is spread over the output."""
    assert weight.constant is not None
    stored = weight.constant.view(np.int8)
    if layer.kind is Kind.DENSE:
        return np.asarray(stored.sum(axis=1, dtype=np.int32))
    if layer.kind is Kind.DEPTHWISE:
        stored = stored.transpose(3, 1, 2, 0)
    found = weights_met(stored, step.inputs[0].shape[1:3], step.output.shape[1:3], layer.attributes)
    return np.ascontiguousarray(np.moveaxis(found, 0, -1))
