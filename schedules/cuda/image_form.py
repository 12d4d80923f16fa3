"""What the forms of kernels on an image share, however they multiply."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.border import BorderClasses, axis_classes, taps_of_both
from int8tune.schedules.cuda.channel_order import CHUNK_BYTES
from int8tune.schedules.image import Image


class ImageForm:
    """What a kernel knows of its image, whatever it does with it."""

    image: Image

    @property
    def image_bytes(self) -> int:
        return self.image.batch * self.image.height * self.image.width * self.image.channels

    @property
    def row_classes(self) -> BorderClasses:
        return axis_classes(self.image.window, 0, self.image.height, self.image.output[0])

    @property
    def column_classes(self) -> BorderClasses:
        return axis_classes(self.image.window, 1, self.image.width, self.image.output[1])

    @property
    def border_taps(self) -> npt.NDArray[np.bool_]:
        return taps_of_both(self.row_classes[1], self.column_classes[1])

    @property
    def border_classes(self) -> int:
        """As many as `border_taps` has."""
        return len(self.row_classes[1]) * len(self.column_classes[1])

    def items_at_once(self, thread_channels: int, *, are_sums: bool) -> int:
        """Neighbouring channels of a thread that it stores at once: outputs, or sums."""
        item_bytes = 4 if are_sums or self.image.numerics.output == "s32" else 1
        return math.gcd(thread_channels, CHUNK_BYTES // item_bytes)

    def packed_zero_point(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> int:  # noqa: ARG002
        return zero_point
