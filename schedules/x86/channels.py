"""The order in which x86 kernels keep output channels in registers.

Packs narrow four registers of int32 to one of bytes, and interleave them in groups of four values within each 128 bits.
A group of 4, 2 or 1 registers therefore holds its channels so that the packed bytes are in order: of a group of g
registers, lane l of register r has channel `4 * g * (l // 4) + 4 * r + l % 4`.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

PACKED_REGISTERS = 4


def register_groups(registers: int) -> tuple[int, ...]:
    """The groups, widest first, of a tile's registers: 7 are groups of 4, 2 and 1."""
    groups = []
    for size in (4, 2, 1):
        groups += [size] * (registers // size)
        registers %= size
    return tuple(groups)


def channel_order(registers: int, lanes: int) -> npt.NDArray[np.int64]:
    """The channel of each lane, [registers, lanes], counted from the first one of the tile."""
    lane = np.arange(lanes)
    rows: list[npt.NDArray[np.int64]] = []
    for size in register_groups(registers):
        first = len(rows) * lanes
        rows += [first + lane // 4 * 4 * size + 4 * register + lane % 4 for register in range(size)]
    return np.stack(rows)


def tiled_channels(groups: int, group_outputs: int, registers: int, lanes: int) -> npt.NDArray[np.int64]:
    """The output channel of each position of a layer's tiles: [groups * channel tiles * registers * lanes].

    The last tile of a group overlaps its neighbour; a tile that is wider than its group repeats the last channel.
    """
    tile = min(registers * lanes, group_outputs)
    first = np.minimum(np.arange(math.ceil(group_outputs / tile)) * tile, group_outputs - tile)
    within = np.minimum(first[:, None, None] + channel_order(registers, lanes), group_outputs - 1)
    return (np.arange(groups)[:, None, None, None] * group_outputs + within).reshape(-1)
