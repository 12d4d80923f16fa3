"""Tables of 256 entries as arithmetic, where there is some: vectors are computed, entries are looked up one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import tirx

from int8tune.compiler.graph import Value
from int8tune.compiler.operator_kernels.kernel import TYPES, nearest_even
from int8tune.compiler.operators.base import LongArray, every_stored, scale_of
from int8tune.compiler.program import Array
from int8tune.compiler.rounding.lines import lines


def computed_entries(table: Array, data: Value, output: Value) -> Callable[[Any], Any] | None:
    """What computes a stored output of a stored input, both as expressions; None where only the table says it."""
    outputs, inputs = table.astype(np.int64), every_stored(data)
    low, high, made = int(outputs.min()), int(outputs.max()), TYPES[output.type]
    step = step_between(inputs, outputs)
    if step is not None:
        return lambda value: tirx.min(tirx.max(value.astype("int16") + step, low), high).astype(made)
    with np.errstate(all="ignore"):  # scales of a file may be anything
        slope = np.array([scale_of(data)], np.float64) / np.float64(scale_of(output))
    found = lines(inputs, outputs[None], slope)
    if found is None:
        return None
    factor, addend = (tirx.const(float(each[0]), "float32") for each in found)
    return lambda value: on_a_line(value, factor, addend, (low, high), made)


def on_a_line(value: Any, factor: Any, addend: Any, bounds: tuple[int, int], made: str) -> Any:
    """A stored value times a factor plus an addend, rounded once and then half to even, within bounds."""
    product = tirx.call_llvm_pure_intrin("float32", "llvm.fma", value.astype("float32"), factor, addend)
    return tirx.min(tirx.max(nearest_even(product), bounds[0]), bounds[1]).astype(made)


def step_between(inputs: LongArray, outputs: LongArray) -> int | None:
    """A step with `outputs == clip(inputs + step, min(outputs), max(outputs))`."""
    low, high = outputs.min(), outputs.max()
    inside = (outputs > low) & (outputs < high)
    if not inside.any():
        return None
    step = int((outputs - inputs)[inside][0])
    return step if np.array_equal(np.clip(inputs + step, low, high), outputs) else None
