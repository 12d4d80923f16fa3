"""Operand types of x86 dot products: unsigned data, signed weights."""

from __future__ import annotations

from int8tune.schedules.workload import Workload


def dot_offsets(workload: Workload) -> tuple[int, int]:
    """What turns data into u8 and weights into s8, added to each value."""
    return 128 if workload.numerics.data == "s8" else 0, -128 if workload.numerics.weight == "u8" else 0
