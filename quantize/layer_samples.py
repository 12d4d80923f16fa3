"""What a layer multiplies with its weights, as rows of a matrix, taken from runs of a model."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from int8tune.quantize.tensors import int_attribute
from int8tune.quantize.weights import Layer

Array = npt.NDArray[Any]


class Window(NamedTuple):
    """How a convolution moves over its data; each pair is of the two spatial axes."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]


def window_of(layer: Layer, weight: Array) -> Window | None:
    """The window of a 2-D convolution; None for another layer, or where padding is left to the runtime."""
    attributes = {attribute.name: attribute for attribute in layer.node.attribute}
    if layer.node.op_type != "Conv" or weight.ndim != 4:
        return None
    if "auto_pad" in attributes and attributes["auto_pad"].s not in (b"NOTSET", b"VALID"):
        return None

    def numbers(name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(attributes[name].ints) if name in attributes else default

    pads = numbers("pads", (0, 0, 0, 0))
    return Window(tuple(weight.shape[2:]), numbers("strides", (1, 1)), numbers("dilations", (1, 1)), pads)


def groups_of(layer: Layer) -> int:
    """How many groups of channels a layer has that do not see each other."""
    return int_attribute(layer.node, "group", 1)


def views_of(layer: Layer, weight: Array, data: Array) -> Array | None:
    """A layer's data as it is multiplied, without a copy: [samples, rows, columns, channels, taps down, taps across].

    A dense layer has one sample, one column and one tap. None where it is not known what is multiplied.
    """
    window = window_of(layer, weight)
    if window is None:
        return None if layer.node.op_type == "Conv" else data.reshape(1, -1, 1, data.shape[-1], 1, 1)
    top, left, bottom, right = window.pads
    padded = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)))
    spans = [(kernel - 1) * dilation + 1 for kernel, dilation in zip(window.kernel, window.dilations, strict=True)]
    views = np.lib.stride_tricks.sliding_window_view(padded, spans, axis=(2, 3))
    views = views[:, :, :: window.strides[0], :: window.strides[1], :: window.dilations[0], :: window.dilations[1]]
    return views.transpose(0, 2, 3, 1, 4, 5)


def drawn_rows(views: Array, groups: int, most: int, seed: int) -> Array:
    """Rows [groups, rows, weights of an output]; at most so many, drawn with a seed."""
    places = views.shape[:3]
    chosen = np.unravel_index(_drawn(math.prod(places), most, seed), places)
    taken = views[chosen]
    return np.moveaxis(taken.reshape(len(taken), groups, -1), 1, 0)


def mean_row(views: Array, groups: int) -> Array:
    """The mean of all rows [groups, weights of an output]."""
    return np.asarray(views.mean(axis=(0, 1, 2), dtype=np.float64).reshape(groups, -1))


def _drawn(count: int, most: int, seed: int) -> Array:
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))
