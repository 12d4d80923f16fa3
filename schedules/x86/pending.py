"""Software pipelining: the sums of a tile are stored while the next one's are computed.

A tile's dot products and the instructions that turn its sums into bytes need different units of a core, but those of
one tile depend on each other, and a core looks ahead by some hundred instructions only. So instructions of two tiles
alternate (M. Lam, Software Pipelining, PLDI 1988). LLVM orders the instructions of a basic block as it likes; a
condition before each part of the last tile keeps the parts between the dot products that they are to be between.
"""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.written.accumulators import ON_STACK, Accumulators


class PendingPlace:
    """How much of the last tile waits, and where it goes: so many numbers say the place."""

    def __init__(self, numbers: int = 2) -> None:
        self.state = T.alloc_buffer((1 + numbers,), "int32", scope="local", annotations=ON_STACK)
        self._numbers = numbers
        T.buffer_store(self.state, T.int32(0), [0])

    def put(self, count: Any, *place: Any) -> None:
        """Let `count` parts wait, or none."""
        for index, value in enumerate((count, *place)):
            T.buffer_store(self.state, T.cast(value, "int32"), [index])

    @property
    def count(self) -> Any:
        return self.state[0]

    @property
    def place(self) -> tuple[Any, ...]:
        return tuple(self.state[1 + index] for index in range(self._numbers))


class PendingTile(PendingPlace):
    """The sums of the last tile, whose columns wait; its place is its channel tile and its first output."""

    def __init__(self, columns: int, rows: int, lanes: int) -> None:
        self.columns = columns
        self.sums = Accumulators(columns, rows, lanes)
        super().__init__()

    def take(self, sums: Accumulators, k: Any, at: Any) -> None:
        """Keep a tile's sums."""
        for column in range(self.columns):
            for row in range(sums.rows):
                self.sums[column, row] = sums[column, row]
        self.put(self.columns, k, at)
