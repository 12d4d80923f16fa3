"""What kernels for computed weights are made of, without TVM."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from int8tune.compiler.matrices.packing import Packing

LINE_BYTES = 64


def whole_lines(values: int, bytes_of_value: int) -> int:
    """The values of as many cache lines as so many need."""
    return -(-values * bytes_of_value // LINE_BYTES) * LINE_BYTES // bytes_of_value


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """What is packed, and where it lies.

    Attributes:
        size: of the matrices in all.
        batch, strides: matrices [K, N] along each axis, and values from one to the next.
        tap_stride, channel_stride: values from one row of a matrix to the next, and from one column.
        packed_stride, bias_stride: bytes, and values, from one matrix's to the next one's: whole cache lines.
        channels: the column of each value of a bias.
        data_zero_point: of the kernel's data, as the kernel takes it.
        weight_zero_point: of the matrices.
        threads: which share the matrices.
    """

    packing: Packing
    dtype: str
    size: int
    batch: tuple[int, ...]
    strides: tuple[int, ...]
    features: int
    tap_stride: int
    channel_stride: int
    packed_stride: int
    bias_stride: int
    channels: npt.NDArray[np.int32]
    data_zero_point: int
    weight_zero_point: int
    threads: int

    @property
    def count(self) -> int:
        return math.prod(self.batch)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of the layer's kernel.

    Attributes:
        length: values of one call.
        count: how many of them the array has, each `stride` values behind the last one.
        at: for each axis of the batch how many of them one step is; none where all calls take the same.
    """

    name: str
    dtype: str
    length: int
    stride: int
    count: int
    at: tuple[int, ...]

    @property
    def is_aligned(self) -> bool:
        return self.count == 1 or self.stride * self.size_bytes % LINE_BYTES == 0

    @property
    def size_bytes(self) -> int:
        """Bytes of a value."""
        return np.dtype(self.dtype).itemsize

    @property
    def lines(self) -> int:
        """The values of as many cache lines as one call needs."""
        return whole_lines(self.length, self.size_bytes)
