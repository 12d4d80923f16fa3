"""BATCH_MATMUL on 8-bit values as a graph's operators.

Source: kernels/batch_matmul.cc of TensorFlow Lite, which transposes matrices before it multiplies them, too.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import replace

import numpy as np

from int8tune.compiler.graph import Kind, Operator, Value
from int8tune.compiler.naming import free_name
from int8tune.compiler.operators import checked
from int8tune.compiler.operators.base import BYTES
from int8tune.compiler.tflite_reader.steps import Reason, Step

Values = MutableMapping[str, Value]
Read = Callable[[Step], Operator | Reason]


def product_operators(step: Step, read: Read, values: Values) -> tuple[Operator, ...] | Reason:
    """The product of an operator's matrices, behind what transposes the first ones where it says so.

    Args:
        read: makes the product of matrices of which the first are as they are to be.
    """
    data = step.inputs[0]
    if not step.options("BatchMatMulOptions").AdjX():
        made = read(step)
        return made if isinstance(made, str) else (made,)
    if data.type not in BYTES or data.quantization is None:
        made = read(step)
        return made if isinstance(made, str) else "its first matrices are transposed, and have no 8-bit values"
    *batch, row, column = range(len(data.shape))
    turned = _turned(data, (*batch, column, row), free_name(f"{data.name}/turned", values))
    values[turned.name] = turned
    plain = replace(step.plain, inputs=(turned.name, *step.plain.inputs[1:]))
    made = read(replace(step, plain=plain, inputs=(turned, *step.inputs[1:])))
    if isinstance(made, str) or made.kind is Kind.OTHER:
        del values[turned.name]
        return made if isinstance(made, str) else (made,)
    if turned.constant is not None:
        return (made,)
    turning = replace(plain, kind=Kind.TRANSPOSE, layers=(turned.name,), inputs=(data.name,), outputs=(turned.name,))
    return checked(replace(turning, attributes={"permutation": (*batch, column, row)}), values), made


def _turned(data: Value, order: tuple[int, ...], name: str) -> Value:
    constant = None if data.constant is None else np.transpose(data.constant, order)
    return replace(data, name=name, shape=tuple(data.shape[axis] for axis in order), constant=constant)
