"""Operators along rows of values: sums, means, softmax, layer normalization. This module imports TVM.

A sum in float has an order, which LLVM keeps, so that it would add one value after the other. Here a row has 16 sums,
one for each lane of a vector, which are added at last. All steps of a row follow each other, while it is in the first
cache.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, te, tirx

from int8tune.compiler.islands import columns, functions
from int8tune.compiler.islands.functions import number
from int8tune.compiler.islands.softmax import write_softmax
from int8tune.compiler.operator_kernels.kernel import LEAST_SHARED_RESULTS

LANES = 16
PREFIX = "row_"
"""What the names of blocks that `schedule_rows` takes begin with."""

CORES = "num-cores"
"""The option of TVM's targets that says how many threads there are."""

Legalize = Callable[[Any, Any], Any]
Value = Callable[[Any, Any], Any]
Combine = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Reduction:
    """What many values become: by TE along an axis, and two of its results by an expression."""

    reducer: Callable[..., Any]
    combine: Combine


SUM, LARGEST = Reduction(te.sum, operator.add), Reduction(te.max, tirx.max)


def extremum_of(combine: Combine, beyond: float) -> Reduction:
    """The greatest or least, of infinite values, too, which the reducers of TE don't reach.

    Args:
        beyond: what becomes of no values.
    """
    reducer = te.comm_reducer(lambda one, other: combine(one, other), lambda dtype: tirx.const(beyond, dtype))
    return Reduction(reducer, combine)


def reduced(value: Value, rows: int, length: int, reduction: Reduction, name: str) -> Any:
    """The sum, or the largest, of each row's values [rows]."""
    whole, rest = length // LANES, length % LANES
    reducer, combine = reduction.reducer, reduction.combine
    parts = []
    if whole:
        step = te.reduce_axis((0, whole), name="step")
        lanes = te.compute(
            (rows, LANES),
            lambda r, lane: reducer(value(r, step * LANES + lane), axis=step),
            name=f"{PREFIX}lanes_of_{name}",
        )
        parts.append(
            te.compute(
                (rows,), lambda r: _tree(combine, [lanes[r, lane] for lane in range(LANES)]), name=f"{PREFIX}{name}"
            )
        )
    if not rest:
        return parts[0]
    last = te.reduce_axis((0, rest), name="last")
    parts.append(
        te.compute(
            (rows,), lambda r: reducer(value(r, whole * LANES + last), axis=last), name=f"{PREFIX}last_of_{name}"
        )
    )
    if len(parts) == 1:
        return parts[0]
    return te.compute((rows,), lambda r: combine(parts[0][r], parts[1][r]), name=f"{PREFIX}all_of_{name}")


def _tree(combine: Combine, values: Sequence[Any]) -> Any:
    """Values combined by halves: each step waits for as few others as possible."""
    while len(values) > 1:
        half = len(values) // 2
        values = [combine(one, other) for one, other in zip(values[:half], values[half:], strict=True)]
    return values[0]


def schedule_rows(schedule: Any, blocks: Sequence[Any], threads: int) -> None:
    """Compute all steps of a row before the next, lanes as vectors."""
    *steps, output = blocks
    row, *_ = schedule.get_loops(output)
    for block in reversed(steps):
        schedule.compute_at(block, row, preserve_unit_loops=True)
    if threads > 1:
        schedule.parallel(row)
    for block in blocks:
        _, *loops = schedule.get_loops(block)
        kinds = [int(axis.iter_type) for axis in schedule.get(block).iter_vars][1:]
        if len(kinds) < len(loops):  # a unit loop that stands for the row
            loops = loops[len(loops) - len(kinds) :]
        columns = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == 0]
        sums = [loop for loop, kind in zip(loops, kinds, strict=True) if kind != 0]
        if columns and int(schedule.get(columns[0]).extent) % LANES == 0:
            around, lane = schedule.split(columns[0], [None, LANES])
            schedule.reorder(around, *sums, lane)
            schedule.vectorize(lane)
        if sums:
            schedule.decompose_reduction(block, sums[0])


def softmax(builder: Any, call: Any, default: Legalize) -> Any:
    """A softmax along the last axis, or along another one of many columns."""
    rows, length = _rows(call, [int(call.attrs.axis)])
    if not length:
        return columns.softmax(builder, call, default)

    if length >= LANES:
        function = write_softmax(rows, length, threads_for(rows * length))
        return call_written(builder, call, function, (rows, length), "softmax")

    def normalized(data: Any) -> Any:
        largest = reduced(lambda r, k: data[r, k], rows, length, LARGEST, "largest")
        powers = te.compute(
            (rows, length), lambda r, k: functions.exponential(data[r, k] - largest[r]), name=f"{PREFIX}powers"
        )
        total = reduced(lambda r, k: powers[r, k], rows, length, SUM, "total")
        factor = te.compute((rows,), lambda r: number(1.0) / total[r], name=f"{PREFIX}factor")
        return te.compute((rows, length), lambda r, k: powers[r, k] * factor[r], name=f"{PREFIX}softmax")

    return _on_rows(builder, call, normalized, rows, length, "softmax")


def log_softmax(builder: Any, call: Any, default: Legalize) -> Any:
    """The logarithms of a softmax along the last axis, or along another one of many columns."""
    rows, length = _rows(call, [int(call.attrs.axis)])
    if not length:
        return columns.log_softmax(builder, call, default)

    def normalized(data: Any) -> Any:
        largest = reduced(lambda r, k: data[r, k], rows, length, LARGEST, "largest")
        total = reduced(lambda r, k: functions.exponential(data[r, k] - largest[r]), rows, length, SUM, "total")
        logarithm = te.compute((rows,), lambda r: functions.logarithm(total[r]), name=f"{PREFIX}logarithm")
        return te.compute((rows, length), lambda r, k: data[r, k] - largest[r] - logarithm[r], name=f"{PREFIX}log")

    return _on_rows(builder, call, normalized, rows, length, "log_softmax")


def layer_norm(builder: Any, call: Any, default: Legalize) -> Any:
    """A normalization along the last axes: the mean first, then the variance of what is left, which loses no digits."""
    rows, length = _rows(call, [int(axis) for axis in call.attrs.axes])
    if not length or not (call.attrs.center and call.attrs.scale):
        return default(builder, call)

    def normalized(data: Any, scale: Any, offset: Any) -> Any:
        total = reduced(lambda r, k: data[r, k], rows, length, SUM, "total")
        mean = te.compute((rows,), lambda r: total[r] * number(1 / length), name=f"{PREFIX}mean")
        rest = te.compute((rows, length), lambda r, k: data[r, k] - mean[r], name=f"{PREFIX}rest")
        squares = reduced(lambda r, k: rest[r, k] * rest[r, k], rows, length, SUM, "squares")
        factor = te.compute(
            (rows,),
            lambda r: number(1.0) / tirx.sqrt(squares[r] * number(1 / length) + number(float(call.attrs.epsilon))),
            name=f"{PREFIX}factor",
        )
        return te.compute(
            (rows, length), lambda r, k: rest[r, k] * factor[r] * scale[k] + offset[k], name=f"{PREFIX}normalized"
        )

    return _on_rows(builder, call, normalized, rows, length, "layer_norm")


def mean(builder: Any, call: Any, default: Legalize) -> Any:
    """A mean of the last axes."""
    return _sum(builder, call, default, is_mean=True)


def total(builder: Any, call: Any, default: Legalize) -> Any:
    """A sum of the last axes."""
    return _sum(builder, call, default, is_mean=False)


def variance(builder: Any, call: Any, default: Legalize) -> Any:
    """The mean square of what is left of the last axes' values without their mean."""
    rows, length = _rows(call, [int(axis) for axis in call.attrs.axis or ()])
    if not length:
        return default(builder, call)

    def found(data: Any) -> Any:
        sums = reduced(lambda r, k: data[r, k], rows, length, SUM, "total")
        mean = te.compute((rows,), lambda r: sums[r] * number(1 / length), name=f"{PREFIX}mean")

        def square(r: Any, k: Any) -> Any:
            return functions.bound(data[r, k] - mean[r], lambda rest: rest * rest)

        squares = reduced(square, rows, length, SUM, "squares")
        return te.compute((rows,), lambda r: squares[r] * number(1 / length), name=f"{PREFIX}variance")

    return _on_rows(builder, call, found, rows, length, "variance")


def _sum(builder: Any, call: Any, default: Legalize, is_mean: bool) -> Any:
    rows, length = _reduced_rows(call)
    if not length:
        return default(builder, call)
    return _total(builder, call, (rows, length), is_mean, lambda value: value)


def of_squares(builder: Any, call: Any, data: Any) -> Any | None:
    """A sum or a mean of the squares of the last axes' values, of a call that has the squares; None of other axes."""
    rows, length = _reduced_rows(call)
    if not length:
        return None
    is_mean = call.op.name == "relax.mean"
    like = (relax.op.mean if is_mean else relax.op.sum)(data, call.attrs.axis, call.attrs.keepdims)
    return _total(
        builder,
        builder.normalize(like),
        (rows, length),
        is_mean,
        lambda value: functions.bound(value, lambda x: x * x),
    )


def _total(builder: Any, call: Any, size: tuple[int, int], is_mean: bool, made: Callable[[Any], Any]) -> Any:
    """A sum or a mean of what is made of each value of rows."""
    rows, length = size
    factor = 1 / length if is_mean else 1.0

    def added(data: Any) -> Any:
        found = reduced(lambda r, k: made(data[r, k]), rows, length, SUM, "total")
        return te.compute((rows,), lambda r: found[r] * number(factor), name=f"{PREFIX}mean")

    return _on_rows(builder, call, added, rows, length, "mean" if is_mean else "sum")


def extremum(builder: Any, call: Any, reduction: Reduction) -> Any | None:
    """The greatest or least along the last axes; None where they are others."""
    rows, length = _reduced_rows(call)
    if length < LANES:
        return None

    def found(data: Any) -> Any:
        return reduced(lambda r, k: data[r, k], rows, length, reduction, "extremum")

    return _on_rows(builder, call, found, rows, length, str(call.op.name).rpartition(".")[2])


def _reduced_rows(call: Any) -> tuple[int, int]:
    """`_rows` of a reduction, which is of all axes where it names none."""
    axes = call.attrs.axis
    return _rows(call, range(len(call.args[0].ty.shape)) if axes is None else [int(axis) for axis in axes])


def _rows(call: Any, axes: Sequence[int]) -> tuple[int, int]:
    """How many rows the last axes make, and their length; 0 where the axes are others, or the values no binary32."""
    data = call.args[0]
    shape = [int(extent) for extent in data.ty.shape]
    last = sorted(axis % len(shape) for axis in axes) if shape else []
    first = len(shape) - len(last)
    if data.ty.dtype.dtype != "float32" or not last or last != list(range(first, len(shape))):
        return 0, 0
    return math.prod(shape[:first]), math.prod(shape[first:])


def threads_for(values: int) -> int:
    """How many threads share so many values, of those of the target that is compiled for."""
    return int(tvm.target.Target.current().attrs[CORES]) if values >= LEAST_SHARED_RESULTS else 1


def call_written(builder: Any, call: Any, function: Any, shape: tuple[int, ...], name: str) -> Any:
    """A call of a PrimFunc whose data and output have a shape of their own."""
    data = call.args[0]
    taken = builder.normalize(relax.op.reshape(data, shape))
    kernel = builder.add_func(function, name)
    made = builder.emit(relax.call_tir(kernel, [taken], relax.TensorType(shape, data.ty.dtype.dtype)))
    return relax.op.reshape(made, call.ty.shape)


def _on_rows(builder: Any, call: Any, compute: Callable[..., Any], rows: int, length: int, name: str) -> Any:
    data, *others = call.args
    taken = [builder.normalize(relax.op.reshape(data, (rows, length)))]
    taken += [builder.normalize(relax.op.reshape(each, (length,))) for each in others]
    made = builder.emit(builder.call_te(compute, *taken, primfunc_name_hint=name))
    return relax.op.reshape(made, call.ty.shape)
