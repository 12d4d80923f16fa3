"""How kernels of islands run: chains of operators in one pass over their values. This module imports TVM."""

from __future__ import annotations

from typing import Any

import tvm


def scheduled(function: Any) -> Any:
    """A PrimFunc whose values between two loops are computed where they are read, if they are cheap."""
    schedule = tvm.s_tir.Schedule(function)
    return schedule.mod["main"]
