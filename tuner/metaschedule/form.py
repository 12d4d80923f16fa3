"""The form in which MetaSchedule gets a layer: the loops of its definition and the order of its weights, without TVM.

Nothing is tiled: that is what MetaSchedule decides. Weights lie as what its rules tensorize reads them: on a CPU the
dot product of four bytes a lane, on a GPU the product of two matrices of a warp. The image is copied into a larger one
where it has a border or, on a CPU, channels that do not fill the last four bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.border import BorderClasses, axis_classes, taps_of_both
from int8tune.schedules.image import Image, image_of
from int8tune.schedules.layout import PlainLayout
from int8tune.schedules.target import Target
from int8tune.schedules.template import Rejection
from int8tune.schedules.workload import Conv2d, Dense, DepthwiseConv2d, Workload
from int8tune.schedules.x86.registers import TAPS

Weights = npt.NDArray[np.integer[Any]]


class _CopiedForm(PlainLayout):
    """What the forms share: the image is copied where that gives it a border."""

    image: Image

    @property
    def problem(self) -> Image:
        return self.image

    @property
    def bias_length(self) -> int:
        """How many biases there are: output channels, for each border class."""
        return len(self.border_taps) * self.image.out_channels

    @property
    def data_shape(self) -> tuple[int, ...]:
        """[N, H, W, C]."""
        image = self.image
        return (image.batch, image.height, image.width, image.channels)

    @property
    def copy_shape(self) -> tuple[int, ...]:
        """[N, H, W, C] of the image with its border."""
        top, left, bottom, right = self.image.window.padding
        batch, height, width, channels = self.data_shape
        return (batch, height + top + bottom, width + left + right, channels)

    @property
    def copied(self) -> bool:
        return self.copy_shape != self.data_shape


@dataclass(frozen=True)
class DotForm(_CopiedForm):
    """conv2d and dense: sums over kernel rows, kernel columns, words of four channels, and the channels of a word.

    Attributes:
        lanes: output channels of one dot product.
    """

    image: Image
    lanes: int

    @property
    def words(self) -> int:
        """Words of four data channels."""
        return math.ceil(self.image.channels / TAPS)

    @property
    def blocks(self) -> int:
        """Blocks of output channels."""
        return math.ceil(self.image.out_channels / self.lanes)

    @property
    def copy_shape(self) -> tuple[int, ...]:
        return (*super().copy_shape[:3], self.words * TAPS)

    @property
    def fills_blocks(self) -> bool:
        return self.blocks * self.lanes == self.image.out_channels

    @property
    def output_shape(self) -> tuple[int, ...]:
        """[N, OH, OW, blocks, lanes], or [N, OH, OW, OC] where these don't fill all blocks."""
        image = self.image
        channels = (self.blocks, self.lanes) if self.fills_blocks else (image.out_channels,)
        return (image.batch, *image.output, *channels)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """[blocks, KH, KW, words, lanes, 4]."""
        return (self.blocks, *self.image.window.kernel, self.words, self.lanes, TAPS)

    def pack(self, weight: Weights, zero_point: int) -> Weights:  # noqa: ARG002
        """Weights [OC, KH, KW, C] or [OC, K] in the order of `weight_shape`, zero where there are no channels."""
        image, (rows, columns) = self.image, self.image.window.kernel
        filled = np.zeros((self.blocks * self.lanes, rows, columns, self.words * TAPS), weight.dtype)
        filled[: image.out_channels, ..., : image.channels] = weight.reshape(image.out_channels, rows, columns, -1)
        parts = filled.reshape(self.blocks, self.lanes, rows, columns, self.words, TAPS)
        return np.ascontiguousarray(parts.transpose(0, 2, 3, 4, 1, 5))


@dataclass(frozen=True)
class DepthwiseForm(_CopiedForm):
    """A depthwise convolution: sums over kernel rows and columns."""

    image: Image

    @property
    def output_shape(self) -> tuple[int, ...]:
        """[N, OH, OW, C]."""
        return (self.image.batch, *self.image.output, self.image.channels)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """[KH, KW, C]."""
        return (*self.image.window.kernel, self.image.channels)

    def pack(self, weight: Weights, zero_point: int) -> Weights:  # noqa: ARG002
        """Weights [C, KH, KW] in the order of `weight_shape`."""
        return np.ascontiguousarray(weight.reshape(self.image.channels, -1).T).reshape(self.weight_shape)


@dataclass(frozen=True)
class MatrixForm(_CopiedForm):
    """conv2d and dense on a GPU: sums over kernel rows, kernel columns and channels, in which weights are contiguous.

    So TVM copies them to shared memory as they lie, by vectors, for its products that read weights by columns; it has
    others that read them by rows, for which it turns them on the way. Borders are zeros, and outputs near them have a
    bias of their own: TVM writes no CUDA C++ for vectors of bytes that it does not know. Outputs are one axis of rows:
    where these don't fill products of 16, TVM's rules fail on several axes.
    """

    image: Image

    @property
    def classes(self) -> tuple[BorderClasses, BorderClasses]:
        """The border classes of output rows and of output columns."""
        image = self.image
        sizes = zip((image.height, image.width), image.output, strict=True)
        rows, columns = (axis_classes(image.window, axis, *size) for axis, size in enumerate(sizes))
        return rows, columns

    @property
    def border_taps(self) -> npt.NDArray[np.bool_]:
        (_, rows), (_, columns) = self.classes
        return taps_of_both(rows, columns)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """[N * OH * OW, OC]."""
        return (self.image.batch * math.prod(self.image.output), self.image.out_channels)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """[OC, KH, KW, C]."""
        return (self.image.out_channels, *self.image.window.kernel, self.image.channels)

    def pack(self, weight: Weights, zero_point: int) -> Weights:  # noqa: ARG002
        """Weights [OC, KH, KW, C] or [OC, K] in the order of `weight_shape`."""
        return np.ascontiguousarray(weight.reshape(self.weight_shape))


PeerForm = DotForm | DepthwiseForm | MatrixForm


def peer_workload(workload: Workload, target: Target) -> Workload | Rejection:
    """The layer that MetaSchedule gets in place of one, or why it gets none; its key is that of other values.

    On a GPU data is s8: TVM's intrinsics for tensor cores multiply bytes that are both signed. All else of the layer is
    as it was, zero points included.
    """
    if target.gpu is not None and workload.numerics.data == "u8":
        workload = replace(workload, numerics=replace(workload.numerics, data="s8"))
    form = peer_form(workload, target)
    return form if isinstance(form, Rejection) else workload


def peer_form(workload: Workload, target: Target) -> PeerForm | Rejection:
    """The form of a layer, or why MetaSchedule does not get it."""
    if target.gpu is not None:
        return _matrix_form(workload)
    numerics = workload.numerics
    if (numerics.data, numerics.weight) != ("u8", "s8") or numerics.weight_zero_point:
        return Rejection("data must be u8, weights s8 without a zero point")
    if isinstance(workload, DepthwiseConv2d):
        return _depthwise_form(workload)
    assert isinstance(workload, Conv2d | Dense)
    image = image_of(workload)
    if image.groups != 1:
        return Rejection(f"convolutions in groups are not defined: {image.groups} groups")
    return DotForm(image, target.vector_lanes)


def _matrix_form(workload: Workload) -> PeerForm | Rejection:
    numerics = workload.numerics
    if (numerics.data, numerics.weight) != ("s8", "s8") or numerics.weight_zero_point:
        return Rejection("weights must be s8 without a zero point")
    if isinstance(workload, DepthwiseConv2d) or (isinstance(workload, Conv2d) and workload.groups != 1):
        return Rejection("TVM's tensor-core schedules take no layers with groups")
    assert isinstance(workload, Conv2d | Dense)
    return MatrixForm(image_of(workload))


def _depthwise_form(workload: DepthwiseConv2d) -> PeerForm | Rejection:
    if workload.multiplier != 1:
        return Rejection(f"depthwise layers must have one output for each channel: {workload.multiplier}")
    size = (workload.batch, workload.height, workload.width, workload.channels)
    return DepthwiseForm(Image(*size, workload.channels, workload.window, workload.channels, workload.numerics))
