"""Element-wise functions of 8-bit values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.graph import Graph, Operator, Value
from int8tune.compiler.operator_kernels.kernel import (
    LEAST_SHARED_VALUES,
    TYPES,
    OperatorKernel,
    values_of,
)
from int8tune.compiler.operator_kernels.pointwise import pointwise
from int8tune.compiler.operator_kernels.tables import computed_entries, step_between
from int8tune.compiler.operators.base import every_stored
from int8tune.compiler.program import Array
from int8tune.schedules.intrinsics.byte_tables import BYTE_TABLES, ByteTable
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.target import Target
from int8tune.schedules.written.rows import load_bytes, share, store_vector
from int8tune.schedules.written.signature import flat_argument


def lookup(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """Values of a table: computed, or looked up vector by vector, or one by one."""
    (data,), output = values_of(graph, operator)
    table: Array = operator.attributes["table"]
    vectors = BYTE_TABLES.get(target.profile)
    is_step = step_between(every_stored(data), table.astype(np.int64)) is not None
    if vectors is not None and not is_step and math.prod(data.shape) >= vectors.width:
        return OperatorKernel(_vectors_of(data, output, vectors, target), operator.inputs, (entries_of(table, data),))
    compute = computed_entries(table, data, output)
    if compute is not None:
        return pointwise([data], output, compute, target)

    def entry(value: Any, entries: Any) -> Any:
        return entries[value.astype("int32") - RANGES[data.type][0]]

    return pointwise([data], output, entry, target, [table])


def entries_of(table: Array, data: Value) -> Array:
    """A table in the order of what is stored, seen as numbers without a sign."""
    entries: Array = np.roll(table, RANGES[data.type][0]).view(np.uint8)
    return entries


def look_up(
    vectors: ByteTable,
    registers: Sequence[Any],
    source: tuple[Any, Any],
    made: tuple[Any, Any],
    place: Callable[[Any], Any] | None = None,
) -> None:
    """Look up a vector of a buffer from an index on, and store what is found in another one.

    Args:
        source, made: a buffer of bytes, and where in it.
        place: makes u8 places in the table of what was loaded; they are what was loaded if left out.
    """
    width, (out, at) = vectors.width, made
    loaded = T.reinterpret(load_bytes(*source, width), dtype=f"uint8x{width}")
    found = vectors.look(registers, T.Bind(place(loaded) if place else loaded))
    store_vector(out, at, T.reinterpret(found, dtype=f"{out.dtype}x{width}"), width)


def _vectors_of(data: Value, output: Value, vectors: ByteTable, target: Target) -> Any:
    """The kernel that looks up whole vectors, the last of which overlaps its neighbour."""
    length, width = math.prod(data.shape), vectors.width
    threads = target.threads if length >= LEAST_SHARED_VALUES else 1
    blocks = -(-length // width)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        values = flat_argument("values", length, TYPES[data.type])
        entries = flat_argument("entries", 256, "uint8")
        out = flat_argument("out", length, TYPES[output.type])
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})

        def thread(index: Any) -> None:
            registers = vectors.load(entries)
            first, behind = index * blocks // threads, (index + 1) * blocks // threads
            with T.serial(first, behind) as block:
                at = T.Bind(T.min(block * width, length - width))
                look_up(vectors, registers, (values, at), (out, at))

        share(threads, threads, thread)
    return builder.get()
