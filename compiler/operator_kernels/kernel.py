"""What the kernels of operators have in common. This module imports TVM."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import te, tirx

from int8tune.compiler.graph import DTYPES, ElementType, Graph, Operator, Value
from int8tune.compiler.operators.base import STORED_RANGES, scale_of
from int8tune.compiler.operators.quantize import MOST_STEPS
from int8tune.compiler.program import Array
from int8tune.compiler.rounding.quotients import reciprocal
from int8tune.schedules.epilogue import ROUNDER, ROUNDER_BITS
from int8tune.schedules.target import Target

TYPES = {name: np.dtype(dtype).name for name, dtype in DTYPES.items()}
"""TVM's names of a graph's element types."""
ELEMENTS: dict[str, ElementType] = {dtype: name for name, dtype in TYPES.items()}  # type: ignore[misc]
"""The other way round."""

# Values that are worth a thread's start and its end, which take about a microsecond: results of some operations each,
# and those of one instruction for a whole vector, which the next kernel has to fetch from the other core's cache.
LEAST_SHARED_RESULTS = 1 << 15
LEAST_SHARED_VALUES = 1 << 17
# As `ROUNDER` for float64: the unit in the last place of a sum with it is 1.
ROUNDER_64, ROUNDER_64_BITS = 6755399441055744.0, 0x4338000000000000
# Values of a vector, where the last axis is made of such: four bytes each before they are stored.
LANES = 16


@dataclass(frozen=True, slots=True, eq=False)
class OperatorKernel:
    """A PrimFunc and its arguments: the values of these names, the constants, then the output."""

    function: Any
    inputs: tuple[str, ...]
    constants: tuple[Array, ...] = ()


Writer = Callable[[Graph, Operator, Target], OperatorKernel]


def values_of(graph: Graph, operator: Operator) -> tuple[list[Value], Value]:
    """The inputs of an operator, and its output."""
    return [graph.values[name] for name in operator.inputs], graph.values[operator.outputs[0]]


def argument(name: str, value: Value) -> Any:
    """A tensor of TE for a value of the graph."""
    return te.placeholder(value.shape, dtype=TYPES[value.type], name=name)


def spread(value: Value, at: tuple[Any, ...]) -> tuple[Any, ...]:
    """The place in a value of a place in an output that it is spread over, along axes of extent 1."""
    own = at[len(at) - len(value.shape) :]
    return tuple(0 if extent == 1 else place for extent, place in zip(value.shape, own, strict=True))


def constant(name: str, array: Array) -> Any:
    """A tensor of TE for an array that is passed as a constant."""
    return te.placeholder(array.shape, dtype=str(array.dtype), name=name)


def function_of(arguments: Sequence[Any], target: Target) -> Any:
    """The PrimFunc of tensors of TE, the last of them the output, its outer loops shared among the target's threads."""
    schedule = tvm.s_tir.Schedule(te.create_prim_func([*arguments]))
    shared = math.prod(int(extent) for extent in arguments[-1].shape) >= LEAST_SHARED_RESULTS
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        axes = schedule.get_loops(block)
        spatial = len(schedule.get(block).writes[0].region)
        if axes and len(axes) == spatial and int(schedule.get(axes[-1]).extent) % LANES == 0:
            *axes, last = axes
            around, lanes = schedule.split(last, [None, LANES])
            schedule.vectorize(lanes)
            axes.append(around)
        if target.threads > 1 and shared:
            # Images of one batch have their rows on the second axis.
            schedule.parallel(schedule.fuse(*axes[: min(spatial, 2)]))
    return schedule.mod["main"]


def stored(value: Any, operator: Operator, output: Value) -> Any:
    """An int32 within the operator's bounds, as the output's type."""
    low, high = operator.clamp or STORED_RANGES[output.type]
    return tirx.min(tirx.max(value, low), high).astype(TYPES[output.type])


def bounded(value: Any) -> Any:
    """A float32 that becomes an int32 as it should: steps beyond every stored value are all the same."""
    most = tirx.const(MOST_STEPS, "float32")
    return tirx.min(tirx.max(value, -most), most)


def in_steps(real: Any, output: Value) -> Any:
    """A float32 over an output's scale, `bounded`: not always the quotient, but the nearest integer is the same."""
    scale, (low, high) = scale_of(output), STORED_RANGES[output.type]
    found = reciprocal(scale, high - low + 1)  # wherever the zero point is
    if found is None:
        return bounded(real / tirx.const(float(scale), "float32"))
    most = tirx.const(float(scale) * MOST_STEPS, "float32")
    within = tirx.min(tirx.max(real, -most), most)
    factor, rest = (tirx.const(float(each), "float32") for each in found)
    return tirx.call_llvm_pure_intrin("float32", "llvm.fma", within, factor, within * rest)


def nearest_even(value: Any) -> Any:
    """A float32 of less than 2^22 as the next int32, halves to even.

    The unit in the last place of the sum with `ROUNDER` is 1. TVM has no vector form of `nearbyint`.
    """
    return tirx.reinterpret("int32", value + tirx.const(ROUNDER, "float32")) - ROUNDER_BITS


def nearest_quotient(numerator: Any, denominator: Any) -> Any:
    """A float64 over a float32, both from 0 on, as the next int32, halves to even; all beyond `MOST_STEPS` are that."""
    quotient = numerator / tirx.Cast("float64", denominator)
    return nearest_whole(tirx.min(quotient, tirx.const(MOST_STEPS, "float64")))


def nearest_whole(value: Any) -> Any:
    """A float64 within the range of int32 as the next int32, halves to even."""
    bits = tirx.reinterpret("int64", value + tirx.const(ROUNDER_64, "float64"))
    return tirx.Cast("int32", bits - tirx.const(ROUNDER_64_BITS, "int64"))


def nearest_away(value: Any) -> Any:
    """A float32 as the next int32, halves away from zero; the part behind the point is exact."""
    whole = tirx.trunc(value)
    rest = value - whole
    step = tirx.Select(rest >= 0.5, 1, tirx.Select(rest <= -0.5, -1, 0))
    return whole.astype("int32") + step


def with_sign_of(total: Any, magnitude: Any) -> Any:
    """An int32 from 0 on with the sign of another one: products with 1 or -1 got the other one in vectors of SSE2."""
    sign = tirx.shift_right(total, 31)
    return tirx.bitwise_xor(magnitude, sign) - sign


def rounded_alone(value: Any, dtype: str = "float32") -> Any:
    """A number that is rounded before anything is added to it: LLVM may fuse a product and a sum otherwise."""
    return tirx.call_llvm_pure_intrin(dtype, "llvm.arithmetic.fence", value)
