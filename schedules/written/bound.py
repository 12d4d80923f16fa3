"""Vectors that are computed once, whatever the CPU."""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T


def bind_int32(values: Any) -> Any:
    """A vector of int32 that is computed here, and once."""
    # TVM analyses what is bound, and takes no vectors of int32 there; it does not look into a cast.
    lanes = values.ty.dtype.lanes
    return T.reinterpret(T.Bind(T.reinterpret(values, dtype=f"uint32x{lanes}")), dtype=f"int32x{lanes}")
