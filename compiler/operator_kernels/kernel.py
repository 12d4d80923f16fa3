"""What the kernels of operators have in common. This module imports TVM."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import te

from compiler.program import Array
from schedules.epilogue import DTYPES
from schedules.target import Target

# Values that are worth a thread's start and its end, which take about a microsecond.
LEAST_VALUES_OF_A_THREAD = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class OperatorKernel:
    """A PrimFunc and its arguments: the values of these names, the constants, then the output."""

    function: Any
    inputs: tuple[str, ...]
    constants: tuple[Array, ...] = ()


def placeholder(name: str, shape: Sequence[int], element: str) -> Any:
    """A TE tensor of one of a graph's element types."""
    return te.placeholder(tuple(shape), dtype=DTYPES.get(element, "float32"), name=name)


def scheduled(arguments: Sequence[Any], target: Target) -> Any:
    """The PrimFunc of TE tensors, the last of them the output, with its outer loop shared among the target's threads."""
    schedule = tvm.s_tir.Schedule(te.create_prim_func([*arguments]))
    if target.threads > 1 and math.prod(int(extent) for extent in arguments[-1].shape) >= LEAST_VALUES_OF_A_THREAD:
        for block in schedule.get_child_blocks(schedule.get_sblock("root")):
            schedule.parallel(schedule.get_loops(block)[0])
    return schedule.mod["main"]
