"""A softmax of rows, as one kernel that is written for vectors. This module imports TVM.

The largest value of a row and its sum are those of 16 lanes, which are combined at last. Where vectors don't fill a
row, the last one begins before the end of its neighbour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.islands.functions import number, power_of_most_one
from int8tune.schedules.written.rows import repeat, share

LANES = 16
NAME = "softmax"


def write_softmax(rows: int, length: int, threads: int) -> Any:
    """The PrimFunc (data [rows, length], output) of float32; rows have at least as many values as a vector."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(NAME)
        data, out = (T.arg(name, T.buffer((rows, length), "float32")) for name in ("data", "out"))
        T.func_attr({"tirx.noalias": True})
        share(rows, threads, lambda row: _Row(data, out, row, length).write())
    return builder.get()


class _Row:
    """Emits what is done with one row."""

    def __init__(self, data: Any, out: Any, row: Any, length: int) -> None:
        self._data, self._out, self._row, self._length = data, out, row, length
        self._kept = T.alloc_buffer((length,), "float32")

    def write(self) -> None:
        largest = self._largest()
        total = T.alloc_buffer((LANES,), "float32")
        self._lanes(lambda lane: T.buffer_store(total, number(0.0), [lane]))

        def add(lane: Any, at: Any, is_new: Any) -> None:
            power = power_of_most_one(self._data[self._row, at + lane] - largest)
            T.buffer_store(self._kept, power, [at + lane])
            new = self._kept[at + lane] if is_new is None else tirx.Select(is_new, self._kept[at + lane], number(0.0))
            T.buffer_store(total, total[lane] + new, [lane])

        self._over_row(add)
        factor = T.Bind(number(1.0) / _combined(total, lambda one, other: one + other))
        self._over_row(
            lambda lane, at, _: T.buffer_store(self._out, self._kept[at + lane] * factor, [self._row, at + lane])
        )

    def _largest(self) -> Any:
        most = T.alloc_buffer((LANES,), "float32")
        self._lanes(lambda lane: T.buffer_store(most, self._data[self._row, lane], [lane]))
        self._over_row(
            lambda lane, at, _: T.buffer_store(most, tirx.max(most[lane], self._data[self._row, at + lane]), [lane])
        )
        return T.Bind(_combined(most, tirx.max))

    def _over_row(self, body: Callable[[Any, Any, Any], None]) -> None:
        """Each vector of the row; the last one overlaps its neighbour, and `is_new` says which of its lanes do not."""
        repeat(self._length // LANES, lambda index: self._lanes(lambda lane: body(lane, index * LANES, None)))
        if rest := self._length % LANES:
            self._lanes(lambda lane: body(lane, self._length - LANES, lane >= LANES - rest))

    def _lanes(self, body: Callable[[Any], None]) -> None:
        with T.vectorized(0, LANES) as lane:
            body(lane)


def _combined(buffer: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """All lanes of a buffer, by halves."""
    width = LANES
    while width > 1:
        width //= 2
        with T.vectorized(0, width) if width > 1 else T.serial(0, 1) as lane:
            T.buffer_store(buffer, combine(buffer[lane], buffer[width + lane]), [lane])
    return buffer[0]
