"""SOFTMAX of 16-bit values, exact: exponentials and reciprocals are tables, sums and products binary64 has all of.

Source: SoftmaxInt16 in internal/reference/softmax.h of TensorFlow Lite.
"""

from __future__ import annotations

import numpy as np

from int8tune.compiler.islands.island import ELEMENTS
from int8tune.compiler.operators.base import scale_of, symmetric_fault
from int8tune.compiler.operators.wide_tables import HIGH, LOW, softmax_exponentials, softmax_reciprocals
from int8tune.compiler.tflite_reader.floats.nodes import Nodes
from int8tune.schedules.errors import OperandError

# Sums of exponentials as Q0 have at least 15 bits, as one of them is nearly 1, and at most 31.
LEAST_BITS, MOST_BITS = 14, 30
MOST_VALUES = 1 << 16
# A sum as Q0 becomes one of 17 bits, of which the first is 1.
SUM_BITS = 16


def is_wide_softmax(at: Nodes) -> bool:
    data, made = at.value(0), at.outputs[0]
    is_stored = data.quantization is not None and made.quantization is not None
    return at.step.plain.operator == "SOFTMAX" and (data.type, made.type) == ("s16", "s16") and is_stored


def wide_softmax(at: Nodes) -> str:
    data, made = at.value(0), at.outputs[0]
    wrong = symmetric_fault(data, made)
    at.require(wrong is None, wrong or "")
    at.require(abs(float(scale_of(made)) * (1 << 15) - 1) < 1e-3, "the scale of its output must be 1/32768")
    at.require(len(data.shape) >= 1 and data.shape[-1] <= MOST_VALUES, f"its rows must have 1 to {MOST_VALUES} values")
    try:
        table = softmax_exponentials(scale_of(data), np.float32(at.options("Softmax").Beta()))
    except OperandError as error:
        at.require(False, str(error))
    shares = _exponentials(at, table)
    total = at.apply("ReduceSum", shares, at.places([-1]), keepdims=1)
    steps = _half_up(at, at.apply("Mul", shares, _factor(at, total, _bits(at, total))))
    at.is_finished = True
    ends = at.constant(0.0, np.float64), at.constant(float(HIGH), np.float64)
    return at.in_16_bits(at.apply("Clip", steps, *ends))


def _exponentials(at: Nodes, table: np.ndarray) -> str:
    """Exponentials of values less the largest one of their row."""
    values = at.apply("Cast", at.as_it_is(0), to=ELEMENTS["s32"])
    below = at.apply("Sub", values, at.apply("ReduceMax", values, at.places([-1]), keepdims=1))
    place = at.apply("Add", below, at.constant(HIGH - LOW, np.int32))
    return at.apply("Gather", at.constant(table.astype(np.float64)), place, axis=0)


def _bits(at: Nodes, total: str) -> str:
    """How many bits sums have behind the first one, less the least number of these."""
    powers = at.constant(2.0 ** np.arange(LEAST_BITS + 1, MOST_BITS + 1))
    # Sums have an axis of one value, which becomes one for each power.
    is_above = at.apply("Cast", at.apply("GreaterOrEqual", total, powers), to=ELEMENTS["s32"])
    return at.apply("ReduceSum", is_above, at.places([-1]), keepdims=1)


def _factor(at: Nodes, total: str, bits: str) -> str:
    """What exponentials are multiplied by: a reciprocal of their sum, as if it were from 1 to 2, and a power of two."""
    spread = np.arange(LEAST_BITS, MOST_BITS + 1)
    raises, units = (at.apply("Gather", at.constant(2.0**each), bits, axis=0) for each in (SUM_BITS - spread, -spread))
    sums = _half_up(at, at.apply("Mul", total, raises))
    above = at.apply("Sub", sums, at.constant(float(1 << SUM_BITS), np.float64))
    ends = at.constant(0.0, np.float64), at.constant(float(HIGH - LOW), np.float64)
    place = at.apply("Cast", at.apply("Clip", above, *ends), to=ELEMENTS["s64"])
    reciprocal = at.apply("Gather", at.constant(softmax_reciprocals().astype(np.float64)), place, axis=0)
    # The sum of one value is a kernel of its own: others would look it up for each value of a row.
    return at.apply("ReduceSum", at.apply("Mul", reciprocal, units), at.places([-1]), keepdims=1)


def _half_up(at: Nodes, name: str) -> str:
    return at.apply("Floor", at.apply("Add", name, at.constant(0.5, np.float64)))
