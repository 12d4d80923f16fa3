"""Softmax over one axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import (
    OperatorKernel,
    argument,
    constant,
    function_of,
    nearest_quotient,
    stored,
    values_of,
)
from int8tune.compiler.operator_kernels.softmax_rows import constants_of, rows_of, write_softmax_rows
from int8tune.compiler.operators.base import scale_of, zero_point_of
from int8tune.compiler.operators.fixed_softmax import (
    GUESS,
    GUESS_SLOPE,
    INT32,
    REFINEMENTS,
    SUM_BITS,
    fixed_exponentials,
)
from int8tune.compiler.operators.softmax import WIDTHS, softmax_constants
from int8tune.compiler.program import Array
from int8tune.schedules.target import Target

Row = tuple[Any, ...]


def softmax(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """Exponentials of a table, and their shares of their sum."""
    (data,), output = values_of(graph, operator)
    if operator.rule == "float":
        known = softmax_constants(operator, data, output)
        rows = rows_of(operator, data, output, known, target)
        if rows is not None:
            return OperatorKernel(write_softmax_rows(rows, target), operator.inputs, constants_of(known))
    values, axis = argument("values", data), operator.attributes["axis"]
    rest = tuple(extent for index, extent in enumerate(data.shape) if index != axis) or (1,)

    def value(row: Row, place: Any) -> Any:
        at = (*row[:axis], place, *row[axis:])
        return values[at[: len(data.shape)]].astype("int32")

    along = te.reduce_axis((0, data.shape[axis]))
    largest = te.compute(rest, lambda *row: te.max(value(row, along), axis=along))

    def distance(row: Row, place: Any) -> Any:
        return largest[row] - value(row, place)

    if operator.rule == "fixed":
        tables = fixed_exponentials(float(scale_of(data)), operator.attributes["beta"])
        constants: tuple[Array, Array] = (tables.terms, tables.shares)
    else:
        constants = (known.exponentials, known.numerators)
    terms, exponentials = (constant(name, array) for name, array in zip(("terms", "shares"), constants, strict=True))
    again = te.reduce_axis((0, data.shape[axis]))
    sums = te.compute(rest, lambda *row: te.sum(terms[distance(row, again)], axis=again))
    share = _fixed_share(sums, WIDTHS[output.type]) if operator.rule == "fixed" else _float_share(sums)

    def made(*at: Any) -> Any:
        row = (*at[:axis], *at[axis + 1 :]) or (0,)
        return stored(share(row, exponentials[distance(row, at[axis])]) + zero_point_of(output), operator, output)

    function = function_of([values, terms, exponentials, te.compute(data.shape, made)], target)
    return OperatorKernel(function, operator.inputs, constants)


def _float_share(sums: Any) -> Callable[[Row, Any], Any]:
    """Steps of a numerator over a sum."""
    return lambda row, numerator: nearest_quotient(numerator, sums[row])


def _fixed_share(sums: Any, width: int) -> Callable[[Row, Any], Any]:
    """Steps of an exponential in integers: see `compiler.operators.fixed_softmax`, whose steps these are."""
    rows = tuple(sums.shape)
    # Zeros in front of a sum.
    headroom = te.compute(rows, lambda *row: 32 - sum((sums[row] >> bit > 0).astype("int64") for bit in range(32)))
    half = te.compute(rows, lambda *row: ((_long(sums[row]) << headroom[row]) - (1 << 31) + int(INT32.max) + 1) >> 1)
    guess = te.compute(rows, lambda *row: _long(GUESS) + _high_product(half[row], _long(GUESS_SLOPE)))
    for _ in range(REFINEMENTS):
        guess = _refined(guess, half)

    def share(row: Row, term: Any) -> Any:
        right = _long(SUM_BITS + 31 - width) - headroom[row]
        reciprocal = _saturated(guess[row] << 1)
        return ((_high_product(reciprocal, _long(term)) + (_long(1) << (right - 1))) >> right).astype("int32")

    return share


def _refined(guess: Any, half: Any) -> Any:
    error = te.compute(guess.shape, lambda *row: _long(1 << 29) - _high_product(half[row], guess[row]))
    return te.compute(guess.shape, lambda *row: guess[row] + _saturated(_high_product(guess[row], error[row]) << 2))


def _high_product(one: Any, other: Any) -> Any:
    return (one * other + (1 << 30)) >> 31


def _saturated(value: Any) -> Any:
    return tirx.min(tirx.max(value, int(INT32.min)), int(INT32.max))


def _long(value: Any) -> Any:
    return tirx.const(value, "int64") if isinstance(value, int) else value.astype("int64")
