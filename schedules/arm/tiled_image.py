"""What the forms of ARM convolutions have in common: an image that is covered by tiles of columns and channels."""

from __future__ import annotations

import math

from int8tune.schedules.image import Image
from int8tune.schedules.tiles import largest_share


class TiledImage:
    """How many tiles there are, and for whom."""

    image: Image
    tile_columns: int
    tile_channels: int
    outer: str
    threads: int

    @property
    def tile_outputs(self) -> int:
        """Output channels of one tile that exist."""
        return min(self.tile_channels, self.image.group_outputs)

    @property
    def channel_tiles(self) -> int:
        """Tiles of one group's output channels."""
        return math.ceil(self.image.group_outputs / self.tile_outputs)

    @property
    def tiles_of_a_row(self) -> int:
        return math.ceil(self.image.output[1] / self.tile_columns)

    @property
    def largest_share(self) -> int:
        """Tiles of the thread that has most of them."""
        rows, channel_tiles = self.image.batch * self.image.output[0], self.image.groups * self.channel_tiles
        return largest_share(self.outer == "weights", self.threads, channel_tiles, rows, self.tiles_of_a_row)
