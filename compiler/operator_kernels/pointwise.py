"""Kernels that compute each value of an output from the values at its place. This module imports TVM.

Adjacent axes over which the same inputs are spread are one axis. Along the last one whole vectors are computed; the
last of these overlaps its neighbour, so that extents need not be multiples of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.graph import Value
from int8tune.compiler.operator_kernels.kernel import LANES, LEAST_SHARED_VALUES, TYPES, OperatorKernel
from int8tune.compiler.program import Array
from int8tune.schedules.target import Target
from int8tune.schedules.written.rows import repeat, share
from int8tune.schedules.written.signature import flat_argument

Compute = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Axis:
    """Axes of an output that are one.

    Attributes:
        strides: for each input, values from one place to the next; 0 where it is spread.
    """

    extent: int
    strides: tuple[int, ...]


def pointwise(
    values: Sequence[Value],
    output: Value,
    compute: Compute,
    target: Target,
    constants: Sequence[Array] = (),
    spread: Sequence[Array] = (),
) -> OperatorKernel:
    """The kernel of an operator whose values are of the output's shape, or spread over its axes.

    Args:
        values: its inputs, or those of them that it takes.
        compute: takes a value of each input and of each `spread` array, and a buffer of one axis for each constant; the
            output's value.
        spread: constants of the output's shape, or spread over its axes.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        inputs = [
            flat_argument(f"in{index}", math.prod(value.shape), TYPES[value.type]) for index, value in enumerate(values)
        ]
        arrays = [*spread, *constants]
        known = [flat_argument(f"known{index}", each.size, str(each.dtype)) for index, each in enumerate(arrays)]
        out = flat_argument("out", math.prod(output.shape), TYPES[output.type])
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        loaded, whole = [*inputs, *known[: len(spread)]], known[len(spread) :]
        axes = axes_of([*(value.shape for value in values), *(array.shape for array in spread)], output.shape)
        _Loops(loaded, out, axes, lambda found: compute(*found, *whole)).write(_threads(output, target))
    names = tuple(value.name for value in values)
    return OperatorKernel(builder.get(), names, tuple(each.ravel() for each in arrays))


def axes_of(shapes: Sequence[tuple[int, ...]], output: tuple[int, ...]) -> list[Axis]:
    """The fewest axes of an output over which inputs of these shapes are spread; at least one."""
    wide = [(1,) * (len(output) - len(shape)) + shape for shape in shapes]
    groups: list[tuple[int, tuple[bool, ...]]] = []
    for axis, extent in enumerate(output):
        spread = tuple(shape[axis] == 1 for shape in wide)
        if extent == 1:
            continue
        if groups and groups[-1][1] == spread:
            groups[-1] = (groups[-1][0] * extent, spread)
        else:
            groups.append((extent, spread))
    steps, made = [1] * len(shapes), list[Axis]()
    for extent, spread in reversed(groups or [(1, (False,) * len(shapes))]):
        made.append(
            Axis(extent, tuple(0 if is_spread else step for is_spread, step in zip(spread, steps, strict=True)))
        )
        steps = [step * (1 if is_spread else extent) for is_spread, step in zip(spread, steps, strict=True)]
    return made[::-1]


def _threads(output: Value, target: Target) -> int:
    return target.threads if math.prod(output.shape) >= LEAST_SHARED_VALUES else 1


class _Loops:
    """Emits the loops of one kernel."""

    def __init__(
        self, inputs: Sequence[Any], out: Any, axes: Sequence[Axis], compute: Callable[[list[Any]], Any]
    ) -> None:
        self._inputs, self._out, self._compute = inputs, out, compute
        *self._outer, self._last = axes

    def write(self, threads: int) -> None:
        first = [0] * len(self._inputs)
        if threads > 1 and not self._outer:
            length = -(-self._last.extent // threads)
            share(
                threads,
                threads,
                lambda index: self._part(T.min(index * length, self._last.extent - length), length),
            )
            return
        self._axis(0, first, 0, threads)

    def _axis(self, index: int, starts: Sequence[Any], at: Any, threads: int) -> None:
        """The loops from an axis on."""
        if index == len(self._outer):
            self._vectors(starts, at, self._last.extent)
            return
        axis = self._outer[index]
        size = math.prod(each.extent for each in (*self._outer[index + 1 :], self._last))

        def turn(place: Any) -> None:
            moved = [start + place * step if step else start for start, step in zip(starts, axis.strides, strict=True)]
            self._axis(index + 1, moved, at + place * size, 1)

        share(axis.extent, threads, turn)

    def _part(self, first: Any, length: int) -> None:
        """So many places of the only axis, from one on."""
        begin = T.Bind(first)
        self._vectors([begin * step for step in self._last.strides], begin, length)

    def _vectors(self, starts: Sequence[Any], at: Any, length: int) -> None:
        if length < LANES:
            repeat(length, lambda place: self._store(starts, at, place))
            return
        repeat(length // LANES, lambda block: self._vector(starts, at, block * LANES))
        if length % LANES:
            self._vector(starts, at, length - LANES)

    def _vector(self, starts: Sequence[Any], at: Any, first: Any) -> None:
        with T.vectorized(0, LANES) as lane:
            self._store(starts, at, first + lane)

    def _store(self, starts: Sequence[Any], at: Any, place: Any) -> None:
        loaded = [
            buffer[start + place * step]
            for buffer, start, step in zip(self._inputs, starts, self._last.strides, strict=True)
        ]
        T.buffer_store(self._out, self._compute(loaded), [at + place])
