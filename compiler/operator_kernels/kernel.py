"""What the kernels of operators have in common. This module imports TVM."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import te, tirx

from compiler.graph import Graph, Operator, Value
from compiler.program import Array
from schedules.numerics import RANGES
from schedules.target import Target

TYPES = {"f32": "float32", "u8": "uint8", "s8": "int8", "s16": "int16", "s32": "int32", "s64": "int64"}
# Values that are worth a thread's start and its end, which take about a microsecond.
LEAST_SHARED_VALUES = 1 << 15


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


def constant(name: str, array: Array) -> Any:
    """A tensor of TE for an array that is passed as a constant."""
    return te.placeholder(array.shape, dtype=str(array.dtype), name=name)


def function_of(arguments: Sequence[Any], target: Target) -> Any:
    """The PrimFunc of tensors of TE, the last of them the output, its outer loops shared among the target's threads."""
    schedule = tvm.s_tir.Schedule(te.create_prim_func([*arguments]))
    if is_worth_threads(arguments[-1].shape, target):
        for block in schedule.get_child_blocks(schedule.get_sblock("root")):
            # Images of one batch have their rows on the second axis.
            spatial = len(schedule.get(block).writes[0].region)
            schedule.parallel(schedule.fuse(*schedule.get_loops(block)[: min(spatial, 2)]))
    return schedule.mod["main"]


def is_worth_threads(shape: Sequence[Any], target: Target) -> bool:
    """Whether a kernel with an output of this shape shares its loop among the target's threads."""
    return target.threads > 1 and math.prod(int(extent) for extent in shape) >= LEAST_SHARED_VALUES


def stored(value: Any, operator: Operator, output: Value) -> Any:
    """An int32 within the operator's bounds, as the output's type."""
    low, high = operator.clamp or RANGES[output.type]
    return converted(tirx.min(tirx.max(value, low), high), TYPES[output.type])


def converted(value: Any, dtype: str) -> Any:
    """A value, or each of a vector, as another type."""
    return value.astype(vector_type(dtype, value.ty.dtype.lanes))


def vector_type(dtype: str, lanes: int) -> str:
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def nearest_even(value: Any) -> Any:
    """A float32 as the next int32, halves to even."""
    return converted(tirx.nearbyint(value), "int32")


def nearest_away(value: Any) -> Any:
    """A float32 as the next int32, halves away from zero; the part behind the point is exact."""
    whole = tirx.trunc(value)
    rest = value - whole
    step = tirx.Select(rest >= 0.5, 1, tirx.Select(rest <= -0.5, -1, 0))
    return whole.astype("int32") + step


def rounded_alone(value: Any) -> Any:
    """A float32 that is rounded before anything is added to it: LLVM may fuse a product and a sum otherwise."""
    return tirx.call_llvm_pure_intrin(vector_type("float32", value.ty.dtype.lanes), "llvm.arithmetic.fence", value)
