"""What operators compute: a module for each family, and which family a kind belongs to.

`base` has the contract. A family's module has, besides, the constants that its kernels know before they run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from int8tune.compiler.graph import Kind, Operator, Value
from int8tune.compiler.operators import (
    addition,
    blocks,
    concat,
    detection,
    division,
    elementwise,
    extremum,
    layer,
    lookup,
    lstm,
    matmul,
    mean,
    movement,
    multiply,
    pool,
    prelu,
    quantize,
    reduction,
    requantize,
    resize,
    softmax,
    squared_difference,
    svdf,
    word_arithmetic,
    word_bytes,
    word_sums,
)
from int8tune.compiler.operators.base import Array, Family, WideFamily

FAMILIES: dict[Kind, Family] = {
    Kind.CONV2D: layer,
    Kind.DEPTHWISE: layer,
    Kind.DENSE: layer,
    Kind.MATMUL: matmul,
    Kind.ADD: addition,
    Kind.SUBTRACT: addition,
    Kind.MULTIPLY: multiply,
    Kind.DIVIDE: division,
    Kind.MINIMUM: extremum,
    Kind.MAXIMUM: extremum,
    Kind.PRELU: prelu,
    Kind.ELEMENTWISE: elementwise,
    Kind.AVERAGE_POOL: pool,
    Kind.MAX_POOL: pool,
    Kind.MEAN: mean,
    **dict.fromkeys((Kind.SUM, Kind.REDUCE_MAX, Kind.REDUCE_MIN, Kind.ARG_MAX, Kind.ARG_MIN), reduction),
    Kind.CONCAT: concat,
    Kind.RESHAPE: movement,
    Kind.TRANSPOSE: movement,
    Kind.PAD: movement,
    Kind.SLICE: movement,
    Kind.GATHER: movement,
    Kind.DEPTH_TO_SPACE: blocks,
    Kind.SPACE_TO_DEPTH: blocks,
    Kind.RESIZE: resize,
    Kind.SOFTMAX: softmax,
    Kind.LOOKUP: lookup,
    Kind.SQUARED_DIFFERENCE: squared_difference,
    Kind.WORD_ARITHMETIC: word_arithmetic,
    Kind.WORD_BYTE: word_bytes,
    Kind.WORD_SUMS: word_sums,
    Kind.QUANTIZE: quantize,
    Kind.DEQUANTIZE: quantize,
    Kind.REQUANTIZE: requantize,
}
WIDE_FAMILIES: dict[Kind, WideFamily] = {Kind.DETECTION: detection, Kind.LSTM: lstm, Kind.SVDF: svdf}


def computed(operator: Operator, values: Mapping[str, Value], arrays: Sequence[Array]) -> tuple[Array, ...]:
    """What an operator makes, one for each output.

    Args:
        arrays: one for each input, of its shape and type.
    """
    inputs, outputs = ([values[name] for name in names] for names in (operator.inputs, operator.outputs))
    if operator.kind in WIDE_FAMILIES:
        return WIDE_FAMILIES[operator.kind].reference(operator, inputs, outputs, arrays)
    return (FAMILIES[operator.kind].reference(operator, inputs, outputs[0], arrays),)


def checked(operator: Operator, values: Mapping[str, Value]) -> Operator:
    """The operator, or one of kind OTHER where it has a fault."""
    inputs, outputs = ([values[name] for name in names] for names in (operator.inputs, operator.outputs))
    if any(0 in value.shape for value in (*inputs, *outputs)):
        return other(operator, "it has no values")
    if operator.kind in WIDE_FAMILIES:
        fault = WIDE_FAMILIES[operator.kind].fault(operator, inputs, outputs)
    else:
        fault = FAMILIES[operator.kind].fault(operator, inputs, outputs[0])
    return operator if fault is None else other(operator, fault)


def other(operator: Operator, reason: str) -> Operator:
    """The operator as one that nothing computes."""
    attributes: dict[str, Any] = {"reason": reason}
    return replace(operator, kind=Kind.OTHER, clamp=None, attributes=attributes)
