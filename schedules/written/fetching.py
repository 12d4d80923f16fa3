"""Instructions that bring into the caches what a kernel reads later.

A core's own prefetchers follow what is read one after the other: they know nothing of the block that comes next, and
begin anew with each. Source: T. Mowry, M. Lam, A. Gupta, Design and Evaluation of a Compiler Algorithm for Prefetching,
ASPLOS 1992.
"""

from __future__ import annotations

import math
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.written.accumulators import ON_STACK

CACHE_LINE_BYTES = 64
# How far ahead a stream is fetched: anything from 512 bytes to 4 KiB is as good on Zen 5.
FETCH_AHEAD_BYTES = 2048
# Lines of a tile that are fetched at its beginning; more are spread over its reduction. 2 to 32 are as good on Zen 5.
MOST_LINES_AT_ONCE = 8


def prefetch(buffer: Any, at: Any) -> None:
    """Fetch the cache line of a buffer's byte for reading, into all levels (x86's PREFETCHT0, ARM's PLDL1KEEP).

    Nothing happens where there is no memory.
    """
    read, keep, data = T.int32(0), T.int32(3), T.int32(1)
    T.evaluate(T.call_llvm_intrin("void", "llvm.prefetch", T.address_of(buffer[at]), read, keep, data))


def fetch_ahead(buffer: Any, at: Any, count: int) -> None:
    """Fetch what lies `FETCH_AHEAD_BYTES` behind `count` bytes of a buffer."""
    for line in range(0, count, CACHE_LINE_BYTES):
        prefetch(buffer, at + line + FETCH_AHEAD_BYTES)


class NextBlock:
    """The weights of the next block, line by line, while the tiles of this one are computed.

    A position runs through them, so that the order of the tiles does not matter. Behind the last block there is
    nothing, or what belongs to another thread.
    """

    def __init__(self, weight: Any, block_bytes: int, tiles: int, steps: float) -> None:
        """`tiles` of a block, each of which has so many steps beside which lines are fetched."""
        self._weight, self._block_bytes, self._steps = weight, block_bytes, steps
        self._lines = math.ceil(block_bytes / CACHE_LINE_BYTES / tiles)
        self._position = T.alloc_buffer((1,), "int32", scope="local", annotations=ON_STACK)

    def begin(self, block: Any) -> None:
        """Before the first tile of a block."""
        T.buffer_store(self._position, T.cast(block + 1, "int32") * self._block_bytes, [0])

    def beside_tile(self) -> None:
        if self._lines <= MOST_LINES_AT_ONCE:
            self._fetch(self._lines)

    def beside_steps(self, steps: int) -> None:
        """Before so many steps of a tile's reduction."""
        if self._lines > MOST_LINES_AT_ONCE:
            self._fetch(math.ceil(self._lines * steps / self._steps))

    def _fetch(self, lines: int) -> None:
        for line in range(lines):
            prefetch(self._weight, self._position[0] + line * CACHE_LINE_BYTES)
        T.buffer_store(self._position, self._position[0] + lines * CACHE_LINE_BYTES, [0])
