"""Functions of one value of 16 bits, exact: a table of 65,536, which is looked up in an island."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from int8tune.compiler.islands.island import ELEMENTS
from int8tune.compiler.operators import fixed_tables, wide_tables
from int8tune.compiler.tflite_reader.floats.nodes import Nodes
from int8tune.compiler.tflite_reader.operators import RECTIFIERS, stored_bounds
from int8tune.schedules.errors import OperandError

# What is added to a stored value, to count from the least one.
OFFSET = 1 << 15

Table = Callable[[Nodes], Any]


def is_wide_function(at: Nodes) -> bool:
    """Whether an operator makes values of 16 bits of one such value, by a table."""
    data, made = at.value(0), at.outputs[0]
    is_stored = data.quantization is not None and made.quantization is not None
    return (data.type, made.type) == ("s16", "s16") and is_stored and at.step.plain.operator in TABLES


def wide_function(at: Nodes) -> str:
    at.require(len(at) == 1, f"it must have one input: {len(at)}")
    for value in (at.value(0), at.outputs[0]):
        quantization = value.quantization
        fits = quantization is not None and not quantization.per_channel and not quantization.zero_point.any()
        at.require(fits, "its values of 16 bits must have one scale, and 0 as zero point")
    try:
        table = TABLES[at.step.plain.operator](at)
    except OperandError as error:
        at.require(False, str(error))
    place = at.apply("Add", at.apply("Cast", at.as_it_is(0), to=ELEMENTS["s32"]), at.constant(OFFSET, np.int32))
    at.is_finished = True
    return at.apply("Gather", at.constant(table), place, axis=0)


def _of_ends(function: Callable[..., Any]) -> Table:
    return lambda at: function(at.value(0), at.outputs[0])


def _interpolated(function: Callable[[Any], Any]) -> Table:
    return lambda at: wide_tables.interpolated(at.value(0), at.outputs[0], function)


def _fraction(function: Callable[[Any], Any]) -> Table:
    """The table of a function whose outputs LiteRT has in steps of 1/32768."""

    def table(at: Nodes) -> Any:
        quantization = at.outputs[0].quantization
        fits = quantization is not None and abs(float(quantization.scale[0]) * (1 << 15) - 1) < 1e-6
        at.require(fits, "the scale of its output must be 1/32768")
        return function(at.value(0))

    return table


def _rectified(word: str) -> Table:
    def table(at: Nodes) -> Any:
        data, made = at.value(0), at.outputs[0]
        return fixed_tables.rectified(data, made, stored_bounds(made, RECTIFIERS[word]))

    return table


def _leaky(at: Nodes) -> Any:
    return fixed_tables.leaky(at.value(0), at.outputs[0], float(at.options("LeakyRelu").Alpha()))


def _gelu(at: Nodes) -> Any:
    is_approximate = at.options("Gelu").Approximate()
    function = fixed_tables.gelu_tanh if is_approximate else fixed_tables.gelu
    return wide_tables.interpolated(at.value(0), at.outputs[0], function)


def _inverse_root(at: Nodes) -> Any:
    data, made = at.value(0), at.outputs[0]
    return wide_tables.interpolated(data, made, fixed_tables.inverse_root_or_most(made))


def _logarithm(at: Nodes) -> Any:
    data, made = at.value(0), at.outputs[0]
    return wide_tables.interpolated(data, made, fixed_tables.logarithm(data, made))


TABLES: dict[str, Table] = {
    "LOGISTIC": _fraction(wide_tables.sigmoid),
    "TANH": _fraction(wide_tables.tanh),
    "EXP": _interpolated(fixed_tables.exponential),
    "GELU": _gelu,
    "LOG": _logarithm,
    "SQRT": _of_ends(fixed_tables.root),
    "RSQRT": _inverse_root,
    "ABS": _of_ends(fixed_tables.absolute),
    "LEAKY_RELU": _leaky,
    **{word: _rectified(word) for word in RECTIFIERS},
}
