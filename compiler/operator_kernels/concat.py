"""Concatenation of values with scales of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.graph import Graph, Operator, Value
from int8tune.compiler.operator_kernels.kernel import TYPES, OperatorKernel, values_of
from int8tune.compiler.operator_kernels.lookup import entries_of, look_up
from int8tune.compiler.operator_kernels.tables import computed_entries
from int8tune.compiler.operators.base import BYTES
from int8tune.compiler.operators.concat import concat_constants
from int8tune.compiler.program import Array
from int8tune.schedules.intrinsics.byte_tables import BYTE_TABLES, ByteTable
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.target import Target
from int8tune.schedules.written.accumulators import ON_STACK
from int8tune.schedules.written.rows import copy_row, repeat, share
from int8tune.schedules.written.signature import flat_argument

# Bytes of a part that are looked up before they are copied to where they belong: they stay in the first-level cache.
BLOCK_BYTES = 4096
# Rows from so many vectors on are looked up where they go.
LONG_VECTORS = 4


def concat(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """Each input's part of every row is copied; where its scale differs from the output's, through its table."""
    inputs, output = values_of(graph, operator)
    axis, tables = operator.attributes["axis"], concat_constants(operator, inputs, output).tables
    rows = math.prod(output.shape[:axis])
    parts = [Part(value, math.prod(value.shape[axis:]), table) for value, table in zip(inputs, tables, strict=True)]
    vectors = BYTE_TABLES.get(target.profile)
    if vectors is not None and all(_fills(part, rows, vectors) for part in parts):
        return _concat_vectors(operator, parts, output, rows, vectors, target)
    return _concat_values(operator, parts, output, rows, target)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What an input gives to each row of the output: `length` values, through a table if it has one."""

    value: Value
    length: int
    table: Array | None


def _fills(part: Part, rows: int, vectors: ByteTable) -> bool:
    """Whether a part has bytes, and what is looked up fills a vector."""
    return part.value.type in BYTES and (part.table is None or part.length * rows >= vectors.width)


def _concat_vectors(
    operator: Operator, parts: Sequence[Part], output: Value, rows: int, vectors: ByteTable, target: Target
) -> OperatorKernel:
    """Blocks of rows, part by part: looked up as the part lies in memory, then copied row by row."""
    looked_up = [index for index, part in enumerate(parts) if part.table is not None]
    row, of_block = sum(part.length for part in parts), _rows_of_block(parts, rows, vectors.width)
    blocks = -(-rows // of_block)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        given, entries, out = _arguments(parts, looked_up, "uint8", output)
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})

        def block(index: Any) -> None:
            first = T.Bind(T.min(index * of_block, rows - of_block))
            at = 0
            for number, part in enumerate(parts):
                source = Rows(given[number], first * part.length, part.length)
                if part.length and number in entries:
                    _look_up(source, Rows(out, first * row + at, row), of_block, entries[number], vectors)
                elif part.length:
                    _copy(source, Rows(out, first * row + at, row), of_block, part.length)
                at += part.length

        if rows:
            share(blocks, target.threads, block)
    constants = tuple(entries_of(part.table, part.value) for part in parts if part.table is not None)
    return OperatorKernel(builder.get(), operator.inputs, constants)


def _rows_of_block(parts: Sequence[Part], rows: int, width: int) -> int:
    """As many as fit `BLOCK_BYTES`; of each part that is looked up, a vector at least."""
    lengths = [part.length for part in parts if part.length] or [1]
    shortest = min((part.length for part in parts if part.table is not None), default=width)
    return max(1, min(rows, max(BLOCK_BYTES // max(lengths), -(-width // shortest))))


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in a buffer: where the first one begins, and how far the next one is."""

    buffer: Any
    first: Any
    step: int


def _copy(source: Rows, made: Rows, count: int, length: int) -> None:
    def row(index: Any) -> None:
        at = made.first + index * made.step
        copy_row(made.buffer, at, source.buffer, source.first + index * source.step, length, signed=False)

    repeat(count, row)


def _look_up(source: Rows, made: Rows, count: int, entries: Any, vectors: ByteTable) -> None:
    """Rows through a table: long ones one by one, short ones as they lie behind each other, and then copied."""
    registers, length = vectors.load(entries), source.step

    def look(into: Any, into_at: Any, at: Any, total: int) -> None:
        def vector(index: Any) -> None:
            offset = T.Bind(T.min(index * vectors.width, total - vectors.width))
            look_up(vectors, registers, (source.buffer, at + offset), (into, into_at + offset))

        repeat(-(-total // vectors.width), vector)

    is_whole = length % vectors.width == 0
    if is_whole or length >= LONG_VECTORS * vectors.width:
        repeat(count, lambda row: look(made.buffer, made.first + row * made.step, source.first + row * length, length))
        return
    found = T.alloc_buffer((count * length,), made.buffer.dtype, annotations=ON_STACK)
    look(found, 0, source.first, count * length)
    _copy(Rows(found, 0, length), made, count, length)


def _concat_values(
    operator: Operator, parts: Sequence[Part], output: Value, rows: int, target: Target
) -> OperatorKernel:
    """Value by value."""
    computed: list[Callable[[Any], Any] | None] = [
        _same if part.table is None else computed_entries(part.table, part.value, output) for part in parts
    ]
    looked_up = [index for index, compute in enumerate(computed) if compute is None]
    row = sum(part.length for part in parts)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        given, entries, out = _arguments(parts, looked_up, TYPES[output.type], output)
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        with T.parallel(0, rows) if target.threads > 1 and rows > 1 else T.serial(0, rows) as at:
            first = 0
            for index, part in enumerate(parts):
                compute = computed[index] or _lookup(entries[index], RANGES[part.value.type][0])
                with T.serial(0, part.length) as place:
                    T.buffer_store(out, compute(given[index][at * part.length + place]), [at * row + first + place])
                first += part.length
    constants = tuple(np.ascontiguousarray(parts[index].table) for index in looked_up)
    return OperatorKernel(builder.get(), operator.inputs, constants)


def _arguments(
    parts: Sequence[Part], looked_up: Sequence[int], dtype: str, output: Value
) -> tuple[list[Any], dict[int, Any], Any]:
    """The parts, the tables of those that are looked up, by their numbers, and the output, each of one axis."""

    def argument(name: str, value: Value) -> Any:
        return flat_argument(name, math.prod(value.shape), TYPES[value.type])

    given = [argument(f"part_{index}", part.value) for index, part in enumerate(parts)]
    entries = {index: flat_argument(f"entries_{index}", 256, dtype) for index in looked_up}
    return given, entries, argument("out", output)


def _same(value: Any) -> Any:
    return value


def _lookup(entries: Any, lowest: int) -> Callable[[Any], Any]:
    return lambda value: entries[T.cast(value, "int32") - lowest]
