"""The smaller or the larger of two quantized values of one scale, of which either may be spread over axes of extent 1.

To stand for a number is monotonic: stored values are compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from int8tune.compiler.graph import Kind, Operator, Value
from int8tune.compiler.operators.base import Array, broadcast_fault, byte_fault, is_same_quantization, stored


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:  # noqa: ARG001
    wrong = byte_fault(*inputs, output)
    if wrong or len(inputs) != 2:
        return wrong or f"it must compare two values: {len(inputs)}"
    if not all(is_same_quantization(value, output) for value in inputs):
        return "its inputs and output must have one scale"
    return broadcast_fault(inputs, output)


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:  # noqa: ARG001
    choose = np.minimum if operator.kind is Kind.MINIMUM else np.maximum
    return stored(choose(*arrays).astype(np.int64), operator, output)
