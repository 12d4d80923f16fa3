"""The softmax of the float rule along rows, in vectors. This module imports TVM.

A row's sum has an order, so that each addition waits for the one before: several rows take turns. An output depends on
nothing but the distance from the row's largest value, so that a row has a table of outputs by distance, as far as its
smallest value is away; of these, what can be above 0 is computed. They are products with the sum's reciprocal, which
give the rounded quotients themselves (`nearest_share`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operator_kernels.kernel import (
    LANES,
    LEAST_SHARED_RESULTS,
    TYPES,
    nearest_quotient,
    nearest_whole,
    rounded_alone,
    stored,
)
from int8tune.compiler.operator_kernels.lookup import look_up
from int8tune.compiler.operators.base import stored as stored_array
from int8tune.compiler.operators.base import zero_point_of
from int8tune.compiler.operators.softmax import SoftmaxConstants
from int8tune.compiler.program import Array
from int8tune.schedules.intrinsics.byte_tables import BYTE_TABLES, ENTRIES, ByteTable
from int8tune.schedules.target import Target
from int8tune.schedules.written.rows import load_bytes, repeat, share, store_vector
from int8tune.schedules.written.signature import flat_argument

# Rows that take turns.
MOST_ROWS = 8
# Quotients below are 0, with some room for their rounding.
NOTHING = 0.49
# The greatest quotient that a product with a reciprocal decides, and what makes such a one a multiple of 2^-36 when it
# is added and taken away.
MOST_SHARE = 512
ROUNDER_36 = 1.5 * 2.0**16


@dataclass(frozen=True, slots=True)
class Rows:
    """What a kernel is written for.

    Attributes:
        entries: distances whose outputs are computed, a multiple of `LANES`.
        has_small_shares: no quotient is above `MOST_SHARE`.
    """

    operator: Operator
    data: Value
    output: Value
    vectors: ByteTable
    entries: int
    has_small_shares: bool

    @property
    def count(self) -> int:
        return math.prod(self.data.shape) // self.length

    @property
    def length(self) -> int:
        length: int = self.data.shape[self.operator.attributes["axis"]]
        return length


def rows_of(operator: Operator, data: Value, output: Value, constants: SoftmaxConstants, target: Target) -> Rows | None:
    """The rows of a softmax; None where it is along another axis, rows are short, or the target has no tables."""
    vectors = BYTE_TABLES.get(target.profile)
    axis = operator.attributes["axis"]
    if vectors is None or math.prod(data.shape[axis + 1 :]) != 1 or data.shape[axis] < vectors.width:
        return None
    # A sum is at least the power of the largest value.
    (most,) = np.nonzero(constants.numerators / constants.exponentials[0] >= NOTHING)
    entries = min(-(-(int(most.max(initial=0)) + 1) // LANES) * LANES, ENTRIES)
    return Rows(operator, data, output, vectors, entries, bool(constants.factor <= MOST_SHARE))


def constants_of(constants: SoftmaxConstants) -> tuple[Array, Array]:
    """The arguments behind the values: exponentials by 255 minus the distance, and numerators by the distance."""
    return np.ascontiguousarray(constants.exponentials[::-1]), constants.numerators


def write_softmax_rows(rows: Rows, target: Target) -> Any:
    """The PrimFunc (values, exponentials, numerators, output), each of one axis."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        _Writer(rows).write(target.threads)
    return builder.get()


class _Writer:
    """Emits one kernel."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.together = rows, min(MOST_ROWS, rows.count)

    def write(self, threads: int) -> None:
        rows = self.rows
        size = rows.count * rows.length
        self.values = flat_argument("values", size, TYPES[rows.data.type])
        self.exponentials = flat_argument("exponentials", ENTRIES, "float32")
        self.numerators = flat_argument("numerators", ENTRIES, "float64")
        self.out = flat_argument("out", size, TYPES[rows.output.type])
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        threads = threads if size >= LEAST_SHARED_RESULTS else 1
        share(-(-rows.count // self.together), threads, self._group)

    def _group(self, group: Any) -> None:
        """Rows that take turns; the last ones overlap their neighbours."""
        rows = self.rows
        first = T.Bind(T.min(group * self.together, rows.count - self.together))
        starts = [T.Bind((first + row) * rows.length) for row in range(self.together)]
        largest, smallest = ([self._end(start, choose) for start in starts] for choose in (T.max, T.min))
        # Each on its own: LLVM would take adjacent ones for a vector.
        sums = [T.alloc_buffer((1,), "float32") for _ in starts]
        for total in sums:
            T.buffer_store(total, tirx.const(0.0, "float32"), [0])
        ahead = [T.Bind(255 - T.cast(each, "int32")) for each in largest]
        with T.serial(0, rows.length) as place:
            for row, start in enumerate(starts):
                at = T.cast(self.values[start + place], "int32") + ahead[row]
                T.buffer_store(sums[row], sums[row][0] + self.exponentials[at], [0])
        for row, start in enumerate(starts):
            farthest = T.cast(largest[row], "int32") - T.cast(smallest[row], "int32")
            self._outputs(start, largest[row], self._table(sums[row][0], T.Bind(farthest // LANES + 1)))

    def _end(self, start: Any, choose: Callable[[Any, Any], Any]) -> Any:
        """The largest stored value of a row, or the smallest."""
        width, dtype = self.rows.vectors.width, TYPES[self.rows.data.type]
        found = T.alloc_buffer((width,), dtype)
        store_vector(found, 0, load_bytes(self.values, start, width), width)

        def take(at: Any) -> None:
            chosen = choose(load_bytes(found, 0, width), load_bytes(self.values, start + at, width))
            store_vector(found, 0, chosen, width)

        self._over_row(take)
        while width > 1:
            width //= 2
            store_vector(found, 0, choose(load_bytes(found, 0, width), load_bytes(found, width, width)), width)
        return T.Bind(found[0])

    def _table(self, total: Any, blocks: Any) -> Any:
        """The outputs of the distances of some blocks of `LANES`, as bytes without a sign."""
        rows, computed_blocks = self.rows, self.rows.entries // LANES
        table = T.alloc_buffer((ENTRIES,), "uint8")

        def kept(steps: Any) -> Any:
            found = stored(steps + zero_point_of(rows.output), rows.operator, rows.output)
            return T.reinterpret(found, dtype="uint8")

        def store(first: Any, value: Callable[[Any], Any]) -> None:
            with T.vectorized(0, LANES) as lane:
                T.buffer_store(table, value(first + lane), [first + lane])

        share_of: Callable[[Any, Any], Any] = nearest_quotient
        if rows.has_small_shares:
            share_of, total = nearest_share, T.Bind(tirx.const(1.0, "float64") / T.cast(total, "float64"))

        def computed(distance: Any) -> Any:
            return kept(share_of(self.numerators[distance], total))

        repeat(T.min(blocks, computed_blocks), lambda block: store(block * LANES, computed))
        # As a constant of its own: TVM takes a reinterpreted 0 for a pointer.
        nothing = stored_array(np.array(zero_point_of(rows.output)), rows.operator, rows.output).view(np.uint8)
        repeat(
            T.max(blocks - computed_blocks, 0),
            lambda block: store(rows.entries + block * LANES, lambda _: T.uint8(int(nothing))),
        )
        return table

    def _outputs(self, start: Any, largest: Any, table: Any) -> None:
        vectors, width = self.rows.vectors, self.rows.vectors.width
        registers = vectors.load(table)
        most = T.Bind(T.broadcast(T.reinterpret(largest, dtype="uint8"), width))

        def look(at: Any) -> None:
            place = start + at
            look_up(vectors, registers, (self.values, place), (self.out, place), lambda found: most - found)

        self._over_row(look)

    def _over_row(self, body: Callable[[Any], None]) -> None:
        """Each vector of a row; the last one overlaps its neighbour."""
        length, width = self.rows.length, self.rows.vectors.width
        repeat(length // width, lambda index: body(index * width))
        if length % width:
            body(length - width)


def nearest_share(numerator: Any, reciprocal: Any) -> Any:
    """A numerator of a row times the float64 reciprocal of its sum, as the quotient's next int32, halves to even.

    A numerator is a binary32 number times a whole one of up to 2^9, a sum is a binary32 number that is no smaller than
    the former. So a quotient from 0.49 to 2^9 that is not a tie is at least 2^-35 away from one, and the product is
    within 2^-43 of it. Rounded to multiples of 2^-36, products are ties where quotients are, and nowhere else.
    """
    rounder = tirx.const(ROUNDER_36, "float64")
    return nearest_whole(rounded_alone(numerator * reciprocal + rounder, "float64") - rounder)
