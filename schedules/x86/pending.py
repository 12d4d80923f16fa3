"""Software pipelining: the sums of a tile are stored while the next one's are computed.

A tile's dot products and the instructions that turn its sums into bytes need different units of a core, but those of
one tile depend on each other, and a core looks ahead by some hundred instructions only. So instructions of two tiles
alternate (M. Lam, Software Pipelining, PLDI 1988). LLVM orders the instructions of a basic block as it likes; a
condition before each part of the last tile keeps the parts between the dot products that they are to be between.
"""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T

from schedules.x86.accumulators import ON_STACK, Accumulators

# Of the state: how many parts wait, their channel tile, the index of their first output.
COUNT, CHANNEL_TILE, OUTPUT = range(3)


class PendingPlace:
    """How much of the last tile waits, and where it goes."""

    def __init__(self) -> None:
        self.state = T.alloc_buffer((3,), "int32", scope="local", annotations=ON_STACK)
        T.buffer_store(self.state, T.int32(0), [COUNT])

    def put(self, count: int, k: Any, at: Any) -> None:
        """Let `count` parts wait."""
        for index, value in ((COUNT, T.int32(count)), (CHANNEL_TILE, k), (OUTPUT, at)):
            T.buffer_store(self.state, value, [index])

    @property
    def count(self) -> Any:
        return self.state[COUNT]

    @property
    def place(self) -> tuple[Any, Any]:
        """The channel tile, and the index of the first output."""
        return self.state[CHANNEL_TILE], self.state[OUTPUT]


class PendingTile(PendingPlace):
    """The sums of the last tile; its columns wait."""

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
