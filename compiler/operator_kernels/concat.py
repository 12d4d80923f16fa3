"""Concatenation of values with scales of their own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import TYPES, OperatorKernel, values_of
from int8tune.compiler.operator_kernels.tables import computed_entries
from int8tune.compiler.operators.concat import concat_constants
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.target import Target


def concat(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """Each input's part of every row is copied; where its scale differs from the output's, through its table."""
    inputs, output = values_of(graph, operator)
    axis, tables = operator.attributes["axis"], concat_constants(operator, inputs, output).tables
    rows, row = math.prod(output.shape[:axis]), math.prod(output.shape[axis:])
    computed: list[Callable[[Any], Any] | None] = [
        _same if table is None else computed_entries(table, data, output)
        for table, data in zip(tables, inputs, strict=True)
    ]
    looked_up = [index for index, compute in enumerate(computed) if compute is None]
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        parts = [_argument(f"part_{index}", value.shape, value.type) for index, value in enumerate(inputs)]
        entries = {index: _argument(f"entries_{index}", (256,), output.type) for index in looked_up}
        out = _argument("out", output.shape, output.type)
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        with T.parallel(0, rows) if target.threads > 1 and rows > 1 else T.serial(0, rows) as at:
            first = 0
            for index, value in enumerate(inputs):
                length = math.prod(value.shape[axis:])
                compute = computed[index] or _lookup(entries[index], RANGES[value.type][0])
                with T.serial(0, length) as place:
                    T.buffer_store(out, compute(parts[index][at * length + place]), [at * row + first + place])
                first += length
    constants = tuple(np.ascontiguousarray(tables[index]) for index in looked_up)
    return OperatorKernel(builder.get(), operator.inputs, constants)


def _argument(name: str, shape: tuple[int, ...], element: str) -> Any:
    return T.arg(name, T.buffer((math.prod(shape),), TYPES[element]))


def _same(value: Any) -> Any:
    return value


def _lookup(entries: Any, lowest: int) -> Callable[[Any], Any]:
    return lambda value: entries[T.cast(value, "int32") - lowest]
