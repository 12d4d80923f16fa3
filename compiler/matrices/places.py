"""Places in a batch of matrices. This module imports TVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.script.ir_builder import tirx as T


def place_of(turn: Any, batch: Sequence[int], steps: Sequence[int]) -> Any:
    """Where a turn's values begin, each axis of the batch having a step of so many values."""
    first: Any = T.int32(0)
    for extent, step in zip(reversed(batch), reversed(steps), strict=True):
        if step:
            first = first + T.truncmod(turn, extent) * step
        turn = T.truncdiv(turn, extent)
    return T.Bind(first)
