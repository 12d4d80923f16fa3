"""Concatenation of values with scales of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from compiler.graph import Graph, Operator, Value
from compiler.operator_kernels.kernel import TYPES, OperatorKernel, values_of
from compiler.operator_kernels.lookup import step_and_bounds
from compiler.operators.base import every_stored
from compiler.operators.concat import concat_constants
from compiler.program import Array
from schedules.numerics import RANGES
from schedules.target import Target


def concat(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """Each input's part of every row is copied; where its scale differs from the output's, through its table."""
    inputs, output = values_of(graph, operator)
    axis, tables = operator.attributes["axis"], concat_constants(operator, inputs, output).tables
    rows, row = math.prod(output.shape[:axis]), math.prod(output.shape[axis:])
    own = [index for index, table in enumerate(tables) if table is not None and _computed(inputs[index], table) is None]
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        buffers = [
            T.arg(f"part_{index}", T.buffer((math.prod(value.shape),), TYPES[value.type]))
            for index, value in enumerate(inputs)
        ]
        entries = {index: T.arg(f"entries_{index}", T.buffer((256,), TYPES[output.type])) for index in own}
        out = T.arg("out", T.buffer((math.prod(output.shape),), TYPES[output.type]))
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        with T.parallel(0, rows) if target.threads > 1 and rows > 1 else T.serial(0, rows) as at:
            first = 0
            for index, value in enumerate(inputs):
                length = math.prod(value.shape[axis:])
                with T.serial(0, length) as place:
                    taken = buffers[index][at * length + place]
                    made = _stored(value, output, tables[index], taken, entries.get(index))
                    T.buffer_store(out, made, [at * row + first + place])
                first += length
    constants = tuple(np.ascontiguousarray(tables[index]) for index in own)
    return OperatorKernel(builder.get(), operator.inputs, constants)


def _computed(value: Value, table: Array) -> tuple[int, int, int] | None:
    return step_and_bounds(table.astype(np.int64), every_stored(value))


def _stored(value: Value, output: Value, table: Array | None, taken: Any, entries: Any) -> Any:
    if table is None:
        return taken
    if entries is not None:
        return entries[T.cast(taken, "int32") - RANGES[value.type][0]]
    found = _computed(value, table)
    assert found is not None
    step, low, high = found
    return T.cast(T.min(T.max(T.cast(taken, "int16") + T.int16(step), T.int16(low)), T.int16(high)), TYPES[output.type])
