"""What operators compute: a module for each family, and which family a kind belongs to.

`base` has the contract. A family's module has, besides, the constants that its kernels know before they run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from int8tune.compiler.graph import Kind, Operator, Value
from int8tune.compiler.operators import (
    addition,
    blocks,
    concat,
    division,
    elementwise,
    extremum,
    layer,
    lookup,
    matmul,
    mean,
    movement,
    multiply,
    pool,
    prelu,
    quantize,
    reduction,
    resize,
    softmax,
)
from int8tune.compiler.operators.base import Family

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
    Kind.QUANTIZE: quantize,
    Kind.DEQUANTIZE: quantize,
}


def checked(operator: Operator, values: Mapping[str, Value]) -> Operator:
    """The operator, or one of kind OTHER where it has a fault."""
    inputs = [values[name] for name in operator.inputs]
    if any(0 in value.shape for value in (*inputs, values[operator.outputs[0]])):
        return other(operator, "it has no values")
    fault = FAMILIES[operator.kind].fault(operator, inputs, values[operator.outputs[0]])
    return operator if fault is None else other(operator, fault)


def other(operator: Operator, reason: str) -> Operator:
    """The operator as one that nothing computes."""
    attributes: dict[str, Any] = {"reason": reason}
    return replace(operator, kind=Kind.OTHER, clamp=None, attributes=attributes)
