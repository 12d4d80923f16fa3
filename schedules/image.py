"""The image that conv2d and dense are on, whichever template computes them.

Rows are read as they lie in memory, [N, H, W * C], so the taps of one kernel row that lie next to each other are one
run of `kernel width * channels` values. A 1x1 convolution and a dense layer are an image of one row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from int8tune.schedules.numerics import Numerics
from int8tune.schedules.workload import Conv2d, Dense, Window


@dataclass(frozen=True, slots=True)
class Image:
    """The problem that is left when 1x1 convolutions and dense layers are flattened into one row."""

    batch: int
    height: int
    width: int
    channels: int
    out_channels: int
    window: Window
    groups: int
    numerics: Numerics

    @property
    def output(self) -> tuple[int, int]:
        return self.window.output_size(self.height, self.width)

    @property
    def group_channels(self) -> int:
        return self.channels // self.groups

    @property
    def group_outputs(self) -> int:
        return self.out_channels // self.groups

    @property
    def runs(self) -> int:
        """Runs of adjacent values in one kernel row: one, or one per tap where taps don't touch."""
        return 1 if self.window.dilation[1] == 1 and self.groups == 1 else self.window.kernel[1]

    @property
    def run_length(self) -> int:
        return self.window.kernel[1] * self.group_channels // self.runs


def image_of(workload: Conv2d | Dense) -> Image:
    """The workload as an image, flattened into one row where that changes nothing."""
    if isinstance(workload, Dense):
        rows, channels = workload.rows, workload.in_features
        return Image(1, 1, rows, channels, workload.out_channels, Window((1, 1)), 1, workload.numerics)
    batch, height, width = workload.batch, workload.height, workload.width
    if workload.window == Window((1, 1)):
        batch, height, width = 1, 1, batch * height * width
    return Image(
        batch,
        height,
        width,
        workload.in_channels,
        workload.out_channels,
        workload.window,
        workload.groups,
        workload.numerics,
    )


def turned(image: Image) -> Image:
    """The image with its rows and columns exchanged, and so are those of the kernel."""
    window = image.window
    top, left, bottom, right = window.padding
    exchanged = Window(window.kernel[::-1], window.stride[::-1], (left, top, right, bottom), window.dilation[::-1])
    return replace(image, height=image.width, width=image.height, window=exchanged)


def in_one_row(image: Image) -> Image:
    """The image as one long row, where the kernel has one column and nothing is padded beside it.

    A step down is then a step by a whole row of pixels: rows of the kernel become columns that are a width apart, and
    tiles go on from one row of the image to the next.
    """
    window, width = image.window, image.width
    top, left, bottom, right = window.padding
    if image.height == 1 or window.kernel[1] != 1 or window.stride != (1, 1) or left or right:
        return image
    row = Window((1, window.kernel[0]), (1, 1), (0, top * width, 0, bottom * width), (1, window.dilation[0] * width))
    return replace(image, height=1, width=image.height * width, window=row)
