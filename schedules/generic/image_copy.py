"""The copy of an image with its border, which comes before a convolution that has one.

Rows are copied as flat runs of bytes, so that no copy depends on how many channels a pixel has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from int8tune.schedules.tiles import filled_lanes

COPY_BYTES = 64


@dataclass(frozen=True, slots=True)
class ImageCopy:
    """From rows [batch, height, row_length] to rows [batch, padded_height, padded_row_length], the rest pad values.

    Attributes:
        top, left: where the image begins in the padded one.
        used_row_length: values of a padded row that are read; the padded row is longer, a multiple of `COPY_BYTES`.
        repeats: times that each value is written, one after the other.
    """

    batch: int
    height: int
    row_length: int
    padded_height: int
    used_row_length: int
    top: int
    left: int
    repeats: int = 1

    @property
    def needed(self) -> bool:
        changes_size = (self.padded_height, self.used_row_length) != (self.height, self.row_length)
        return changes_size or self.repeats > 1

    @property
    def padded_row_length(self) -> int:
        return math.ceil(self.used_row_length / COPY_BYTES) * COPY_BYTES if self.needed else self.row_length

    @property
    def has_border(self) -> bool:
        """Whether the copied rows leave something to fill."""
        return (self.padded_height, self.padded_row_length) != (self.height, self.row_length)

    @property
    def lanes(self) -> int:
        """Bytes that are copied at a time; the last ones of a row overlap their neighbours."""
        return filled_lanes(COPY_BYTES, self.row_length)

    @property
    def tiles(self) -> int:
        return math.ceil(self.row_length / self.lanes)
