"""Layers as products of two matrices, without zero points and bias: what libraries for matrices can be asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from int8tune.schedules.numerics import Numerics, Requantize
from int8tune.schedules.operands import Operands
from int8tune.schedules.template import Rejection
from int8tune.schedules.workload import Conv2d, Dense, DepthwiseConv2d, Window, Workload
from int8tune.tuner.bench.operands import layer_operands

Array = npt.NDArray[Any]
ProductOutput = Literal["s8", "s32"]

# Leading dimensions in bytes at which libraries have all their kernels.
ALIGNMENT = 16
_IN_PLACE = Window((1, 1))


@dataclass(frozen=True, slots=True)
class Matrices:
    """Both factors, row by row, as deep as each other; rows of zeros are added to the weights, columns to both.

    Attributes:
        data: [rows, depth], a row for each pixel of the output.
        weight: [columns, depth], a row for each channel.
        channels: columns that count.
    """

    data: Array
    weight: Array
    channels: int

    @property
    def rows(self) -> int:
        return int(self.data.shape[0])

    @property
    def columns(self) -> int:
        return int(self.weight.shape[0])

    @property
    def depth(self) -> int:
        return int(self.data.shape[1])


def is_product(workload: Workload) -> bool:
    """Whether a layer's data is a matrix as it lies in memory: a dense layer, or a convolution 1x1 of every pixel."""
    return isinstance(workload, Dense) or (isinstance(workload, Conv2d) and workload.window == _IN_PLACE)


def product_form(workload: Workload, output: ProductOutput) -> Workload | Rejection:
    """The layer with s8 values, and sums as they are, or scaled by one number and rounded to s8."""
    numerics = workload.numerics
    if isinstance(workload, DepthwiseConv2d) or (isinstance(workload, Conv2d) and workload.groups > 1):
        return Rejection("layers with groups are many small matrices")
    if numerics.weight_zero_point or numerics.weight != "s8":
        return Rejection(f"weights must be s8 and have no zero point: {numerics.weight}")
    if numerics.residual is not None:
        return Rejection("a residual is not added")
    if numerics.clamp:
        return Rejection("outputs are not clamped")
    if numerics.requantize is None and output != "s32":
        return Rejection("sums must be requantized, the output is s32")
    requantize = Requantize("float", per_channel=False) if output == "s8" else None
    return replace(workload, numerics=Numerics("s8", "s8", output, requantize))


def product_operands(form: Workload) -> Operands:
    """Values of a layer that `product_form` returned: those of every comparison, without zero points and bias."""
    operands = layer_operands(form)
    return replace(operands, bias=np.zeros_like(operands.bias), data_zero_point=0, output_zero_point=0)


def matrices_of(workload: Workload, operands: Operands) -> Matrices:
    """The matrices of a layer; where its data is none as it lies in memory, one with a copy for each tap."""
    weight = operands.weight.reshape(workload.out_channels, -1)
    if is_product(workload):
        data = operands.data.reshape(-1, weight.shape[1])
    else:
        assert isinstance(workload, Conv2d)
        data = _patches(operands.data, workload.window)
        data, weight = _widened(data, 1), _widened(weight, 1)
    return Matrices(np.ascontiguousarray(data), _widened(weight, 0), workload.out_channels)


def _patches(data: Array, window: Window) -> Array:
    """A row for each pixel of the output: the pixels under the window there, the border filled with zeros."""
    top, left, bottom, right = window.padding
    padded = np.pad(data, ((0, 0), (top, bottom), (left, right), (0, 0)))
    reach = [dilation * (extent - 1) + 1 for extent, dilation in zip(window.kernel, window.dilation, strict=True)]
    every = sliding_window_view(padded, reach, axis=(1, 2))
    taken = every[:, :: window.stride[0], :: window.stride[1], :, :: window.dilation[0], :: window.dilation[1]]
    batch, height, width, channels, *kernel = taken.shape
    return taken.transpose(0, 1, 2, 4, 5, 3).reshape(batch * height * width, kernel[0] * kernel[1] * channels)


def _widened(matrix: Array, axis: int) -> Array:
    """The matrix with zeros behind its last row or column, up to a multiple of `ALIGNMENT`."""
    missing = -matrix.shape[axis] % ALIGNMENT
    return np.pad(matrix, [(0, missing if axis == index else 0) for index in range(2)])
