"""Bytes of 16-bit values, and sums of products with both bytes put together and rounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import tirx

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import OperatorKernel, rounded_alone, stored, values_of
from int8tune.compiler.operator_kernels.pointwise import pointwise
from int8tune.compiler.operators.base import zero_point_of
from int8tune.compiler.operators.word_sums import MOST_STEPS, SUMS, Rounding, WordSums
from int8tune.compiler.program import Array
from int8tune.schedules.epilogue import scale_fixed_point
from int8tune.schedules.target import Target

# 1.5 * 2^52 in binary64, whose sum with a number of less than 2^51 has a last place of 1.
ROUNDER, ROUNDER_BITS = 6755399441055744.0, 0x4338000000000000


def word_byte(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    (data,), output = values_of(graph, operator)
    is_high = operator.attributes["is_high"]
    # The sign bit of what is above the lowest value of a signed type is the other one.
    flipped = 128 if is_high and data.type == "s16" else 0

    def byte(value: Any) -> Any:
        bits = tirx.reinterpret("uint16", value)
        part = tirx.shift_right(bits, tirx.const(8, "uint16")) if is_high else bits
        return tirx.bitwise_xor(part.astype("uint8"), tirx.const(flipped, "uint8"))

    return pointwise([data], output, byte, target)


def word_sums(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """One loop, in binary64, which has no rounding for sums of less than 2^53; in integers where they wrap."""
    values, output = values_of(graph, operator)
    found: WordSums = operator.attributes[SUMS]
    tables = [_shortest(table) for table in _TABLES[found.rounding](found)]

    def made(*each: Any) -> Any:
        sums, bias, entries = each[: len(values)], each[len(values)], each[len(values) + 1 :]
        total = _wrapped(sums, bias) if found.wraps else _exact(sums, bias)
        steps = _STEPS[found.rounding](total, *entries)
        if found.rounding is Rounding.NUMBER:
            return steps.astype("float32")
        return stored(steps + zero_point_of(output), operator, output)

    return pointwise(values, output, made, target, spread=tables)


def _shortest(table: Array) -> Array:
    """One entry where all channels have the same."""
    return np.ascontiguousarray(table[:1] if (table == table[0]).all() else table)


def _exact(sums: Sequence[Any], bias: Any) -> Any:
    *high, low = (each.astype("float64") for each in sums)
    return sum((each * 256.0 for each in high), low) + bias.astype("float64")


def _wrapped(sums: Sequence[Any], bias: Any) -> Any:
    """Cut to 32 bits at last: TVM tells LLVM that sums of 32 bits do not wrap around."""
    *high, low = (each.astype("int64") for each in sums)
    return (sum((each * 256 for each in high), low) + bias.astype("int64")).astype("int32")


def _shift(total: Any, factor: Any, half: Any, unit: Any) -> Any:
    return tirx.floor((total * factor + half) * unit).astype("int32")


def _away(total: Any, factor: Any) -> Any:
    steps = _bounded(total.astype("float64") * factor)
    whole = tirx.trunc(steps)
    return (whole + tirx.trunc((steps - whole) * 2.0)).astype("int32")


def _number(total: Any, factor: Any, offset: Any) -> Any:
    return rounded_alone(total * factor, "float64") + offset


def _even(total: Any, factor: Any, offset: Any) -> Any:
    shifted = _bounded(_number(total, factor, offset)) + ROUNDER
    return (tirx.reinterpret("int64", shifted) - ROUNDER_BITS).astype("int32")


def _bounded(steps: Any) -> Any:
    return tirx.min(tirx.max(steps, float(-MOST_STEPS)), float(MOST_STEPS))


_STEPS: Mapping[Rounding, Callable[..., Any]] = {
    Rounding.SHIFT: _shift,
    Rounding.FIXED: scale_fixed_point,
    Rounding.AWAY: _away,
    Rounding.EVEN: _even,
    Rounding.NUMBER: _number,
}


def _doubles(found: WordSums) -> list[Array]:
    return [found.bias.astype(np.float64), found.factor, found.offset]


# What the steps of each rounding take, behind the bias.
_TABLES: Mapping[Rounding, Callable[[WordSums], list[Array]]] = {
    Rounding.SHIFT: lambda found: [
        found.bias.astype(np.float64),
        found.factor,
        2.0 ** (found.shift - 1),
        2.0**-found.shift,
    ],
    Rounding.FIXED: lambda found: [found.bias, found.factor.astype(np.int32), found.shift.astype(np.int32)],
    Rounding.AWAY: lambda found: [
        found.bias if found.wraps else found.bias.astype(np.float64),
        found.factor,
    ],
    Rounding.EVEN: _doubles,
    Rounding.NUMBER: _doubles,
}
