"""Sums, differences and products of values of 16 bits."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import OperatorKernel, stored, values_of
from int8tune.compiler.operator_kernels.pointwise import pointwise
from int8tune.compiler.operators.word_arithmetic import MULTIPLY, SUBTRACT, TERM_SHIFT, word_factors
from int8tune.schedules.epilogue import scale_down, scale_fixed_point
from int8tune.schedules.target import Target


def word_arithmetic(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    values, output = values_of(graph, operator)
    factors, operation = word_factors(operator, values, output), operator.attributes["operation"]

    def factor(at: int) -> tuple[Any, Any]:
        return tirx.const(factors.multiplier[at]), tirx.const(factors.shift[at])

    def term(value: Any, at: int) -> Any:
        if factors.right is not None:
            return _shifted(value, factors.right[at])
        return scale_down(value << TERM_SHIFT, *factor(at))

    def made(*stored_values: Any) -> Any:
        one, other = (each.astype("int32") for each in stored_values)
        if operation == MULTIPLY:
            return stored(scale_fixed_point(one * other, *factor(0)), operator, output)
        terms = term(one, 0), term(other, 1)
        total = terms[0] - terms[1] if operation == SUBTRACT else terms[0] + terms[1]
        return stored(total if factors.right is not None else scale_down(total, *factor(2)), operator, output)

    return pointwise(values, output, made, target)


def _shifted(value: Any, bits: int) -> Any:
    """Divided by a power of two, halves away from zero: below it, by one less than a half is added."""
    if not bits:
        return value
    half = (1 << bits) >> 1
    return tirx.shift_right(value + half + tirx.shift_right(value, 31), tirx.const(bits))
