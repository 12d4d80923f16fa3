"""The loops over the tiles of an ARM kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arm.tiling import HEADER_BYTES
from int8tune.schedules.written.rows import repeat, share


class TileWriter(Protocol):
    """What emits a kernel's tiles."""

    def begin(self) -> None:
        """Emit what the tiles of one turn of the outer loop need."""

    def tile(self, k: Any, row: Any, index: Any) -> None:
        """Emit a tile: channel tile `k` of the tile with this index in a row of all images' rows."""


def emit_tiles(channels_outside: bool, counts: tuple[int, int, int], threads: int, writer: TileWriter) -> None:
    """Emit the loops over channel tiles, rows and tiles of a row; threads share the outer one.

    Args:
        channels_outside: all tiles of the image for one tile of channels after the other, and not the other way.
        counts: of channel tiles, rows and tiles of a row.
    """
    channel_tiles, rows, tiles_of_a_row = counts

    def of_channels(k: Any) -> None:
        writer.begin()
        repeat(rows, lambda row: repeat(tiles_of_a_row, lambda index: writer.tile(k, row, index)))

    def of_row(row: Any) -> None:
        writer.begin()
        repeat(tiles_of_a_row, lambda index: repeat(channel_tiles, lambda k: writer.tile(k, row, index)))

    def of_only_row(index: Any) -> None:
        writer.begin()
        repeat(channel_tiles, lambda k: writer.tile(k, 0, index))

    if channels_outside:
        share(channel_tiles, threads, of_channels)
    elif rows > 1:
        share(rows, threads, of_row)
    else:
        share(tiles_of_a_row, threads, of_only_row)


def emit_parts(weight: Any, tile_at: Any, part_bytes: int, is_split: bool, body: Callable[[Any, Any], None]) -> None:
    """Emit the products of each part of a tile's weights: body(index of the part's first byte, zero).

    That zero is to be added to the index of the data. It comes from the tile's header, another one for each part: LLVM
    would load all data before the first part, for both, and has too few registers for it.
    """
    if not is_split:
        body(tile_at + HEADER_BYTES, 0)
        return

    def from_header(index: Any) -> Any:
        return T.cast(T.reinterpret(weight[tile_at + index], dtype="uint8"), "int32")

    with T.serial(0, 1 + from_header(0)) as part:
        body(tile_at + HEADER_BYTES + part * part_bytes, T.Bind(from_header(1 + part)))
