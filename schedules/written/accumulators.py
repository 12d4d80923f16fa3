"""The sums of a tile: one register each."""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T

# TVM takes buffers from a heap of its own unless they have this annotation. LLVM can't drop stores to the heap: it
# carries the sums of a tile into the next one, in registers that it then lacks. Buffers on the stack become registers;
# if they can't, those of vectors make LLVM align the stack, and with it all registers that are spilled.
ON_STACK = {"disable_lower_builtin": True}


class Accumulators:
    """int32 sums of `columns` times `rows` registers."""

    def __init__(self, columns: int, rows: int, lanes: int) -> None:
        self.rows: int = rows
        self.buffer = T.alloc_buffer((columns * rows,), f"int32x{lanes}", annotations=ON_STACK)

    def __getitem__(self, place: tuple[Any, int]) -> Any:
        return self.buffer[self._index(place)]

    def __setitem__(self, place: tuple[Any, int], value: Any) -> None:
        T.buffer_store(self.buffer, value, [self._index(place)])

    def _index(self, place: tuple[Any, int]) -> Any:
        column, row = place
        return column * self.rows + row
