"""Values in another order of axes, moved in square blocks. This module imports TVM.

Axes of extent 1 are dropped, and those that stay next to each other are one. Where the last axis stays the last one,
rows are copied. Elsewhere it changes places with another: as many rows as a register of 128 bits has values are read,
and their values interleaved again and again, until each register holds a column.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.written.rows import copy_row, load_bytes, repeat, share, store_vector
from int8tune.schedules.written.signature import flat_argument

REGISTER_BYTES = 16


def merged(shape: Sequence[int], order: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape and order of fewest axes that move values in the same way."""
    kept = [axis for axis, extent in enumerate(shape) if extent != 1]
    groups: list[list[int]] = []
    for axis in (kept.index(axis) for axis in order if shape[axis] != 1):
        if groups and axis == groups[-1][-1] + 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    extents = tuple(math.prod(shape[kept[axis]] for axis in group) for group in sorted(groups))
    return extents, tuple(sorted(groups).index(group) for group in groups)


def is_copy(shape: Sequence[int], order: Sequence[int]) -> bool:
    """Whether no value changes its place."""
    return len(merged(shape, order)[1]) < 2


def write_transpose(shape: Sequence[int], order: Sequence[int], dtype: str, threads: int) -> Any | None:
    """The PrimFunc (values, out), each of one axis; None where an axis is too short for blocks.

    Args:
        order: for each axis of the output that of the values.
    """
    extents, ranks = merged(shape, order)
    count = REGISTER_BYTES // np.dtype(dtype).itemsize
    stays = not ranks or ranks[-1] == len(ranks) - 1
    if not stays and min(extents[-1], extents[ranks[-1]]) < count:
        return None
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        length = math.prod(shape)
        values, out = flat_argument("values", length, dtype), flat_argument("out", length, dtype)
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        if stays:
            _Rows(values, out, extents or (1,), ranks or (0,)).write(threads)
        else:
            _Blocks(values, out, extents, ranks, count).write(threads)
    return builder.get()


class _Moves:
    """Emits loops over axes of an output, with the place of each turn in the values and in the output."""

    def __init__(self, values: Any, out: Any, extents: Sequence[int], ranks: Sequence[int]) -> None:
        self.values, self.out, self.extents, self.ranks = values, out, extents, ranks
        own = [math.prod(extents[axis + 1 :]) for axis in range(len(extents))]
        made = [math.prod(extents[axis] for axis in ranks[place + 1 :]) for place in range(len(ranks))]
        self.strides = own
        self.out_strides = {axis: made[place] for place, axis in enumerate(ranks)}

    def over(self, axes: Sequence[int], threads: int, body: Any, at: Any = 0, to: Any = 0) -> None:
        """A loop for each of these axes of the values, the first one shared among threads."""
        if not axes:
            body(at, to)
            return
        axis, *rest = axes
        step, out_step = self.strides[axis], self.out_strides[axis]
        share(
            self.extents[axis],
            threads,
            lambda place: self.over(rest, 1, body, at + place * step, to + place * out_step),
        )


class _Rows(_Moves):
    """The last axis stays: rows are copied."""

    def write(self, threads: int) -> None:
        *outer, last = self.ranks
        length = self.extents[last]
        self.over(outer, threads, lambda at, to: copy_row(self.out, to, self.values, at, length, signed=False))


class _Blocks(_Moves):
    """The last axis of the values and that of the output change places.

    Attributes:
        count: rows and columns of a block.
    """

    def __init__(self, values: Any, out: Any, extents: Sequence[int], ranks: Sequence[int], count: int) -> None:
        super().__init__(values, out, extents, ranks)
        self.count = count

    def write(self, threads: int) -> None:
        rows, columns = self.ranks[-1], len(self.extents) - 1
        outer = [axis for axis in self.ranks if axis not in (rows, columns)]
        blocks = -(-self.extents[rows] // self.count)

        def band(at: Any, to: Any, block: Any) -> None:
            """So many rows."""
            row = T.Bind(T.min(block * self.count, self.extents[rows] - self.count))
            at, to = T.Bind(at + row * self.strides[rows]), T.Bind(to + row)
            whole, rest = divmod(self.extents[columns], self.count)
            repeat(whole, lambda index: self._block(at, to, index * self.count, rows, columns))
            if rest:
                self._block(at, to, self.extents[columns] - self.count, rows, columns)

        if outer and self.extents[outer[0]] >= threads:
            self.over(outer, threads, lambda at, to: repeat(blocks, lambda block: band(at, to, block)))
        else:
            self.over(outer, 1, lambda at, to: share(blocks, threads, lambda block: band(at, to, block)))

    def _block(self, at: Any, to: Any, column: Any, rows: int, columns: int) -> None:
        count = self.count
        registers = [
            T.Bind(load_bytes(self.values, at + row * self.strides[rows] + column, count)) for row in range(count)
        ]
        for place, register in enumerate(interleaved(registers, count)):
            store_vector(self.out, to + (column + place) * self.out_strides[columns], register, count)


def interleaved(registers: Sequence[Any], count: int) -> Sequence[Any]:
    """Registers whose values are those of all of the given ones in turn; as many of these as a power of two."""
    low, high = (
        [*itertools.chain.from_iterable((at, count + at) for at in range(first, first + count // 2))]
        for first in (0, count // 2)
    )
    half = len(registers) // 2
    for _ in range(int(math.log2(len(registers)))):
        pairs = [(registers[index], registers[index + half]) for index in range(half)]
        registers = [T.Bind(T.Shuffle(list(pair), places)) for pair in pairs for places in (low, high)]
    return registers
