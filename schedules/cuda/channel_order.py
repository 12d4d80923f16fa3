"""Which channels a thread of a GPU has, and where weights lie for it: of products of matrices, whoever copies the data.

A thread has runs of neighbouring channels, each of which it stores at once. Runs of the four threads that share a row
lie beside each other, so that together they write whole sectors of memory. The rows of weights in shared memory are in
the order in which the products give a thread such channels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

CHUNK_BYTES = 16
# Channels of a warp for each of a thread's, where matrix instructions spread them over its lanes.
WARP_CHANNELS = 4


def swizzled(row: Any, chunk: Any, chunks: int) -> Any:
    """Where a chunk of a row is, among the row's `chunks` (2, 4 or 8): all banks for 8 neighbouring rows."""
    if isinstance(row, int):
        return chunk ^ (row % 8 * chunks // 8)
    from tvm.script.ir_builder import tirx as T

    turn = T.truncdiv(T.bitwise_and(row, 7), 8 // chunks) if chunks < 8 else T.bitwise_and(row, 7)
    return T.bitwise_xor(chunk, turn)


def spread(channel: int, run: int) -> int:
    """From a thread's first channel to another one of its channels, in the tile."""
    number, within = divmod(channel, run)
    return number * WARP_CHANNELS * run + within


def row_of_channel(channel: int, thread_channels: int, run: int) -> int:
    """The row of weights in shared memory that has a channel of the tile."""
    warp, of_warp = divmod(channel, WARP_CHANNELS * thread_channels)
    number, of_lanes = divmod(of_warp, WARP_CHANNELS * run)
    lane, within = divmod(of_lanes, run)
    within += number * run
    return warp * WARP_CHANNELS * thread_channels + within // 2 * 8 + 2 * lane + within % 2


def packed(
    deep: npt.NDArray[np.integer[Any]], block_channels: int, block_depth: int, row_of: Callable[[int], int]
) -> npt.NDArray[np.int8]:
    """Weights [positions, steps * block depth] as [channel tiles, steps, rows, chunks, 16], flat."""
    chunks = block_depth // CHUNK_BYTES
    tiles = deep.reshape(-1, block_channels, deep.shape[1] // block_depth, chunks, CHUNK_BYTES)
    result = np.empty_like(tiles)
    for channel in range(block_channels):
        row = row_of(channel)
        order = [swizzled(row, chunk, chunks) for chunk in range(chunks)]
        result[:, row][:, :, order] = tiles[:, channel]
    return np.ascontiguousarray(result.transpose(0, 2, 1, 3, 4)).reshape(-1).view(np.int8)
