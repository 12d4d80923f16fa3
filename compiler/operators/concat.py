"""Concatenation of values with scales of their own.

Sources: TFLite, ConcatenationWithScaling of reference/concatenation.h; ONNX Runtime, qlinear_concat.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import (
    WORDS,
    Array,
    byte_fault,
    every_stored,
    is_same_quantization,
    scale_of,
    shape_fault,
    stored,
    stored_fault,
    zero_point_of,
)
from int8tune.compiler.operators.float_tables import requantized
from int8tune.compiler.operators.quantize import half_away
from int8tune.schedules.numerics import RANGES


@dataclass(frozen=True, slots=True, eq=False)
class ConcatConstants:
    """What a concatenation knows before it runs.

    Attributes:
        tables: for each input the 256 stored outputs, by the stored input minus the lowest of its type; None for an
            input that is stored as the output is.
    """

    tables: tuple[Array | None, ...]


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    wrong = (_words_fault if output.type in WORDS else byte_fault)(*inputs, output)
    axis, rank = operator.attributes["axis"], len(output.shape)
    if wrong or not inputs or not 0 <= axis < rank:
        return wrong or f"its axis must be within {rank}: {axis}"
    for data in inputs:
        only_moves = operator.rule == "fixed" and (data.type == "s8" or data.type != output.type)
        if only_moves and not is_same_quantization(data, output):
            return "its inputs and output must have one scale, where they are s8"
        others = [value.shape[:axis] + value.shape[axis + 1 :] for value in (data, output) if len(value.shape) == rank]
        if len(others) != 2 or others[0] != others[1]:
            return f"{data.shape} is no part of {output.shape} on axis {axis}"
    total = sum(data.shape[axis] for data in inputs)
    return shape_fault(output, (*output.shape[:axis], total, *output.shape[axis + 1 :]))


def _words_fault(*values: Value) -> str | None:
    """Why values of 16 bits can't be copied as they are."""
    wrong = next(filter(None, map(stored_fault, values)), None)
    if wrong is None and not all(is_same_quantization(each, values[-1]) for each in values):
        return "its inputs and output must have one scale, where they have 16 bits"
    return wrong


def concat_constants(operator: Operator, inputs: Sequence[Value], output: Value) -> ConcatConstants:
    """The constants of a concatenation."""
    tables: list[Array | None] = []
    for data in inputs:
        if is_same_quantization(data, output):
            tables.append(None)
        elif operator.rule == "float":
            tables.append(requantized(data, output))
        else:
            tables.append(_fixed_table(operator, data, output))
    return ConcatConstants(tuple(tables))


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    tables = concat_constants(operator, inputs, output).tables
    parts = [
        array if table is None else table[array.astype(np.int64) - RANGES[data.type][0]]
        for data, array, table in zip(inputs, arrays, tables, strict=True)
    ]
    return np.concatenate(parts, axis=operator.attributes["axis"])


def _fixed_table(operator: Operator, data: Value, output: Value) -> Array:
    """Computed in binary32: a product and a sum, halves away from zero."""
    ratio = scale_of(data) * (np.float32(1) / scale_of(output))
    bias = np.float32(-zero_point_of(data)) * ratio
    steps = half_away(every_stored(data).astype(np.float32) * ratio + bias)
    return stored(steps + zero_point_of(output), operator, output)
