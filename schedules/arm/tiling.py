"""What the forms of ARM kernels share: tiles of channels, and weights that are split where two products don't fit.

A product of -128 and -128 takes 16 bits but for one value, and two of them don't fit. So a weight of -128 becomes the
sum of -127 and -1. The first addends of a tile's weights are one part, the second ones another, of which the tile's
header says whether it is to be multiplied at all.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

LANES, HALF_BYTES, REGISTER_BYTES = 4, 8, 16
# The least weight of which two products with any data fit 16 bits.
LEAST_PAIRED = -127
# In front of each tile's weights, so that they begin where registers may be loaded from; the first byte counts the
# parts that follow beyond the first.
HEADER_BYTES = REGISTER_BYTES


def tiled_channels(groups: int, group_outputs: int, tile: int) -> npt.NDArray[np.int64]:
    """The output channel of each position of a layer's tiles: [groups * channel tiles * tile].

    The last tile of a group overlaps its neighbour; a tile that is wider than its group repeats the last channel.
    """
    outputs = min(tile, group_outputs)
    first = np.minimum(np.arange(math.ceil(group_outputs / outputs)) * outputs, group_outputs - outputs)
    within = np.minimum(first[:, None] + np.arange(tile), group_outputs - 1)
    return (np.arange(groups)[:, None, None] * group_outputs + within).reshape(-1)


def split_weights(tiles: npt.NDArray[np.int16]) -> npt.NDArray[np.int8]:
    """Tiles of s8 weights [tiles, values] in two parts, behind their headers."""
    first: npt.NDArray[np.int16] = np.maximum(tiles, LEAST_PAIRED)
    rest = tiles - first
    is_split: npt.NDArray[np.bool_] = (rest != 0).any(axis=1)
    return with_headers(np.concatenate([first, rest], axis=1).astype(np.int8), is_split.astype(np.int8))


def with_headers(tiles: npt.NDArray[np.int8], first_byte: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Tiles [tiles, bytes], each behind a header that begins with a byte of its own."""
    headers = np.zeros((len(tiles), HEADER_BYTES), np.int8)
    headers[:, 0] = first_byte
    return np.concatenate([headers, tiles], axis=1).reshape(-1)
