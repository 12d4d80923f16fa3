"""Sizes of tiles along one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence


def tile_sizes(extent: int, largest: int) -> tuple[int, ...]:
    """For each possible number of tiles the smallest tile that gives it: larger ones only overlap more."""
    counts = {math.ceil(extent / size) for size in range(1, largest + 1)}
    return tuple(sorted({math.ceil(extent / count) for count in counts}))


def largest_share(channels_outside: bool, threads: int, channel_tiles: int, rows: int, tiles_of_a_row: int) -> int:
    """Tiles of the thread that has most of them; threads share the outer loop."""
    if channels_outside:
        return math.ceil(channel_tiles / threads) * rows * tiles_of_a_row
    if rows > 1:
        return math.ceil(rows / threads) * tiles_of_a_row * channel_tiles
    return math.ceil(tiles_of_a_row / threads) * channel_tiles


def nearest_tile(sizes: Sequence[int], wanted: int) -> int:
    """The size nearest to the wanted one, the smaller of two."""
    return min(sizes, key=lambda size: (abs(size - wanted), size))


def filled_lanes(lanes: int, channels: int) -> int:
    """The widest vector of at most `lanes` values, halved until the channels fill it."""
    while lanes > channels:
        lanes //= 2
    return lanes
