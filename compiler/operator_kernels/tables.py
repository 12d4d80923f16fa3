"""Tables of 256 entries as arithmetic, where there is some: vectors are computed, entries are looked up one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import tirx

from int8tune.compiler.graph import Value
from int8tune.compiler.operator_kernels.kernel import TYPES, nearest_even
from int8tune.compiler.operators.base import LongArray, every_stored, scale_of, zero_point_of
from int8tune.compiler.operators.quantize import MOST_STEPS
from int8tune.compiler.program import Array

# Tried beside the exact addend of a linear table, in units of this: ties of rounding are to be met.
ADDEND_UNIT = 2.0**-20
ADDEND_STEPS = sorted(range(-64, 65), key=abs)


def computed_entries(table: Array, data: Value, output: Value) -> Callable[[Any], Any] | None:
    """What computes a stored output of a stored input, both as expressions; None where only the table says it."""
    outputs, inputs = table.astype(np.int64), every_stored(data)
    low, high, made = int(outputs.min()), int(outputs.max()), TYPES[output.type]
    step = step_between(inputs, outputs)
    if step is not None:
        return lambda value: tirx.min(tirx.max(value.astype("int16") + step, low), high).astype(made)
    factors = linear_factors(inputs, outputs, data, output)
    if factors is None:
        return None
    factor, addend = (tirx.const(float(each), "float32") for each in factors)

    def linear(value: Any) -> Any:
        product = tirx.call_llvm_pure_intrin("float32", "llvm.fma", value.astype("float32"), factor, addend)
        return tirx.min(tirx.max(nearest_even(product), low), high).astype(made)

    return linear


def step_between(inputs: LongArray, outputs: LongArray) -> int | None:
    """A step with `outputs == clip(inputs + step, min(outputs), max(outputs))`."""
    low, high = outputs.min(), outputs.max()
    inside = (outputs > low) & (outputs < high)
    if not inside.any():
        return None
    step = int((outputs - inputs)[inside][0])
    return step if np.array_equal(np.clip(inputs + step, low, high), outputs) else None


@np.errstate(all="ignore")  # scales of a file may be anything
def linear_factors(
    inputs: LongArray, outputs: LongArray, data: Value, output: Value
) -> tuple[np.float32, np.float32] | None:
    """Factor and addend of a fused multiply-add whose rounded values, within bounds, are the outputs, all of them."""
    factor = np.float32(np.float64(scale_of(data)) / np.float64(scale_of(output)))
    exact = zero_point_of(output) - np.float64(factor) * zero_point_of(data)
    low, high = outputs.min(), outputs.max()
    for step in ADDEND_STEPS:
        addend = np.float32(exact + step * ADDEND_UNIT)
        # 64-bit numbers hold the product and the sum whole.
        values = (inputs * np.float64(factor) + np.float64(addend)).astype(np.float32)
        if not (np.abs(values) <= MOST_STEPS).all():
            return None  # beyond what a kernel can convert to integers
        if np.array_equal(np.clip(np.rint(values), low, high), outputs):
            return factor, addend
    return None
