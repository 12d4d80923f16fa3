"""Transposed convolutions as convolutions whose channels are pixels: nothing is multiplied by zeros between pixels.

Output o of an axis is the sum over taps t of x[i] * w[t] with o = stride * i + t - pad. Outputs whose o + pad is p
modulo the stride, the phase p, take the taps p, p + stride, and so on: each phase is a convolution of its own. Where
the stride divides the kernel, all phases have as many taps and are channels of one convolution; else there is one for
each. Their pixels are moved to their places by a depth to space.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from int8tune.compiler.graph import Kind, Quantization
from int8tune.compiler.operators.base import Array, LongArray

Pair = tuple[int, int]
# Each place of a block of outputs has a convolution of its own.
MOST_STRIDE, MOST_SPREAD = 64, 1 << 26


@dataclass(frozen=True, slots=True, eq=False)
class Transposed:
    """A transposed convolution.

    Attributes:
        image: rows and columns of the input.
        made: rows and columns of the output.
        padding: top and left.
        groups: of input channels.
    """

    image: Pair
    made: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    groups: int


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A convolution that makes some phases, or all.

    Attributes:
        weight: [channels, rows, columns, channels of a group].
        channels: for each output channel that of the transposed convolution.
        padding: top, left, bottom, right.
    """

    weight: Array
    channels: LongArray
    padding: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How it is computed: the parts, joined by their channels, then a depth to space, then a slice.

    Attributes:
        size: rows and columns of each part's output.
        minor: whether phases are behind the channels.
        begin: the first row and column that is kept.
    """

    parts: tuple[Part, ...]
    size: Pair
    block: Pair
    minor: bool
    begin: Pair


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis: the first and the last place of a phase's outputs, and the taps of each phase, the last one first."""

    first: int
    last: int
    taps: tuple[tuple[int, ...], ...]


def spread_fault(layer: Transposed, shape: Sequence[int]) -> str | None:
    """Why weights [OC, KH, KW, channels of a group] are too many where they are spread over strides and dilations."""
    if max(layer.stride) > MOST_STRIDE:
        return f"its strides must be at most {MOST_STRIDE}: {list(layer.stride)}"
    steps = zip(layer.stride, layer.dilation, shape[1:3], strict=True)
    spread = math.prod(shape[::3]) * math.prod(step + reach * (taps - 1) for step, reach, taps in steps)
    return f"its weights must have at most {MOST_SPREAD:,} places: {spread:,}" if spread > MOST_SPREAD else None


def plan_of(layer: Transposed, weight: Array, zero_point: int) -> Plan:
    """The plan of a layer with weights [OC, KH, KW, channels of a group]."""
    rows, columns = (_axis(layer, axis, weight.shape[1 + axis]) for axis in (0, 1))
    phases = list(itertools.product(rows.taps, columns.taps))
    kernels = [_taken(weight, *taps, zero_point) for taps in phases]
    channels, paddings = np.arange(len(weight)), [_padding(layer, (rows, columns), kernel) for kernel in kernels]
    minor = False
    if len({kernel.shape for kernel in kernels}) == 1:
        minor = layer.groups > 1
        whole = np.stack(kernels, axis=1 if minor else 0).reshape(-1, *kernels[0].shape[1:])
        each = np.repeat(channels, len(kernels)) if minor else np.tile(channels, len(kernels))
        parts = [Part(np.ascontiguousarray(whole), each, paddings[0])]
    else:
        parts = [Part(kernel, channels, padding) for kernel, padding in zip(kernels, paddings, strict=True)]
    begin = tuple(
        pad - step * axis.first for pad, step, axis in zip(layer.padding, layer.stride, (rows, columns), strict=True)
    )
    size = rows.last - rows.first + 1, columns.last - columns.first + 1
    return Plan(tuple(parts), size, layer.stride, minor, (begin[0], begin[1]))


def part_kind(part: Part, groups: int, channels: int) -> Kind:
    """The kind of a part; `channels` are those of the input."""
    return Kind.DEPTHWISE if groups == channels > 1 and len(part.weight) % channels == 0 else Kind.CONV2D


def part_attributes(part: Part, groups: int) -> Mapping[str, Any]:
    """The attributes of a part as a graph's operator."""
    return {"stride": (1, 1), "padding": part.padding, "dilation": (1, 1), "groups": groups}


def part_quantization(part: Part, quantization: Quantization | None) -> Quantization | None:
    """That of a part's weights or bias."""
    if quantization is None or quantization.axis is None:
        return quantization
    return Quantization(quantization.scale[part.channels], quantization.zero_point[part.channels], 0)


def _axis(layer: Transposed, axis: int, kernel: int) -> _Axis:
    step, pad, reach = layer.stride[axis], layer.padding[axis], layer.dilation[axis]
    extent = reach * (kernel - 1) + 1
    taps = tuple(tuple(range(phase, extent, step))[::-1] or (-1,) for phase in range(step))
    # A part with few taps has no border to make earlier outputs of.
    first = min(pad // step, min(map(len, taps)) - 1)
    return _Axis(first, max((pad + layer.made[axis] - 1) // step, layer.image[axis] - 1), _undilated(taps, reach))


def _undilated(taps: tuple[tuple[int, ...], ...], dilation: int) -> tuple[tuple[int, ...], ...]:
    """The taps of a kernel; -1 for a zero, between those of a dilated one or where a phase has none."""
    return tuple(tuple(tap // dilation if tap >= 0 and tap % dilation == 0 else -1 for tap in each) for each in taps)


def _taken(weight: Array, rows: tuple[int, ...], columns: tuple[int, ...], zero_point: int) -> Array:
    taken = weight[:, list(rows)][:, :, list(columns)]
    is_zero = (np.array(rows) < 0)[:, None] | (np.array(columns) < 0)
    return np.where(is_zero[None, ..., None], np.asarray(zero_point, weight.dtype), taken)


def _padding(layer: Transposed, axes: tuple[_Axis, _Axis], kernel: Array) -> tuple[int, int, int, int]:
    top, left = (kernel.shape[1 + index] - 1 - axis.first for index, axis in enumerate(axes))
    bottom, right = (axis.last - extent + 1 for axis, extent in zip(axes, layer.image, strict=True))
    return top, left, bottom, right
