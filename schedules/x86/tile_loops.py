"""The loops over the tiles of an x86 convolution."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.image import Image
from int8tune.schedules.written.rows import repeat, share
from int8tune.schedules.x86.conv_form import ColumnTiles


@dataclass(frozen=True, slots=True)
class Tile:
    """One register tile: channel tile `k` of the columns from `x` on, and the rows from `y` on, of image `n`."""

    columns: ColumnTiles
    k: Any
    n: Any
    y: Any
    x: Any


class TiledForm(Protocol):
    """What the loops need of a form."""

    @property
    def image(self) -> Image: ...
    @property
    def output(self) -> tuple[int, int]: ...
    @property
    def column_tiles(self) -> tuple[ColumnTiles, ...]: ...
    @property
    def channel_tiles(self) -> int: ...
    @property
    def tile_columns(self) -> int: ...
    @property
    def tile_rows(self) -> int: ...
    @property
    def outer(self) -> str: ...
    @property
    def threads(self) -> int: ...


@dataclass(frozen=True, slots=True)
class TileLoops:
    """Emits all tiles of a form.

    Attributes:
        channel_tiles: of all groups.
        begin: emits what a thread needs for the tiles of its turns (first, behind) of the outer loop.
        tile: emits a tile.
        end: emits what is left to do after the last tile of a turn.
        begins_once: whether a thread begins and ends once, and not in each of its turns.
    """

    form: TiledForm
    channel_tiles: int
    begin: Callable[[Any, Any], None]
    tile: Callable[[Tile], None]
    end: Callable[[], None]
    begins_once: bool = False

    def emit(self) -> None:
        if self.form.outer == "weights":
            self._weights_outside()
        else:
            self._image_outside()

    def _weights_outside(self) -> None:
        """All rows of all images for one tile of channels after the other; threads share the channels."""

        def channels(k: Any) -> None:
            repeat(self.rows, lambda row: self._tiles_of_row(lambda columns, x: self._emit(columns, k, row, x)))

        self._share(self.channel_tiles, channels)

    def _image_outside(self) -> None:
        """All channels for one tile of the image after the other; threads share rows, or the tiles of the only row."""

        def channels(columns: ColumnTiles, row: Any, x: Any) -> None:
            repeat(self.channel_tiles, lambda k: self._emit(columns, k, row, x))

        if self.rows > 1:
            self._share(self.rows, lambda row: self._tiles_of_row(lambda columns, x: channels(columns, row, x)))
            return
        for columns in self.form.column_tiles:
            self._share(columns.count, partial(self._tile_of_only_row, columns, channels))

    def _tile_of_only_row(
        self, columns: ColumnTiles, emit: Callable[[ColumnTiles, Any, Any], None], index: Any
    ) -> None:
        emit(columns, 0, self.start(columns, index))

    def _share(self, count: int, body: Callable[[Any], None]) -> None:
        """The outer loop, whose turns threads share; what they need is begun in each turn, or once in each thread."""

        def turn(index: Any) -> None:
            self.begin(index, index + 1)
            body(index)
            self.end()

        def turns(first: Any, behind: Any) -> None:
            self.begin(first, behind)
            with T.serial(first, behind) as index:
                body(index)
            self.end()

        threads = min(self.form.threads, count)
        if not self.begins_once:
            share(count, self.form.threads, turn)
        elif threads == 1:
            turns(0, count)
        else:
            with T.parallel(0, threads) as thread:
                turns(thread * count // threads, (thread + 1) * count // threads)

    @property
    def rows(self) -> int:
        """Rows of tiles, of all images."""
        return self.form.image.batch * self._image_rows

    @property
    def _image_rows(self) -> int:
        return math.ceil(self.form.output[0] / self.form.tile_rows)

    def _tiles_of_row(self, emit: Callable[[ColumnTiles, Any], None]) -> None:
        def tile(columns: ColumnTiles, index: Any) -> None:
            emit(columns, self.start(columns, index))

        for columns in self.form.column_tiles:
            repeat(columns.count, partial(tile, columns))

    def start(self, columns: ColumnTiles, index: Any) -> Any:
        """The column where a tile of a row begins; the last one of a row may overlap its neighbour."""
        start = columns.first + index * self.form.tile_columns
        overlaps = columns.first + (columns.count - 1) * self.form.tile_columns > columns.last
        return T.min(start, columns.last) if overlaps else start

    def _emit(self, columns: ColumnTiles, k: Any, row: Any, x: Any) -> None:
        self.tile(Tile(columns, k, *self.image_row(row), x))

    def image_row(self, row: Any) -> tuple[Any, Any]:
        """The image, and its row, where a row of tiles begins; the last one may overlap its neighbour."""
        n, index = (row // self._image_rows, row % self._image_rows) if self.form.image.batch > 1 else (0, row)
        height, rows = self.form.output[0], self.form.tile_rows
        start = index * rows
        return n, T.min(start, height - rows) if height % rows else start
