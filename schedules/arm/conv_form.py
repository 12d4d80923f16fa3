"""conv2d and dense on ARM: the form that the kernel is written for.

A register tile covers `tile_columns` outputs of one row times `tile_channels` output channels. The last tile of an axis
overlaps its neighbour: the same values are computed and stored twice, and no code for tails is needed. A layer with
fewer channels than a tile has leaves the others zero.

Products are summed in one of four ways:

- `c2`: two products of bytes share 16 bits before pairs of them are added to a sum of 32 (SMULL, SMLAL2, SADALP). A
  register of weights has four taps of four channels, two of them beside each other; data is repeated for the channels.
  Weights of -128 are split in two (`schedules.arm.tiling`).
- `c8`: the same with eight taps, which are channels, beside each other: `schedules.arm.blocked_form`.
- `wide`: weights of 16 bits, without their zero point, times data that is widened in registers (SMLAL by element).
- `dot`: four products a lane (SDOT).

All but `wide` multiply s8 data; u8 data is copied and moved by -128.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.arm.blocked_form import BlockedForm
from int8tune.schedules.arm.tiled_image import TiledImage
from int8tune.schedules.arm.tiling import HEADER_BYTES, LANES, split_weights, tiled_channels, with_headers
from int8tune.schedules.image import Image
from int8tune.schedules.space import Value

# Taps of a channel that are read together, and how many such words are a step of the reduction.
WORDS = {"c2": (4, 2), "wide": (8, 1), "dot": (4, 4)}


@dataclass(frozen=True)
class ConvForm(TiledImage):
    """An image with its register tile; everything the kernel's writer needs.

    Attributes:
        products: how they are summed.
        outer: `weights` keeps a tile's weights for the whole image, `image` takes all weights tile by tile; threads
            share the outer loop.
        unroll: steps of the reduction in one turn of the loop.
    """

    image: Image
    tile_columns: int
    tile_channels: int
    products: str
    outer: str
    unroll: int
    threads: int = 1

    @property
    def taps(self) -> int:
        """Taps of a channel that are read together."""
        return WORDS[self.products][0]

    @property
    def is_paired(self) -> bool:
        return self.products == "c2"

    @property
    def data_offset(self) -> int:
        return -128 if self.image.numerics.data == "u8" and self.products != "wide" else 0

    @property
    def words(self) -> int:
        """Groups of `taps` that cover one run."""
        return math.ceil(self.image.run_length / self.taps)

    @property
    def slack(self) -> int:
        """Values that are read beyond a run."""
        return self.words * self.taps - self.image.run_length

    @property
    def words_of_step(self) -> int:
        """Words of a step of the reduction; the last step of a run may have fewer."""
        return WORDS[self.products][1]

    @property
    def word_bytes(self) -> int:
        """Memory of the weights of one word."""
        return self.tile_channels * self.taps * (2 if self.products == "wide" else 1)

    @property
    def run_bytes(self) -> int:
        """Memory of a tile's weights of one run."""
        taps = self.image.run_length if self.products == "wide" else self.words * self.taps
        return taps * self.tile_channels * (2 if self.products == "wide" else 1)

    @property
    def part_bytes(self) -> int:
        return self.image.window.kernel[0] * self.image.runs * self.run_bytes

    @property
    def tile_bytes(self) -> int:
        return HEADER_BYTES + self.parts * self.part_bytes

    @property
    def parts(self) -> int:
        return 2 if self.is_paired else 1

    @property
    def accumulators(self) -> int:
        """Registers of sums of one column."""
        return self.tile_channels // LANES

    @property
    def sums(self) -> int:
        """Registers of sums of a tile."""
        return self.tile_columns * self.accumulators

    @property
    def whole_steps(self) -> int:
        """Steps of a run that have all their words, and these all their taps."""
        if self.products == "wide":
            return self.image.run_length // self.taps
        return self.words // self.words_of_step

    @property
    def steps_of_turn(self) -> int:
        """Steps in one turn of the loop over a run."""
        return math.gcd(self.whole_steps, self.unroll) if self.whole_steps else 1

    @property
    def turns(self) -> int:
        """Turns of the loop over a run, and what is left."""
        left = self.words > self.whole_steps * self.words_of_step
        return self.whole_steps // self.steps_of_turn + left

    @property
    def copies(self) -> bool:
        """Whether the kernel reads a copy of the image."""
        return any(self.image.window.padding) or self.slack > 0 or self.data_offset != 0

    @property
    def border_taps(self) -> npt.NDArray[np.bool_]:
        return np.ones((1, math.prod(self.image.window.kernel)), bool)

    @cached_property
    def channels(self) -> npt.NDArray[np.int64]:
        """The output channel of each position: [groups * channel tiles * tile channels]."""
        return tiled_channels(self.image.groups, self.image.group_outputs, self.tile_channels)

    @property
    def weight_length(self) -> int:
        return self.image.groups * self.channel_tiles * self.tile_bytes

    def pack(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> npt.NDArray[np.int8]:
        """Weights [OC, KH, KW, C / groups] or [OC, K]: tiles, each of a header, kernel rows, runs, words, channels."""
        values = weight.astype(np.int16) - np.int16(zero_point)
        rows = values.reshape(self.image.out_channels, -1, self.image.run_length)
        tiles = rows[self.channels].reshape(-1, self.tile_channels, *rows.shape[1:])
        if self.products == "wide":
            packed = np.ascontiguousarray(tiles.transpose(0, 2, 3, 1)).astype("<i2")
            return with_headers(packed.reshape(len(tiles), -1).view(np.int8), np.zeros(len(tiles), np.int8))
        padded = np.pad(tiles, [(0, 0), (0, 0), (0, 0), (0, self.slack)])
        words = self._in_order(padded.reshape(*tiles.shape[:2], self.image.window.kernel[0], -1, self.taps))
        if self.is_paired:
            return split_weights(words.reshape(len(tiles), -1))
        return with_headers(words.reshape(len(tiles), -1).astype(np.int8), np.zeros(len(tiles), np.int8))

    def _in_order(self, words: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
        """[tiles, channels, kernel rows, runs * words, taps] as [tiles, kernel rows, a row's weights].

        Words follow each other, each with all channels.
        """
        tiles, channels, rows, _ = words.shape[:4]
        runs = words.reshape(tiles, channels, rows, -1, self.words, self.taps).transpose(0, 2, 3, 4, 1, 5)
        if self.products == "c2":
            halves = runs.reshape(*runs.shape[:4], channels // LANES, LANES, 2, self.taps // 2)
            return halves.swapaxes(5, 6).reshape(tiles, rows, -1)
        return runs.reshape(tiles, rows, -1)

    def packed_zero_point(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> int:  # noqa: ARG002
        """Nothing is left of it: packed weights are without."""
        return 0


def conv_form(image: Image, config: Mapping[str, Value], threads: int) -> ConvForm | BlockedForm:
    """The form of one config."""
    if config["products"] == "c8":
        return BlockedForm(
            image,
            tile_columns=int(config["tile_columns"]),
            tile_channels=int(config["tile_channels"]),
            outer=str(config["outer"]),
            unroll=int(config["unroll"]),
            threads=threads,
        )
    return ConvForm(
        image,
        tile_columns=int(config["tile_columns"]),
        tile_channels=int(config["tile_channels"]),
        products=str(config["products"]),
        outer=str(config["outer"]),
        unroll=int(config["unroll"]),
        threads=threads,
    )
